"""Files that are named on the command line: relative to where the person stands, not to where the command runs."""

import os
from pathlib import Path

CALLED_IN = "ROTA_CALLED_IN"
"""Set by `./rota`, which runs every command in the folder of the project: the folder it was called in."""


def given_path(text: str) -> Path:
    """The path that somebody gave, as they gave it where that leads to the file; `-` stays what it is."""
    folder = os.environ.get(CALLED_IN, "")
    if text == "-" or not folder or folder == os.getcwd():
        return Path(text)
    return Path(folder, text)
