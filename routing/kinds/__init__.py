"""The kinds of source. Each is one small file here, found by itself: how its sender signs, and how its events are read.

To add one, write a file with a `KIND` (see kind.py); no other file has to know it.
"""

import importlib
import pkgutil

from routing.kinds.kind import Kind


def _found() -> dict[str, Kind]:
    kinds = {}
    for module in pkgutil.iter_modules(__path__):
        kind = getattr(importlib.import_module(f"{__name__}.{module.name}"), "KIND", None)
        if isinstance(kind, Kind):
            kinds[module.name] = kind
    return kinds


KINDS: dict[str, Kind] = _found()
"""By name, which is the file's and what a source carries in `kind`."""
STANDARD = "standard"


def kind_of(name: str) -> Kind:
    """The kind of this name. Raises KeyError where its file is gone: its sources cannot be read any more."""
    return KINDS[name]
