"""Give a member a credit, or take one, and give turns back that came to nothing.

Every credit is a row with its reason and giver, written together with the lag it moves, under the team's turnstile.
So a team's lags always add up to its credits, and a replay of turns and credits in order gives today's lags.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from decimal import Decimal

from django.db.models import F, QuerySet

from routing.errors import NoCredit
from routing.models import Assignment, Credit, Membership, Turnstile
from routing.models.team import SCALE
from routing.shares import moved
from routing.turnstiles import hold_turnstiles

MOST = Decimal(1_000)
"""Leads in one credit at most: more is a slip of the hand."""


def give_credit(*, membership: Membership, leads: Decimal, reason: str, by: str) -> Credit:
    """Let a member be owed `leads` more than now, or fewer where it is below nought. Call inside a transaction.

    Raises NoCredit without a reason, a giver, or an amount other than nought that is at most MOST.
    """
    hold_turnstiles(team_ids=[membership.team_id])
    return _credit(membership, leads, reason, by)


def give_credits(*, memberships: QuerySet[Membership], leads: Decimal, reason: str, by: str) -> int:
    """The same credit for each of these members. Return how many. Call inside a transaction. Raises NoCredit."""
    hold_turnstiles(team_ids=memberships.values_list("team_id", flat=True))
    return len([_credit(membership, leads, reason, by) for membership in memberships.order_by("team_id", "pk")])


def _credit(membership: Membership, leads: Decimal, reason: str, by: str) -> Credit:
    amount = int(leads * SCALE)
    if not amount or abs(leads) > MOST or not reason.strip() or not by.strip():
        raise NoCredit
    Membership.objects.filter(pk=membership.pk).update(lag=F("lag") + amount)
    return Credit.objects.create(
        membership=membership,
        kind=Credit.Kind.MANUAL,
        amount=amount,
        after_turn=_latest_turn(membership.team_id),
        reason=reason.strip(),
        by=by.strip(),
    )


def give_back(*, assignments: Iterable[Assignment], reason: str, by: str, again: bool = False) -> dict[int, int]:
    """Undo what the turns of these assignments did to lags; return the sum by member. Call inside a transaction.

    The winner gets the turn back and every candidate returns the share received then, so the sum is nought. A turn with
    one candidate moved nobody and gives nothing back. The caller has ended the assignments in this transaction, so none
    is given back twice. `again` lets turns count once more that were given back before.
    """
    by_team: defaultdict[int, Counter[int]] = defaultdict(Counter)
    for assignment in assignments:
        weights = {int(member): weight for member, weight in assignment.roster.candidates.items()}
        change = moved(weights=weights, winner=assignment.membership_id)
        by_team[assignment.team_id].update(change) if again else by_team[assignment.team_id].subtract(change)
    hold_turnstiles(team_ids=by_team)
    given: dict[int, int] = {}
    for team_id, changes in sorted(by_team.items()):
        after_turn = _latest_turn(team_id)
        for member, amount in sorted(changes.items()):
            if not amount:
                continue
            Membership.objects.filter(pk=member).update(lag=F("lag") + amount)
            Credit.objects.create(
                membership_id=member,
                kind=Credit.Kind.UNDONE,
                amount=amount,
                after_turn=after_turn,
                reason=reason,
                by=by,
            )
            given[member] = amount
    return given


def _latest_turn(team_id: int) -> int:
    return Turnstile.objects.filter(team_id=team_id).values_list("turn", flat=True).first() or 0
