"""The journal: each transaction that ended, who it was, what it locked, how long it waited and held."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from crmsync.sandbox.errors import RowError
from crmsync.sandbox.locks import Holder


@dataclass(frozen=True)
class Caller:
    """Who sent a request, by its own words: `Sforce-Call-Options: client=`, `X-Request-Id` and User-Agent."""

    client: str
    request_id: str
    agent: str


@dataclass(frozen=True)
class Call:
    """The request a transaction serves."""

    caller: Caller
    method: str
    path: str


def entry(
    *,
    call: Call,
    holder: Holder,
    objects: Sequence[str],
    errors: Sequence[RowError | None],
    written: Sequence[str],
    started_at: str,
    committed_at: str | None,
) -> tuple[int, str]:
    """The number of the transaction and its line as JSON. Times are stamps, durations milliseconds.

    `errors` has one element for each row, None for a row that was committed. `held_ms` runs from the first lock to the
    moment the commit is handed to the disk; the locks are released a little later, when the disk has confirmed it.
    `waited_for` are the numbers of the transactions (or holds from outside) that stood before it in any queue.
    """
    codes = Counter(error.code for error in errors if error is not None)
    failed = sum(codes.values())
    succeeded = len(errors) - failed
    line = {
        "number": holder.number,
        "who": asdict(call.caller),
        "method": call.method,
        "path": call.path,
        "objects": sorted(set(objects)),
        "rows": len(errors),
        "succeeded": succeeded,
        "failed": failed,
        "errors": dict(codes),
        "outcome": "refused" if committed_at is None else "partial" if failed else "committed",
        "written": list(written),
        "locks": sorted(holder.held),
        "waits": [asdict(wait) for wait in holder.waits],
        "waited_for": sorted({number for wait in holder.waits for number in wait.behind}),
        "waited_ms": round(holder.waited_ms, 1),
        "held_ms": round(holder.held_ms, 1),
        "started_at": started_at,
        "committed_at": committed_at,
    }
    return holder.number, json.dumps(line, ensure_ascii=False)
