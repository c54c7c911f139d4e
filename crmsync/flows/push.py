"""A file becomes a mass update: looked at as a whole, started, queued piece by piece, or taken back again."""

import getpass
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import NamedTemporaryFile

from django.conf import settings

from crmsync import lockpolicy
from crmsync.csvfile import file_digest
from crmsync.describe import read_object
from crmsync.errors import FileRefused, WrongState
from crmsync.field_map import mapping_of
from crmsync.flows.pace import measured_pace
from crmsync.gateway import Org
from crmsync.mapping import ObjectMapping, named
from crmsync.models import Batch, Operation
from crmsync.moves import batches
from crmsync.moves.cancelling import cancel_next
from crmsync.nudge import nudge
from crmsync.outbox import Line
from crmsync.push.checking import Checked, check, rows_of
from crmsync.push.columns import Asked
from crmsync.push.planning import Plan, plan
from crmsync.push.problems import Problems

PART = 2_000
"""Rows queued in one transaction: about a quarter of a second, for which other writers of the same records wait."""


@dataclass(frozen=True, slots=True)
class Looked:
    """A file that was looked at: what was asked, what was found, and, if nothing is wrong with it, the plan."""

    asked: Asked
    checked: Checked
    file: batches.File | None = None
    plan: Plan | None = None


def look(
    path: Path,
    *,
    org: Org,
    object: str,
    operation: Operation,
    key: str = "",
    parent: str = "",
    encoding: str = "",
    name: str = "",
) -> Looked:
    """Everything there is to say of a file, writing nothing. Call outside a transaction.

    Raises NoSuchObject, WrongState for a key that Rota does not know records by, CallFailed, OSError.
    """
    wanted = key or settings.CRM_EXTERNAL_ID_FIELD
    if wanted.casefold() != settings.CRM_EXTERNAL_ID_FIELD.casefold():
        raise WrongState(
            f"Rota knows records by {settings.CRM_EXTERNAL_ID_FIELD} (CRM_EXTERNAL_ID_FIELD), not by {wanted}: "
            "two keys for one record would be two locks. Give the file a column of that name."
        )
    info = read_object(org, object)
    field = info.field(wanted)
    if field is None or not field.external_id:
        raise WrongState(f"{info.name} has no external id field {wanted} in the org; it needs one, unique.")
    policy = lockpolicy.declared(settings.CRM_RELATIONS, owner_locks=settings.CRM_OWNER_LOCKS)
    asked = Asked(info, operation, field.name, parent, policy)
    digest = file_digest(path)
    checked = check(path, asked=asked, encoding=encoding)
    if checked.problems.count or checked.table is None:
        return Looked(asked, checked)
    file = batches.File(name or path.name, digest, encoding, checked.table.columns, checked.rows)
    pace = measured_pace(info.name)
    planned = plan(checked.groups, pace=pace, workers=settings.CRM_WORKERS, labels=checked.labels)
    return Looked(asked, checked, file, planned)


def refuse_if_wrong(looked: Looked) -> batches.File:
    """The file's description. Raises FileRefused with the number of problems."""
    if looked.file is None:
        raise FileRefused(f"{looked.checked.problems.count:,}.")
    return looked.file


def push(
    *, looked: Looked, by: str = "", again: bool = False, told: Callable[[Batch], None] = lambda batch: None
) -> Batch:
    """Queue every row of a file that was looked at; go on where an earlier run was killed. Call outside a transaction.

    `told` is called after each piece. Raises FileRefused, PushedBefore, WrongState if it was cancelled meanwhile.
    """
    file = refuse_if_wrong(looked)
    batch, _ = batches.start(
        file=file,
        object=looked.asked.object.name,
        operation=looked.asked.operation,
        by=by or getpass.getuser(),
        again=again,
    )
    return load(batch=batch, looked=looked, told=told)


def load(
    *,
    batch: Batch,
    looked: Looked,
    told: Callable[[Batch], None] = lambda batch: None,
    until: float | None = None,
) -> Batch:
    """Queue the rows that are not queued yet, until this time.monotonic() second at most.

    Another run of the same file is harmless: each piece is queued once.
    """
    table = mapping_of(batch.object)
    while batch.rows_queued < batch.rows_total:
        at = batch.rows_queued
        for at, lines in pieces(looked, table, skip=batch.rows_queued):
            if (until and time.monotonic() > until) or not batches.queue_lines(batch=batch, at=at, lines=lines):
                break
            batch.refresh_from_db()
            told(batch)
        batch.refresh_from_db()
        if batch.status == Batch.Status.CANCELLED:
            raise WrongState(f"Mass update {batch.pk} was cancelled by {batch.cancelled_by}.")
        if until and time.monotonic() > until:
            return batch
        if batch.rows_queued == at < batch.rows_total:
            raise FileRefused("It was changed after it was looked at.")
    batches.finish_queueing(batch_id=batch.pk)
    batch.refresh_from_db()
    return batch


def pieces(looked: Looked, table: ObjectMapping, *, skip: int) -> Iterator[tuple[int, list[Line]]]:
    """The rows after the first `skip`, some thousand at a time, with how many there are before each piece."""
    assert looked.checked.table is not None and looked.checked.columns is not None
    problems = Problems()
    rows = rows_of(
        looked.checked.table, columns=looked.checked.columns, asked=looked.asked, problems=problems, skip=skip
    )
    at = skip
    while part := list(islice(rows, PART)):
        yield at, [Line(row.line, row.key, named(row.fields, table), row.parents) for row in part]
        at += len(part)
    if problems.count:
        raise FileRefused("It was changed after it was looked at.")


@contextmanager
def uploaded(batch: Batch) -> Iterator[Path]:
    """The uploaded file of a batch, as a file."""
    with NamedTemporaryFile(prefix="push-", suffix=".csv") as file:
        for part in batch.parts.order_by("number").iterator(chunk_size=8):
            file.write(part.content)
        file.flush()
        yield Path(file.name)


def load_uploaded(*, batch_id: int, org: Org, budget_s: float) -> bool:
    """Queue what is left of an uploaded file that somebody said go to; True: some of it is still left.

    Call outside a transaction.
    """
    until = time.monotonic() + budget_s
    batch = Batch.objects.loading().filter(pk=batch_id).first()
    if batch is None or not batch.parts.exists():
        return False
    with uploaded(batch) as path:
        looked = look(path, org=org, object=batch.object, operation=Operation(batch.operation), encoding=batch.encoding)
        refuse_if_wrong(looked)
        batch = load(batch=batch, looked=looked, until=until)
    return batch.status == Batch.Status.LOADING


def cancel(*, batch_id: int, by: str, reason: str) -> int:
    """Cancel a mass update: how many waiting rows were taken out. May be called again. Call outside a transaction."""
    batches.cancel(batch_id=batch_id, by=by, reason=reason)
    return go_on_cancelling(batch_id=batch_id)[0]


def go_on_cancelling(*, batch_id: int, budget_s: float | None = None) -> tuple[int, bool]:
    """Take waiting rows of a cancelled mass update out: how many, and whether more may be left when time is up."""
    until = None if budget_s is None else time.monotonic() + budget_s
    batch = Batch.objects.filter(pk=batch_id, status=Batch.Status.CANCELLED).first()
    total = 0
    while batch and (done := cancel_next(batch_id=batch_id, by=batch.cancelled_by, reason=batch.reason)):
        total += done
        if until and time.monotonic() > until:
            return total, True
    nudge()
    return total, False
