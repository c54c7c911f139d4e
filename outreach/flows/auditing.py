"""Audit mail logs: who was mailed twice, by whom, how far apart, why, and which layer let it through.

The ledger is asked for the mails in question only, some at a time: logs may be of another sender, and larger than it.
"""

import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from outreach.audit.copies import Copies, copies_of
from outreach.audit.doubles import Double, Limits, Try, judge
from outreach.audit.files import Read, read_file
from outreach.audit.store import Store
from outreach.audit.times import Clock
from outreach.models import SendAttempt

PART = 500
"""Addresses looked up in the ledger at a time."""


@dataclass
class Audit:
    """The finding. Counts are of addresses but for hops, notices, deferrals (sightings) and lines."""

    read: Read
    addresses: int = 0
    deferrals: int = 0
    hops: int = 0
    notices: int = 0
    series: int = 0
    far_apart: int = 0
    ledger: bool = False
    in_ledger: int = 0
    in_doubt_delivered: int = 0
    doubles: list[Double] = field(default_factory=list)

    @property
    def mailed_twice(self) -> int:
        return len({one.address for one in self.doubles})

    def as_dict(self) -> dict[str, Any]:
        """The finding in the form of `--json`."""
        return {
            "files": self.read.files,
            "lines": self.read.lines,
            "bad_lines": self.read.bad_lines,
            "bad": self.read.bad,
            "warnings": self.read.warnings,
            **{name: getattr(self, name) for name in ("addresses", "deferrals", "hops", "notices", "series")},
            **{name: getattr(self, name) for name in ("far_apart", "ledger", "in_ledger", "in_doubt_delivered")},
            "mailed_twice": self.mailed_twice,
            "kinds": dict(Counter(one.kind for one in self.doubles)),
            "layers": dict(Counter(one.layer for one in self.doubles)),
            "doubles": [one.as_dict() for one in self.doubles],
        }


def audit(*, files: Sequence[Path], clock: Clock, limits: Limits, use_ledger: bool = True) -> Audit:
    """Read the files, in any order, and judge every address that got more than one mail.

    Raises NotALog or OSError for a file that cannot be read.
    """
    read = Read()
    with tempfile.TemporaryDirectory(prefix="rota-audit-") as folder:
        store = Store(Path(folder) / "seen.sqlite")
        try:
            for file in files:
                read_file(file, store=store, clock=clock, read=read)
            store.join()
            result = Audit(read)
            result.addresses, result.deferrals = store.counts()
            result.ledger = use_ledger and SendAttempt.objects.exists()
            for part in parts((address, copies_of(seen)) for address, seen in store.by_address()):
                judge_part(part, result=result, limits=limits)
            if result.ledger:
                result.in_doubt_delivered = sum(map(store.delivered, in_doubt()))
        finally:
            store.close()
    result.doubles.sort(key=lambda one: (one.copies[0].at or 0.0, one.address))
    return result


def parts(rows: Iterable[tuple[str, Copies]]) -> Iterator[list[tuple[str, Copies]]]:
    """The rows, so many at a time."""
    each = iter(rows)
    while part := list(islice(each, PART)):
        yield part


def judge_part(part: Sequence[tuple[str, Copies]], *, result: Audit, limits: Limits) -> None:
    """Judge some addresses, with what the ledger knows of their mails."""
    wanted = {one.mail_id for _, found in part for one in found.got if one.mail_id}
    ledger = tries_of(wanted) if result.ledger else {}
    result.in_ledger += len(ledger)
    for address, found in part:
        result.hops += found.hops
        result.notices += found.notices
        judged = judge(address=address, copies=found.got, ledger=ledger, limits=limits)
        result.doubles += judged.doubles
        result.series += bool(judged.series)
        result.far_apart += bool(judged.far_apart)


def tries_of(mail_ids: Iterable[str]) -> dict[str, list[Try]]:
    """The ledger's tries of these Message-IDs (without brackets), in order."""
    rows = SendAttempt.objects.filter(mail_id__in=[f"<{one}>" for one in mail_ids]).select_related("claim", "step")
    found: dict[str, list[Try]] = {}
    for row in rows.order_by("begun_at", "pk"):
        until = row.claim.ended_at or row.claim.lease_until
        found.setdefault(row.mail_id.strip("<>"), []).append(
            Try(
                worker=row.worker,
                campaign=str(row.claim.campaign_id),
                step=str(row.step_id),
                status=row.status,
                begun_at=row.begun_at.timestamp(),
                claim=row.claim_id,
                held_from=row.claim.claimed_at.timestamp(),
                held_until=until.timestamp(),
                resolved_by=row.resolved_by,
            )
        )
    return found


def in_doubt() -> Iterator[str]:
    """The Message-IDs that wait for evidence."""
    rows = SendAttempt.objects.filter(status=SendAttempt.Status.IN_DOUBT).values_list("mail_id", flat=True)
    return (one.strip("<>") for one in rows.iterator())
