"""From what was seen of an address to the mails it got: retries of a delivery, hops and replays are no second mail."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from outreach.audit.sightings import worker_in
from outreach.audit.store import Seen

SAME_MOMENT_S = 2.0
"""One delivery that two logs tell of may differ by a rounded second."""
TAKEN_IN_BY = re.compile(r"(geopod-)?ismtpd", re.IGNORECASE)
"""Machines of a provider that name a mail: which of them took it in says nothing of who sent it."""
HERE = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class Copy:
    """One mail that reached an address. `named`: the worker is named somewhere, not just guessed from a host."""

    handle: str
    road: str
    at: float | None
    mail_id: str = ""
    worker: str = ""
    named: bool = False
    campaign: str = ""
    step: str = ""
    sender: str = ""
    subject: str = ""
    onward: str = ""
    states: frozenset[str] = frozenset()
    places: tuple[str, ...] = ()

    @property
    def arrived(self) -> bool:
        """It was delivered, or handed over and nothing was heard to the contrary."""
        return "delivered" in self.states or self.states == {"handed"}


@dataclass
class Copies:
    """The mails that an address got, and what was seen that is none."""

    got: list[Copy] = field(default_factory=list)
    hops: int = 0
    notices: int = 0


def copies_of(seen: Sequence[Seen]) -> Copies:
    """The mails of one address, in the order of time."""
    found = Copies()
    groups: dict[tuple[str, str, str], list[Seen]] = {}
    for one in seen:
        if one.sender == "<>":  # a bounce or another notice of a mail system
            found.notices += 1
            continue
        handle = one.handle or one.mail_id or f"{one.worker} {one.at or one.place}"
        road = "named" if one.road == "events" and handle == one.mail_id else one.road
        groups.setdefault((road, one.host, handle), []).append(one)
    copies = [copy for (road, _, handle), rows in groups.items() for copy in of_one_handle(road, handle, rows)]
    copies = without_hops(copies, found)
    found.got = sorted((one for one in merged(copies) if one.arrived), key=lambda one: (one.at or 0.0, one.handle))
    return found


def of_one_handle(road: str, handle: str, rows: Sequence[Seen]) -> Iterable[Copy]:
    """The mail of one handle; and once more for each time a relay delivered the very same again."""
    mail_id = next((row.mail_id for row in rows if row.mail_id), "")
    worker, named = worker_of(rows, mail_id)
    at = [row.at for row in rows if row.state == "delivered" and row.at is not None]
    first = Copy(
        handle=handle,
        road=road,
        at=min(at) if at else next((row.at for row in rows if row.at is not None), None),
        mail_id=mail_id,
        worker=worker,
        named=named,
        campaign=next((row.campaign for row in rows if row.campaign), ""),
        step=next((row.step for row in rows if row.step), ""),
        sender=next((row.sender.strip("<>") for row in rows if row.sender), ""),
        subject=next((row.subject for row in rows if row.subject), ""),
        onward=next((row.onward for row in rows if row.onward), ""),
        states=frozenset(row.state for row in rows),
        places=tuple(dict.fromkeys(row.place for row in rows)),
    )
    yield first
    if road == "postfix" and at:
        last = min(at)
        for row in sorted((row for row in rows if row.state == "delivered"), key=lambda row: row.at or 0):
            if row.at is not None and row.at - last > SAME_MOMENT_S:
                last = row.at
                again = replace(first, at=row.at, handle=f"{handle} again", places=(row.place,), onward=row.onward)
                yield replace(again, states=frozenset({"delivered"}))


def worker_of(rows: Sequence[Seen], mail_id: str) -> tuple[str, bool]:
    """Who sent it, and whether something names them: event, Message-ID, client; at last the relay's host."""
    told = worker_in(mail_id)
    said = next((row.worker for row in rows if row.worker), "")
    if said and (rows[0].road == "events" or (not told and said not in HERE)):
        return said, True
    if told:
        return told, True
    host = mail_id.partition("@")[2]
    if TAKEN_IN_BY.match(host):
        host = ""
    return host or rows[0].host, False


def without_hops(copies: Sequence[Copy], found: Copies) -> list[Copy]:
    """A relay that queued a mail onward, and the next one's word on it, tell of one mail: the first, as it ended."""
    by_queue: dict[str, list[Copy]] = {}
    for one in copies:
        if one.road == "postfix":
            by_queue.setdefault(one.handle.partition("#")[0], []).append(one)
    left = list(copies)
    for one in sorted((c for c in copies if c.onward), key=lambda c: c.at or 0.0, reverse=True):
        current = next((c for c in left if c.handle == one.handle and c.places == one.places), None)
        for other in by_queue.get(one.onward, ()):
            follows = next((c for c in left if c.handle == other.handle), None)
            same = not one.mail_id or not other.mail_id or one.mail_id == other.mail_id
            if current is None or follows is None or follows is current or not same:
                continue
            left.remove(follows)
            left[left.index(current)] = replace(
                current, states=follows.states, places=current.places + follows.places, onward=""
            )
            found.hops += 1
            break
    return left


def merged(copies: Sequence[Copy]) -> list[Copy]:
    """Several kinds of logs may tell of one mail: it came as often as the one says that says most."""
    by_id: dict[str, dict[str, list[Copy]]] = {}
    for one in copies:
        by_id.setdefault(one.mail_id or f"{one.road} {one.handle}", {}).setdefault(one.road, []).append(one)
    left = []
    for roads in by_id.values():
        most = max(roads.values(), key=len)
        others = [one for road in roads.values() if road is not most for one in road]
        left += [filled(one, others, alone=len(most) == 1) for one in most]
    return left


def filled(one: Copy, others: Sequence[Copy], *, alone: bool) -> Copy:
    """What the other logs know of the same mail. Its worker and end only where there is no question which is meant."""
    known: dict[str, Any] = {
        name: next((getattr(other, name) for other in others if getattr(other, name)), "")
        for name in ("campaign", "step", "sender", "subject")
        if not getattr(one, name)
    }
    one = replace(one, **known)
    if alone and others:
        named = next((other for other in others if other.named), None)
        if named is not None and not one.named:
            one = replace(one, worker=named.worker, named=True)
        one = replace(one, states=one.states.union(*(other.states for other in others)))
        one = replace(one, places=one.places + tuple(place for other in others for place in other.places))
    return one
