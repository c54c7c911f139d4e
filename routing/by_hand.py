"""What a person does to leads by hand: assign them now, give them to somebody, close them, put them back in the row.

Each is a flow: it opens its own transactions and asks for the sweep that follows from it.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import psycopg.errors
from django.db import DatabaseError, OperationalError, transaction

from crmsync.nudge import ask, nudge
from routing import hand_back as hand_back_flow
from routing import leads, reassign, turns
from routing.errors import RoutingError, TurnstileBusy
from routing.models import Lead, Membership
from routing.sweep import assign_asked_for


@dataclass(frozen=True)
class Given:
    """Leads given to somebody, and teams whose turn failed or whose turnstile was busy."""

    taken: int
    failed_teams: tuple[int, ...]


@dataclass
class Tried:
    """How many were done, and of the others how many for which reason."""

    done: int = 0
    refused: Counter[str] = field(default_factory=Counter)

    def each(self, deed: Callable[[], int]) -> None:
        """Do one of them; a refusal, or a turnstile that stays busy, stops none of the others."""
        try:
            self.done += deed()
        except RoutingError as refusal:
            self.refused[str(refusal)] += 1
        except OperationalError as fault:
            if not isinstance(fault.__cause__, psycopg.errors.LockNotAvailable):
                raise
            self.refused[str(TurnstileBusy())] += 1


@dataclass
class HandedOver(Tried):
    """Open leads of reps given to the others: `done` were taken, `waiting` wait for one of them, `kept` stayed."""

    waiting: int = 0
    kept: int = 0


def assign_now(*, lead_ids: Sequence[int]) -> Given:
    """Take the turns of these waiting leads now, team by team, before older leads of the same team."""
    taken, failed = 0, []
    by_team: dict[int, list[int]] = {}
    for lead_id, team_id in Lead.objects.waiting().filter(pk__in=lead_ids).order_by("pk").values_list("pk", "team_id"):
        by_team.setdefault(team_id, []).append(lead_id)
    for team_id, ids in sorted(by_team.items()):
        try:
            taken += assign_asked_for(team_id=team_id, lead_ids=ids)[0]
        except DatabaseError:
            failed.append(team_id)
    return Given(taken, tuple(failed))


def close_now(*, lead_ids: Sequence[int]) -> int:
    """Close those of the leads that are open. Return how many; a rep with an open-leads cap has room again."""
    with transaction.atomic(durable=True):
        return leads.close(lead_ids=lead_ids)


def worked_now(*, lead_ids: Sequence[int], by: str) -> int:
    """Note that somebody has worked these leads; their service level is kept from then on. Return how many were new."""
    return leads.mark_worked(lead_ids=lead_ids, by=by)


def put_back_now(*, lead_ids: Sequence[int]) -> int:
    """Let leads that were set aside wait for a turn again. Return how many."""
    back = turns.put_back(lead_ids=lead_ids)
    for team_id in Lead.objects.filter(pk__in=lead_ids).order_by().values_list("team_id", flat=True).distinct():
        ask("routing.tasks.sweep_team", team_id)
    return back


def give_now(*, lead_ids: Sequence[int], membership: Membership, by: str, reason: str) -> Tried:
    """Give these leads to a member, each in a transaction of its own; a person's choice passes turns, hours, caps."""
    tried = Tried()

    def give(lead_id: int) -> int:
        with transaction.atomic(durable=True):
            reassign.assign_by_hand(lead_id=lead_id, membership=membership, by=by, reason=reason)
        return 1

    for lead_id in sorted(lead_ids):
        tried.each(lambda lead_id=lead_id: give(lead_id))  # type: ignore[misc]
    nudge("crm")
    return tried


def give_back_now(*, lead_ids: Sequence[int], by: str, reason: str) -> Tried:
    """Take these leads from their reps, each with its turn, and give them to the next in turn among the others."""
    tried = Tried()

    def give_back(lead_id: int) -> int:
        reassign.decline(lead_id=lead_id, by=by, reason=reason)
        return 1

    for lead_id in sorted(lead_ids):
        tried.each(lambda lead_id=lead_id: give_back(lead_id))  # type: ignore[misc]
    return tried


@dataclass
class Returned(Tried):
    """Leads of hand-overs that were taken back: `done` returned, `left` stayed where they are."""

    left: int = 0


def hand_back_now(*, hand_over_ids: Sequence[int], by: str) -> Returned:
    """Take these hand-overs back, each in a transaction of its own."""
    tried = Returned()

    def hand_back(hand_over_id: int) -> int:
        back = hand_back_flow.undo(hand_over_id=hand_over_id, by=by)
        tried.left += back.left
        return back.returned

    for hand_over_id in sorted(hand_over_ids, reverse=True):
        tried.each(lambda hand_over_id=hand_over_id: hand_back(hand_over_id))  # type: ignore[misc]
    return tried


def hand_over_now(
    *, rep_ids: Sequence[int], by: str, reason: str, also_chosen: bool = False, turns_back: bool = False
) -> HandedOver:
    """Give all open leads of these reps to the rest of their teams, team by team."""
    tried = HandedOver()

    def hand_over(membership: Membership) -> int:
        moved = reassign.give_to_the_others(
            membership=membership, by=by, reason=reason, also_chosen=also_chosen, turns_back=turns_back
        )
        tried.waiting += moved.waiting
        tried.kept += moved.kept
        return moved.taken

    for membership in Membership.objects.filter(rep_id__in=rep_ids).order_by("team_id", "pk"):
        tried.each(lambda membership=membership: hand_over(membership))  # type: ignore[misc]
    return tried
