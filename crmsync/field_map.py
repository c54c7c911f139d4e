"""Which fields of an object are sent, and under which name: the usual table, and above it what people changed.

Read for every chunk, one indexed look: a change counts from the next chunk on, in every process.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from django.conf import settings

from crmsync.kinds import TEXTS
from crmsync.mapping import MAPPING, NO_TABLE, ObjectMapping
from crmsync.models import FieldMapping


def mapping_of(object: str) -> ObjectMapping:
    """The table of this object as it stands; of an object that has none, an empty one."""
    return table_with(object, list(FieldMapping.objects.filter(object=object)))


def table_with(object: str, rows: Sequence[FieldMapping]) -> ObjectMapping:
    """The table of this object if these were the rows that people keep. A row takes its field from the usual line."""
    usual = MAPPING.get(object, NO_TABLE)
    own: Mapping[str, str] = settings.CRM_MAIL_FIELDS if object == "Lead" else {}
    if not rows and not own:
        return usual
    changed = {row.ours: row.theirs for row in rows}
    taken = {theirs.casefold() for theirs in changed.values()}
    lines = {ours: theirs for ours, theirs in {**own, **usual.fields}.items() if theirs.casefold() not in taken}
    return replace(
        usual,
        fields={ours: theirs for ours, theirs in {**lines, **changed}.items() if theirs},
        lengths={**usual.lengths, **{row.theirs: row.length for row in rows if row.length}},
        texts=frozenset(row.theirs for row in rows if row.kind in TEXTS),
    )
