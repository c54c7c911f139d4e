"""Replay a team's turns and credits in order, whatever happened to the team, and hold every turn against the rule."""

from collections import defaultdict
from dataclasses import dataclass, field

from routing.models import Assignment, Credit, Membership, Team, Turnstile
from routing.models.team import SCALE
from tests.races.replay import pick


@dataclass
class Ledger:
    """`furthest` is the largest |lag| at any turn, in leads, before a person first moved one of the team: by a credit,
    or by a lead past the turns that counts. `counts` are the turns of each member.
    """

    turns: int = 0
    furthest: float = 0.0
    by_a_person: bool = False
    counts: dict[int, int] = field(default_factory=dict)


def read_ledger(team: Team) -> Ledger:
    """Every turn is numbered, goes to whom the rule says, and moves lags by exactly its shares; AssertionError else."""
    members = {m.pk: m for m in Membership.objects.filter(team=team)}
    lags, lasts = dict.fromkeys(members, 0), dict.fromkeys(members, 0)
    credits: defaultdict[int, list[Credit]] = defaultdict(list)
    for credit in Credit.objects.filter(membership__team=team):
        credits[credit.after_turn].append(credit)
    ledger = Ledger(counts=dict.fromkeys(members, 0))

    def credit_after(turn: int) -> None:
        for credit in credits.pop(turn, ()):
            lags[credit.membership_id] += credit.amount
            ledger.by_a_person = True

    credit_after(0)
    for number, turn in enumerate(
        Assignment.objects.filter(team=team).select_related("roster").order_by("turn"), start=1
    ):
        assert turn.turn == number, "turns are numbered without gaps"
        candidates = {int(member): weight for member, weight in turn.roster.candidates.items()}
        skipped = {int(member) for member in turn.roster.skipped}
        winner = turn.membership_id
        assert winner in candidates and not skipped & set(candidates) and skipped | set(candidates) <= set(members)
        assert turn.lag_before == lags[winner]
        due = {member: SCALE * weight // sum(candidates.values()) for member, weight in candidates.items()}
        for member, share in due.items():
            lags[member] += share
        if turn.preferred or turn.chosen_by:
            ledger.by_a_person |= len(candidates) > 1
        else:
            assert winner == pick(candidates, lags, lasts), f"turn {number} went to somebody else than the rule says"
        lags[winner] -= sum(due.values())
        lasts[winner] = number
        assert turn.lag_after == lags[winner]
        if not ledger.by_a_person:
            ledger.furthest = max(ledger.furthest, max(map(abs, lags.values())) / SCALE)
        ledger.counts[winner] += 1
        ledger.turns = number
        credit_after(number)
    assert not credits, "a credit names a turn that there is not"
    credited = sum(Credit.objects.filter(membership__team=team).values_list("amount", flat=True))
    assert sum(lags.values()) == credited, "lags add up to the credits"
    assert {pk: m.lag for pk, m in members.items()} == lags
    assert {pk: m.last_turn for pk, m in members.items()} == lasts
    stored = Turnstile.objects.filter(team=team).values_list("turn", flat=True).first()
    assert (stored or 0) == ledger.turns
    return ledger
