"""What the mapping of a source makes of the last thing it said, field by field."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from routing.errors import InvalidLead
from routing.kinds import KINDS
from routing.mapping import TARGETS, has_value, map_fields
from routing.models import InboundEvent, InboundSource
from routing.normalise import clean_lead
from routing.replay import read_again

ROWS_MOST = 60
VALUE_MOST = 80
DEEPEST = 4


@dataclass(frozen=True)
class Line:
    """A name of the sender's, its value cut short, and which of our fields it fills, if any."""

    name: str
    value: str
    ours: str = ""


@dataclass(frozen=True)
class Preview:
    """The last event that says who a lead is, its lines, and what is wrong with the lead it makes."""

    event: InboundEvent
    lines: list[Line]
    problems: list[str]


def preview(source: InboundSource) -> Preview | None:
    """Of the newest of the last twenty events that can be read; None where there is none."""
    kind = KINDS.get(source.kind)
    if kind is None:
        return None
    for event in source.events.select_related("fetch").order_by("-pk")[:20]:
        read = read_again(event, kind)
        if read is None or read.ignored or read.fetch:
            continue
        mapped = map_fields(read.fields, usual=kind.usual, mapping=source.mapping)
        taken = {theirs: ours for ours, theirs in mapped.taken.items()}
        if not kind.usual and not source.mapping:
            taken = {ours: ours for ours in TARGETS if ours in read.fields}
        lines = [
            Line(name, value[:VALUE_MOST], taken.get(name, "").replace("_", " "))
            for name, value in list(paths(read.fields))[:ROWS_MOST]
        ]
        return Preview(event, sorted(lines, key=lambda line: not line.ours), problems_of(mapped.payload))
    return None


def problems_of(payload: dict[str, Any]) -> list[str]:
    """Why no lead can be made of it; nothing where one can."""
    try:
        clean_lead(payload)
    except InvalidLead as refusal:
        return [f"{problem['path']} {problem['problem']}" for problem in refusal.problems]
    return []


def paths(fields: Mapping[str, Any], before: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Every name with a value, as a path that the mapping understands."""
    for name, value in fields.items():
        if isinstance(value, Mapping) and depth < DEEPEST:
            yield from paths(value, f"{before}{name}.", depth + 1)
        elif has_value(value):
            yield f"{before}{name}", value if isinstance(value, str) else str(value)
