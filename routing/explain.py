"""Why a lead went where it went: the facts of its assignments in sentences a person can check.

Everything here was recorded at the time; nothing is worked out afterwards.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from routing.conditions import Condition
from routing.models import Assignment, InboundEvent, Lead, Membership
from routing.models.team import SCALE

FAIR = SCALE // 200
"""Less than this, half a hundredth of a lead, reads as "on their share"."""


@dataclass(frozen=True)
class Considered:
    """A member of the team in one turn: a candidate with a weight, or skipped with the reason."""

    name: str
    weight: int | None = None
    share: float = 0
    reason: str = ""
    taker: bool = False


@dataclass(frozen=True)
class Checked:
    """A condition of the rule that decided, the value it saw, and whether it held."""

    condition: str
    seen: str
    held: bool


@dataclass(frozen=True)
class TurnTaken:
    """One assignment of the lead, and who else might have had it."""

    assignment: Assignment
    sentence: str
    candidates: list[Considered]
    skipped: list[Considered]


@dataclass(frozen=True)
class Explanation:
    """How the lead came to its team, what was reported of it, and every turn it went through, newest first."""

    came: list[tuple[str, str]]
    checked: list[Checked]
    events: list[InboundEvent]
    turns: list[TurnTaken] = field(default_factory=list)


def explain(lead: Lead) -> Explanation:
    """Everything known about why this lead is where it is."""
    found = lead.assignments.select_related("membership__rep", "team", "roster").order_by("-id")
    assignments = list(found)
    names = _names(assignments)
    events = lead.events.select_related("source").order_by("-id")[:50]
    return Explanation(
        _came(lead), _checked(lead), list(events), [_turn(assignment, names) for assignment in assignments]
    )


def balance(lag: int | float) -> str:
    """A lag in words: "0.40 leads behind their share", "0.60 leads ahead of their share", "on their share"."""
    if abs(lag) < FAIR:
        return "on their share"
    leads = f"{abs(lag) / SCALE:.2f} leads"
    return f"{leads} behind their share" if lag > 0 else f"{leads} ahead of their share"


def lag_in_short(lag: int) -> str:
    """A lag where there is little room: "0.40 behind", "0.60 ahead", "even"."""
    if abs(lag) < FAIR:
        return "even"
    return f"{abs(lag) / SCALE:.2f} {'behind' if lag > 0 else 'ahead'}"


def phrase(lead: Lead, current: Assignment | None) -> str:
    """Why, in a few words, for a list."""
    if lead.status == Lead.Status.WAITING:
        return "nobody could take it yet"
    if lead.status == Lead.Status.SET_ASIDE:
        return "its turn failed"
    if current is None:
        return "–"
    if current.chosen_by:
        return f"turn {current.turn}, given by {current.chosen_by}"
    if current.preferred:
        return f"turn {current.turn}, preferred"
    return f"turn {current.turn}, {lag_in_short(current.lag_before)}"


def _came(lead: Lead) -> list[tuple[str, str]]:
    """What `why` keeps, line by line: source, rule, the owners asked before it, and what else was recorded."""
    why = dict(lead.why)
    numbers = {"matched", "steps", "team", "preferred", "version"}
    number, name = f"team {lead.team_id}", f"team {lead.team}"
    came = [
        (key.replace("_", " "), str(value).replace(number, name)) for key, value in why.items() if key not in numbers
    ]
    for step in why.get("steps") or ():
        came.append((str(step.get("step", "owner")), f"{step.get('name', '?')}: {step.get('outcome', '?')}"))
    if lead.account:
        came.append(("account", f"{lead.account}, found by the domain of the e-mail address"))
    if lead.previous_id:
        came.append(("came before as", f"lead {lead.previous_id}, closed when this one arrived"))
    return came


def _checked(lead: Lead) -> list[Checked]:
    """The conditions of the rule that decided, as they were that day."""
    rule = lead.why.get("matched") or {}
    return [
        Checked(
            str(Condition(found.get("field", "?"), found.get("operator", "?"), str(found.get("value") or ""))),
            "nothing" if found.get("seen") in (None, "") else str(found["seen"]),
            bool(found.get("held")),
        )
        for found in rule.get("conditions") or ()
    ]


def _names(assignments: Iterable[Assignment]) -> dict[str, str]:
    """Names by membership id, as the rosters write it."""
    ids = {int(pk) for a in assignments for pk in (*a.roster.candidates, *a.roster.skipped)}
    found = Membership.objects.filter(pk__in=ids).values_list("pk", "rep__name")
    return {str(pk): name for pk, name in found}


def _turn(assignment: Assignment, names: dict[str, str]) -> TurnTaken:
    weights: dict[str, Any] = assignment.roster.candidates
    total = sum(weights.values()) or 1
    taker = str(assignment.membership_id)
    candidates = [
        Considered(names.get(pk, f"member {pk}"), weight, weight / total, taker=pk == taker)
        for pk, weight in sorted(weights.items(), key=lambda item: (item[0] != taker, -item[1], names.get(item[0], "")))
    ]
    skipped = [
        Considered(names.get(pk, f"member {pk}"), reason=reason)
        for pk, reason in sorted(assignment.roster.skipped.items(), key=lambda item: names.get(item[0], ""))
    ]
    return TurnTaken(assignment, _sentence(assignment, len(candidates)), candidates, skipped)


def _sentence(assignment: Assignment, count: int) -> str:
    rep = assignment.membership.rep.name
    before, after = balance(assignment.lag_before), balance(assignment.lag_after)
    moved = "which cost nobody a turn." if assignment.lag_before == assignment.lag_after else f"now {after}."
    if assignment.chosen_by:
        note = f" ({assignment.note})" if assignment.note else ""
        return f"{assignment.chosen_by} gave it to {rep} by hand{note}, {moved}"
    if assignment.preferred:
        return f"{rep} is preferred for this lead and was available, {moved}"
    if count == 1:
        return f"{rep} was the only candidate, {moved}"
    return f"Of {count} candidates it was {rep}'s turn: {before} before it, {after} after it."
