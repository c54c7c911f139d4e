"""Which of the mails that an address got are one too many, what kind of fault that is, and which layer let it through.

The kinds: two workers at the same list (parallel workers), one mail sent once more (a retry), two lists or campaigns
that have the address both. What the logs make likely is said to be a guess (`sure` is False); where they do not name
the workers, a retry cannot be told from parallel workers, and the kind is unknown.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from outreach.audit.copies import Copy

Kind = Literal["parallel_workers", "retry", "two_campaigns", "unknown"]
HOLDS: dict[Kind, str] = {"parallel_workers": "claim", "retry": "gate", "two_campaigns": "gate", "unknown": "gate"}
"""The first of Rota's layers that keeps such a thing from happening, where a mail goes through Rota."""
OWN_PART = re.compile(r"[+=].*|[0-9_-]+")


@dataclass(frozen=True)
class Try:
    """What Rota's ledger says of one try: its worker, its claim's span, what came of it. Times are Unix times."""

    worker: str
    campaign: str
    step: str
    status: str
    begun_at: float
    claim: int
    held_from: float
    held_until: float
    resolved_by: str = ""


Ledger = Mapping[str, Sequence[Try]]
"""The tries of each Message-ID, the first first."""


@dataclass(frozen=True)
class Limits:
    """`lease_s`: how long a worker may be at a mail; `within_s`: mails further apart are none unless they say so."""

    lease_s: float
    within_s: float


@dataclass(frozen=True)
class Double:
    """One address that got more than one."""

    address: str
    copies: tuple[Copy, ...]
    kind: Kind
    sure: bool
    because: str
    layer: str
    layer_because: str

    @property
    def apart_s(self) -> float | None:
        times = [one.at for one in self.copies if one.at is not None]
        return round(max(times) - min(times), 3) if len(times) > 1 else None

    @property
    def workers(self) -> tuple[str, ...]:
        if self.kind == "unknown":
            return ("unknown",)
        return tuple(dict.fromkeys(one.worker or "unknown" for one in self.copies))

    def as_dict(self) -> dict[str, Any]:
        return {
            "address": self.address,
            "copies": len(self.copies),
            "workers": list(self.workers),
            "apart_s": self.apart_s,
            "kind": self.kind,
            "sure": self.sure,
            "because": self.because,
            "layer": self.layer,
            "layer_because": self.layer_because,
            "in_rota_held_by": HOLDS[self.kind],
            "mails": [
                {"at": iso(one.at), "worker": one.worker, "message_id": one.mail_id, "id": one.handle}
                | {name: value for name in ("campaign", "step", "subject") if (value := getattr(one, name))}
                | {"places": list(one.places)}
                for one in self.copies
            ],
        }


@dataclass
class Judged:
    """What became of an address with several mails: doubles, or later mails of a series that are none."""

    doubles: list[Double] = field(default_factory=list)
    series: int = 0
    far_apart: int = 0


def judge(*, address: str, copies: Sequence[Copy], ledger: Ledger, limits: Limits) -> Judged:
    """Look at the mails of one address in the order of time, each beside the last of those it may double."""
    judged = Judged()
    groups: list[list[Copy]] = []
    for one in (known(copy, ledger) for copy in copies):
        for group in groups:
            if belongs(one, group[-1], limits):
                group.append(one)
                break
        else:
            if groups:
                same = one.campaign and any(one.campaign == group[-1].campaign for group in groups)
                judged.series += bool(same)
                judged.far_apart += not same
            groups.append([one])
    for group in groups:
        if len(group) > 1:
            kind, sure, because = kind_of(group[0], group[1], limits)
            layer, why = layer_of(group, ledger)
            judged.doubles.append(Double(address, tuple(group), kind, sure, because, layer, why))
    return judged


def known(one: Copy, ledger: Ledger) -> Copy:
    """The copy with campaign and step as the ledger has them."""
    if tries := ledger.get(one.mail_id):
        return Copy(**{**vars(one), "campaign": tries[0].campaign, "step": tries[0].step})
    return one


def belongs(one: Copy, other: Copy, limits: Limits) -> bool:
    """Whether two mails to an address are one too many: not those of two steps of one campaign, nor far apart."""
    if one.mail_id and one.mail_id == other.mail_id:
        return True
    if one.campaign and one.campaign == other.campaign and one.step and other.step:
        return one.step == other.step
    return apart(one, other) <= limits.within_s


def apart(one: Copy, other: Copy) -> float:
    return abs((one.at or 0.0) - (other.at or 0.0)) if one.at is not None and other.at is not None else 0.0


def kind_of(first: Copy, second: Copy, limits: Limits) -> tuple[Kind, bool, str]:
    """The kind of a double, whether that is sure, and what says so."""
    for name, what in (("campaign", "campaigns"), ("subject", "subjects")):
        ours, theirs = getattr(first, name), getattr(second, name)
        if ours and theirs and ours != theirs:
            return "two_campaigns", True, f"two {what}: {ours} and {theirs}"
    if first.sender and second.sender and own(first.sender) != own(second.sender):
        return "two_campaigns", False, f"two senders: {first.sender} and {second.sender}"
    sure = first.named and second.named
    same_worker = first.worker == second.worker
    same_id = bool(first.mail_id) and first.mail_id == second.mail_id
    gap = apart(first, second)
    if not (first.worker and second.worker) or (same_worker and not sure):
        if same_id:
            return "retry", True, f"the same Message-ID again after {words(gap)}"
        return "unknown", False, "the log does not name the workers"
    if same_worker:
        return "retry", True, f"the same worker again after {words(gap)}"
    if gap <= limits.lease_s:
        return "parallel_workers", sure, f"two workers {words(gap)} apart, within one lease of {words(limits.lease_s)}"
    if first.mail_id and first.mail_id == second.mail_id:
        return "retry", True, f"the same Message-ID from another worker {words(gap)} later"
    return "two_campaigns", False, f"two workers {words(gap)} apart, and nothing that names a campaign"


def own(sender: str) -> str:
    """A sender without what is made for each mail: `bounce+ann=acme.example@` or numbers."""
    local, _, domain = sender.lower().partition("@")
    return f"{OWN_PART.sub('', local)}@{domain}"


def layer_of(group: Sequence[Copy], ledger: Ledger) -> tuple[str, str]:
    """Which of Rota's layers let it through, by the ledger: job lock, claim, gate, a person, or none of them."""
    unknown = [one for one in group if one.mail_id not in ledger]
    if unknown:
        who = "none of these mails" if len(unknown) == len(group) else f"only {len(group) - len(unknown)} of them"
        return "none", f"another sender: {who} went through Rota, whose layers were not asked"
    if len({one.mail_id for one in group}) > 1:
        return "gate", "the quiet period did not hold back the later campaign"
    tries = [one for one in ledger[group[0].mail_id] if one.begun_at]
    if len(tries) == 1:
        return "none", f"{tries[0].worker} handed it over once; a relay delivered it more often"
    if decided := next((one.resolved_by for one in tries if one.status == "disproved"), ""):
        return "person", f"{decided} said that it had not gone and had it sent again"
    if any(one.status in ("deferred", "refused") for one in tries[:-1]):
        return "none", "the relay had refused the first and delivered it all the same"
    failed = ["gate"]
    together = any(a.held_until > b.held_from for a, b in zip(tries, tries[1:], strict=False) if a.claim != b.claim)
    if together:
        failed = ["job lock", "claim", "gate"] if tries[0].worker != tries[1].worker else ["claim", "gate"]
    return failed[0], f"two intents for one step and address; failed: {', '.join(failed)}"


def iso(at: float | None) -> str | None:
    return None if at is None else datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")


def words(seconds: float) -> str:
    """7 s, 5 min, 1.0 h, 3.0 days."""
    for size, unit in ((86_400, "days"), (3_600, "h")):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds / 60:.0f} min" if seconds >= 120 else f"{seconds:g} s"
