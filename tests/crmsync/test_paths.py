"""Files on the command line are those of the folder the person stands in."""

import os
from pathlib import Path

import pytest

from crmsync.paths import CALLED_IN, given_path


@pytest.mark.parametrize(
    "called_in, text, path",
    [
        ("/srv/exports", "mail.log", "/srv/exports/mail.log"),
        ("/srv/exports", "../mail.log", "/srv/exports/../mail.log"),
        ("/srv/exports", "/var/log/mail.log", "/var/log/mail.log"),
        ("/srv/exports", "-", "-"),
        (os.getcwd(), "mail.log", "mail.log"),
        ("", "mail.log", "mail.log"),
    ],
)
def test_a_path_is_relative_to_where_rota_was_called(
    monkeypatch: pytest.MonkeyPatch, called_in: str, text: str, path: str
) -> None:
    monkeypatch.setenv(CALLED_IN, called_in)
    assert given_path(text) == Path(path)
    monkeypatch.delenv(CALLED_IN)
    assert given_path(text) == Path(text)
