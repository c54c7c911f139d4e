"""Faults on order: the next calls are dropped, left unanswered, turned away or logged out; or all are slow."""

import asyncio
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Literal, get_args

Kind = Literal["close_before", "commit_then_close", "unavailable", "expire_token"]
KINDS = get_args(Kind)

# Which calls a fault without a path meets: those that read or write data, not the token endpoint.
DATA_CALLS = "/services/data/"


@dataclass
class Fault:
    """One rule. It meets the next `times` calls whose path contains `path`.

    close_before: the connection is closed, nothing is done. commit_then_close: the call is carried out, then the
    connection is closed without an answer. unavailable: 503 with an HTML page, nothing is done. expire_token: the
    token that came with the call ends, hence 401.
    """

    kind: Kind
    times: int = 1
    path: str = DATA_CALLS


class Faults:
    """The rules in force, and the stall. Call from the event loop only."""

    def __init__(self) -> None:
        self._rules: list[Fault] = []
        self._stall_s = 0.0
        self._stall_changed = asyncio.Event()

    def add(self, fault: Fault) -> None:
        self._rules.append(fault)

    def clear(self) -> None:
        self._rules.clear()

    def listed(self) -> list[dict[str, object]]:
        """The rules still in force with the number of calls each will still meet."""
        return [asdict(rule) for rule in self._rules]

    def strike(self, path: str) -> Kind | None:
        """The fault that meets this call, the oldest rule first; it counts one call less from now on."""
        for rule in self._rules:
            if rule.path in path:
                rule.times -= 1
                if not rule.times:
                    self._rules.remove(rule)
                return rule.kind
        return None

    def stall(self, seconds: float) -> None:
        """From now on every data call waits this long (real seconds) before anything is done. Those that wait already
        begin their wait again, so 0 lets all go."""
        self._stall_s = seconds
        self._stall_changed.set()
        self._stall_changed = asyncio.Event()

    async def wait_out_stall(self) -> None:
        while self._stall_s:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stall_changed.wait(), self._stall_s)
                continue
            return
