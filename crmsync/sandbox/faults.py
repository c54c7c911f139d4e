"""Faults on order: rules that say which calls go wrong, and how; and the stall that makes all of them slow."""

import asyncio
import random
from contextlib import suppress
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args

Kind = Literal[
    "close_before",
    "commit_then_close",
    "commit_later",
    "answer_late",
    "cut_short",
    "twice",
    "unavailable",
    "expire_token",
    "unauthorized",
    "concurrent_limit",
    "daily_limit",
    "storage",
    "no_charset",
    "no_content",
    "rows_missing",
    "job_fails",
    "job_sticks",
]
KINDS = get_args(Kind)
JOB_KINDS = ("job_fails", "job_sticks")

# Which calls a fault without a path meets: those that read or write data, not the token endpoint.
DATA_CALLS = "/services/data/"


@dataclass
class Fault:
    """One rule. It meets calls of `method` (any if empty) whose path contains `path` and, if given, names `object`; of
    those it lets the first `nth` - 1 pass, meets each with `probability` (drawn from `seed`), and ends after `times`
    unless it is for `forever`.

    close_before: the connection is closed, nothing is done. commit_then_close: the call is carried out, then the
    connection is closed without an answer. commit_later: the call waits `seconds` before it is carried out, even if the
    client has gone. answer_late: it is carried out, then the answer waits `seconds`. cut_short: carried out, half of
    the answer is sent, then the connection closed. twice: carried out two times, the second answer is given.
    unavailable: `status` (500, 502, 503, 429 ...) with an HTML page, nothing is done. expire_token: the token that came
    with the call ends, hence 401. unauthorized: 401 whatever the token. concurrent_limit, daily_limit: 403
    REQUEST_LIMIT_EXCEEDED. storage: 400 STORAGE_LIMIT_EXCEEDED. no_charset: the answer comes as `text/csv` with no
    charset. no_content: carried out, answered 204. rows_missing: a CSV answer lacks its last row. job_fails: a bulk job
    for `object` fails once `rows` rows are processed. job_sticks: it stays InProgress there until the rule is cleared.
    """

    kind: Kind
    times: int = 1
    path: str = DATA_CALLS
    method: str = ""
    object: str = ""
    nth: int = 1
    probability: float = 1.0
    seed: int = 0
    seconds: float = 0.0
    status: int = 503
    rows: int = 0
    forever: bool = False
    chance: random.Random = field(default_factory=random.Random, repr=False)

    def __post_init__(self) -> None:
        self.chance.seed(self.seed)

    def meets(self, method: str, path: str) -> bool:
        """Whether this call is one of those; counts it if so."""
        if self.kind in JOB_KINDS or self.path not in path or self.method.upper() not in ("", method):
            return False
        if self.object and self.object.lower() not in path.lower().split("/"):
            return False
        if self.nth > 1:
            self.nth -= 1
            return False
        return self.probability >= 1 or self.chance.random() < self.probability

    def shown(self) -> dict[str, Any]:
        """The kind, the count, the path and whatever differs from the ordinary."""
        always = ("kind", "times", "path")
        return {
            known.name: getattr(self, known.name)
            for known in fields(self)
            if known.name != "chance" and (known.name in always or getattr(self, known.name) != known.default)
        }


class Faults:
    """The rules in force, and the stall. Call from the event loop only."""

    def __init__(self) -> None:
        self._rules: list[Fault] = []
        self._stall_s = 0.0
        self._changed = asyncio.Event()

    def add(self, fault: Fault) -> None:
        self._rules.append(fault)

    def clear(self) -> None:
        """No call meets a fault any more; jobs that were stuck go on."""
        self._rules.clear()
        self._wake()

    def listed(self) -> list[dict[str, Any]]:
        """The rules still in force with the number of calls each will still meet."""
        return [rule.shown() for rule in self._rules]

    def strike(self, method: str, path: str) -> Fault | None:
        """The fault that meets this call, the oldest rule first; it counts one call less from now on."""
        return next((self._spend(rule) for rule in self._rules if rule.meets(method, path)), None)

    def strike_job(self, name: str, processed: int) -> Kind | None:
        """The fault that meets a bulk job for this object when so many of its rows are processed."""
        for rule in self._rules:
            if rule.kind in JOB_KINDS and rule.object.lower() in ("", name.lower()) and processed >= rule.rows:
                return rule.kind if rule.kind == "job_sticks" else self._spend(rule).kind
        return None

    async def while_stuck(self) -> None:
        """Return when no rule keeps jobs any more."""
        while any(rule.kind == "job_sticks" for rule in self._rules):
            await self._changed.wait()

    def stall(self, seconds: float) -> None:
        """From now on every data call waits this long (real seconds) before anything is done. Those that wait already
        begin their wait again, so 0 lets all go."""
        self._stall_s = seconds
        self._wake()

    async def wait_out_stall(self) -> None:
        while self._stall_s:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), self._stall_s)
                continue
            return

    def _spend(self, rule: Fault) -> Fault:
        if not rule.forever:
            rule.times -= 1
            if not rule.times:
                self._rules.remove(rule)
        return rule

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
