"""Hold a team's turnstile, so that a change falls between two turns and never into one."""

from collections.abc import Iterable, Sequence

from django.db import connection, transaction
from django.db.transaction import TransactionManagementError

from crmsync.nudge import ask
from routing.models import Membership


def hold_turnstiles(*, team_ids: Iterable[int]) -> None:
    """Take the turnstiles of these teams until the transaction ends. Call inside a transaction.

    Proves: no turn of these teams is under way or begins. Costs: their leads wait for our commit; so do nothing slow
    after it. Waits up to lock_timeout, then raises OperationalError.
    """
    if not connection.in_atomic_block:
        raise TransactionManagementError("A turnstile is held until the end of a transaction; there is none.")
    with connection.cursor() as cursor:
        for team_id in sorted(set(team_ids)):
            cursor.execute("SELECT pg_advisory_xact_lock(turnstile_key(%s))", [team_id])


def teams_of(*, rep_ids: Sequence[int]) -> list[int]:
    """The teams in which these reps have a place, active or not, ascending."""
    return sorted(set(Membership.objects.filter(rep_id__in=rep_ids).values_list("team_id", flat=True)))


def sweep_when_committed(*, team_ids: Iterable[int]) -> None:
    """Leads may have been waiting for just this change."""
    for team_id in team_ids:
        transaction.on_commit(lambda team_id=team_id: ask("routing.tasks.sweep_team", team_id))  # type: ignore[misc]
