"""Find in what a sender said, by the sender's own names, what Rota wants to know of a lead.

Pure. A source may name where each of our fields stands; the kind's usual names serve where it does not. Everything
else is kept with the lead under the name it came with.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from routing.normalise import LENGTHS, tidy

OURS = ("email", "phone", *LENGTHS)
TARGETS = (*OURS, "full_name")
"""What a source may map. A full name is no field of a lead: it fills the first and last name where both are missing."""
NAMES_MOST = 20


@dataclass(frozen=True)
class Mapped:
    """`payload` is a lead in our names, with the rest beside it; `taken` says which of the sender's names gave what."""

    payload: dict[str, Any]
    taken: dict[str, str] = field(default_factory=dict)


def map_fields(
    fields: Mapping[str, Any], *, usual: Mapping[str, Sequence[str]], mapping: Mapping[str, Sequence[str]]
) -> Mapped:
    """Bring a sender's fields into ours. Without any names, usual or mapped, they are taken as they are."""
    if not usual and not mapping:
        return Mapped(dict(fields))
    known = {squashed(name): name for name in reversed(list(fields))}  # of two alike the first counts
    payload: dict[str, Any] = {}
    taken: dict[str, str] = {}
    for ours in TARGETS:
        found = _first(fields, known, mapping.get(ours), usual.get(ours, () if usual else (ours,)))
        if found:
            taken[ours], payload[ours] = found[0], _plain(found[1])
    split_full_name(payload)
    used = {name for ours, name in taken.items() if ours != "full_name"}
    for name, value in fields.items():
        if name not in used:
            # Another "email" than the one that was mapped must not be taken for the lead's.
            payload[f"sent_{name}" if name in OURS or name in payload else name] = value
    return Mapped(payload, taken)


def _first(
    fields: Mapping[str, Any], known: Mapping[str, str], mapped: Sequence[str] | None, usual: Sequence[str]
) -> tuple[str, Any] | None:
    """The first name with a value. Mapped names are exact or a path with dots; usual ones are compared squashed."""
    for name in mapped or ():
        value = fields[name] if name in fields else at_path(fields, name)
        if has_value(value):
            return name, value
    for name in () if mapped else usual:
        real = known.get(squashed(name))
        if real is not None and has_value(fields[real]):
            return real, fields[real]
    return None


def at_path(fields: Mapping[str, Any], path: str) -> Any:
    """What stands at a path like contact.emails.0, or None."""
    value: Any = fields
    for step in path.split("."):
        if isinstance(value, Mapping):
            value = value.get(step)
        elif isinstance(value, list):
            value = value[int(step)] if step.isdecimal() and int(step) < len(value) else None
        else:
            return None
    return value


def has_value(value: Any) -> bool:
    """Whether anything was given: not null, no empty text, no empty list or object."""
    return value is not None and value != [] and value != {} and not (isinstance(value, str) and not tidy(value))


def squashed(name: str) -> str:
    """A name as it is compared: without case, blanks and punctuation."""
    return "".join(sign for sign in name.casefold() if sign.isalnum())


def split_full_name(payload: dict[str, Any]) -> None:
    """Fill first and last name from a full name where neither was given: what stands before the last blank is first."""
    full = payload.pop("full_name", None)
    if isinstance(full, str) and not (payload.get("first_name") or payload.get("last_name")):
        first, _, last = tidy(full).rpartition(" ")
        payload |= {"first_name": tidy(first), "last_name": last} if first else {"last_name": last}


def _plain(value: Any) -> Any:
    """A number as a text, and a list of one as that one: form tools send both for texts."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
