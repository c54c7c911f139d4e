"""Import a file of leads: receive it, rehearse it, then take it in chunk by chunk until all rows have a verdict.

A chunk's leads, events, verdicts and the position behind it are one transaction. Whoever goes on, after a pause or a
death, begins with the row behind the last one committed; so nothing is lost and nothing comes twice. Leads go in as
waiting, by the road a webhook's leads take, and are given out by their team's turns.
"""

import logging
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import psycopg
import psycopg.errors
from django.db import DatabaseError, IntegrityError, transaction

from crmsync.csvfile import Record, Table
from crmsync.nudge import ask
from routing import columns, import_states
from routing.errors import BadFile, Busy
from routing.import_chunks import Judged, judge, write_verdicts
from routing.import_files import look_at, open_kept
from routing.import_rows import Row, reader_of, share_phones
from routing.models import ColumnMap, Import, ImportRow, InboundSource
from routing.seen_lines import SeenLines

logger = logging.getLogger(__name__)

CHUNK = 2_000
"""Rows in one transaction: about half a second on one core."""
BUDGET_S = 20
"""How long one task goes on before it asks for the next; below q2's task timeout, together with finding the place."""
SAMPLE = 200
TRIES = 5
PATIENCE_S = 0.2
PROBLEMS_SHOWN = 20
Say = Callable[[Import], None]


@dataclass
class Rehearsed:
    """What an import would come to: rows by verdict, and the first of those that would be rejected."""

    records: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    problems: list[dict[str, object]] = field(default_factory=list)
    whole: bool = True


def receive(
    *,
    path: Path,
    digest: str,
    file_name: str,
    source: InboundSource,
    by: str,
    encoding: str = "",
    delimiter: str = "",
    header_line: int | None = None,
    mapping: Sequence[str] | None = None,
    match_phones: bool | None = None,
) -> Import:
    """An import of a kept file, its columns mapped as the last time, or as their names say. It is not saved.

    What the caller gives is not guessed. Raises BadFile, BadMapping.
    """
    table = look_at(path, encoding=encoding, delimiter=delimiter, header_line=header_line)
    sample = [record for record in islice(table.records(), SAMPLE) if not record.problem]
    guessed = mapping is None
    if mapping is None:
        mapping = remembered(table) or columns.guess(table.header, [record.cells for record in sample])
    else:
        mapping = columns.check(mapping, columns=len(table.header))
    notices = list(table.notices)
    if match_phones is None:
        read = reader_of(mapping, match_phones=True)
        match_phones = not share_phones([read(record) for record in sample])
        if not match_phones:
            notices.append(
                "People with different e-mail addresses share a phone number in this file, so its rows are matched by "
                "e-mail address only."
            )
    if guessed and "email" not in mapping and "phone" not in mapping:
        notices.append("No column looks like an e-mail address or a phone number: say which one is.")
    return Import(
        source=source,
        file_name=file_name[-200:] or "file",
        digest=digest,
        again=Import.objects.filter(digest=digest, source=source, undone_at__isnull=False).count(),
        encoding=table.encoding,
        delimiter=table.dialect.delimiter,
        header_line=table.header_line,
        columns=list(table.columns),
        mapping=list(mapping),
        match_phones=match_phones,
        notices=notices,
        received_by=by[:150],
    )


def save(*, row: Import) -> tuple[Import, bool]:
    """Save a received import; or return the one of the same file and source that has not ended, and False."""
    open_one = Import.objects.filter(source_id=row.source_id, digest=row.digest, status__in=Import.OPEN)
    while True:
        if found := open_one.first():
            return found, False
        try:
            with transaction.atomic(durable=True):
                row.save(force_insert=True)
            return row, True
        except IntegrityError as fault:
            if not isinstance(fault.__cause__, psycopg.errors.UniqueViolation):
                raise


def remembered(table: Table) -> list[str] | None:
    """How columns with these names were mapped the last time somebody imported them."""
    found = ColumnMap.objects.filter(signature=columns.signature(table.columns)).first()
    return list(found.mapping) if found and len(found.mapping) == len(table.header) else None


def start(*, row: Import) -> bool:
    """Let an import run in the background and remember its mapping; False if it runs or has ended.

    Raises BadMapping.
    """
    columns.check(row.mapping, columns=len(row.columns))
    started = import_states.start(import_id=row.pk)
    if started:
        signature = columns.signature(row.columns)
        ColumnMap.objects.update_or_create(signature=signature, defaults={"mapping": row.mapping})
        ask("routing.tasks.run_import", row.pk)
    return started


def ask_for_unattended() -> int:
    """Have somebody go on with every running import that nobody works on. Return how many."""
    ids = list(import_states.unattended().values_list("pk", flat=True))
    for import_id in ids:
        ask("routing.tasks.run_import", import_id)
    return len(ids)


def rehearse(*, row: Import, most: int | None = None) -> Rehearsed:
    """What the rows, or the first `most`, would come to: the same code, each chunk rolled back. Raises BadFile."""
    found, seen = Rehearsed(), SeenLines()
    records = open_kept(row).records()
    for chunk in chunks(islice(records, most), row):
        with transaction.atomic(durable=True):
            judged, _ = judge(of=row, source=_source(row), rows=chunk, seen=seen)
            transaction.set_rollback(True)
        found.records += len(judged)
        found.verdicts.update(each.verdict for each in judged)
        bad = (each for each in judged if each.verdict == ImportRow.Verdict.REJECTED)
        room = PROBLEMS_SHOWN - len(found.problems)
        found.problems += [{"line": each.row.line, "reason": each.reason} for each in islice(bad, room)]
    found.whole = most is None or next(records, None) is None
    return found


def run(*, import_id: int, budget_s: float = BUDGET_S, say: Say | None = None) -> Import:
    """Go on with a running import until it ends or the budget is spent; then the next task is asked for.

    `say` is told after every chunk. Raises ImportTaken if somebody else works on it, or it was paused or cancelled.
    """
    token = import_states.claim(import_id=import_id)
    until = time.monotonic() + budget_s
    row = Import.objects.get(pk=import_id)
    teams: set[int] = set()
    try:
        table = open_kept(row)
        if row.total is None:
            import_states.count(import_id=import_id, token=token, total=sum(1 for _ in table.records()))
        for chunk in chunks(islice(table.records(), row.position, None), row):
            teams |= commit(row=row, token=token, rows=chunk)
            row.refresh_from_db()
            if say:
                say(row)
            if time.monotonic() > until:
                import_states.release(import_id=import_id, token=token)
                ask("routing.tasks.run_import", import_id)
                break
        else:
            import_states.finish(import_id=import_id, token=token)
    except (BadFile, OSError) as fault:
        import_states.fail(import_id=import_id, token=token, problem=str(fault))
    except (DatabaseError, Busy) as fault:
        logger.warning("import interrupted import=%s fault=%s", import_id, type(fault.__cause__ or fault).__name__)
        import_states.release(import_id=import_id, token=token)  # the sweep has somebody go on with it
        raise
    finally:
        for team_id in sorted(teams):
            ask("routing.tasks.sweep_team", team_id)
    row.refresh_from_db()
    return row


def chunks(records: Iterator[Record], row: Import) -> Iterator[list[Row]]:
    """The records as rows, by this import's mapping, so many at a time."""
    read = reader_of(row.mapping, match_phones=row.match_phones)
    while chunk := [read(record) for record in islice(records, CHUNK)]:
        yield chunk


def commit(*, row: Import, token: uuid.UUID, rows: Sequence[Row]) -> set[int]:
    """Take in these rows, which follow on `row.position`. Return the teams of the leads made. Raises ImportTaken.

    Where another transaction holds an address, the chunk is tried again. Where the database refuses a value, the rows
    are taken one by one, and the one it refuses is rejected.
    """
    for tried in range(1, TRIES + 1):
        try:
            return _commit(row, token, rows)
        except (DatabaseError, Busy) as fault:
            if isinstance(fault, DatabaseError) and not isinstance(fault.__cause__, AGAIN + REFUSED):
                raise
            if tried == TRIES:
                if not isinstance(fault.__cause__, REFUSED):
                    raise
                return _one_by_one(row, token, rows, fault)
            time.sleep(PATIENCE_S * tried)
    raise AssertionError("unreachable")


AGAIN = (psycopg.errors.DeadlockDetected, psycopg.errors.LockNotAvailable, psycopg.errors.UniqueViolation)
REFUSED = (psycopg.DataError, psycopg.IntegrityError, psycopg.errors.RaiseException)


def _one_by_one(row: Import, token: uuid.UUID, rows: Sequence[Row], fault: Exception) -> set[int]:
    if len(rows) == 1:
        refusal = f"the database refused it: {type(fault.__cause__).__name__}"
        return _commit(row, token, [Row(rows[0].number, rows[0].line, reason=refusal)])
    teams: set[int] = set()
    for each in rows:
        row.refresh_from_db()
        teams |= commit(row=row, token=token, rows=[each])
    return teams


def _commit(row: Import, token: uuid.UUID, rows: Sequence[Row]) -> set[int]:
    source = _source(row)
    with transaction.atomic(durable=True):
        held = import_states.hold(import_id=row.pk, token=token, position=row.position)
        judged: list[Judged]
        judged, teams = judge(of=held, source=source, rows=rows)
        verdicts = write_verdicts(of=held, judged=judged)
        import_states.advance(import_id=row.pk, **{verdict: verdicts[verdict] for verdict in ImportRow.Verdict.values})
    return teams


def _source(row: Import) -> InboundSource:
    """The source, with the rules that are published at this moment."""
    return InboundSource.objects.with_book().get(pk=row.source_id)
