"""The wrong ways to take turns, in plain SQL over Rota's own tables: each must be seen to fail before ours counts."""

from collections.abc import Callable

from django.db import connection, transaction

from routing.models import Assignment, Lead, Membership, Roster, Team
from tests.make import make_lead
from tests.races.crowd import at_once

NEXT = "SELECT id FROM routing_membership WHERE team_id = %s AND active ORDER BY last_turn, id LIMIT 1"
Seen = dict[str, int]
WRONG_WAYS = {
    "naive": NEXT,
    "textbook": f"{NEXT} FOR UPDATE",
    "skip": f"{NEXT} FOR UPDATE SKIP LOCKED",
    "one statement": f"""
        WITH turnstile AS MATERIALIZED (SELECT pg_advisory_xact_lock(turnstile_key(%s)))
        SELECT next.id FROM turnstile, LATERAL ({NEXT}) AS next
    """,
}


def turns_the_wrong_way(team: Team, way: str, *, clients: int, leads_each: int) -> Seen:
    """Let `clients` take turns in one of the WRONG_WAYS, and count what went wrong: leads nobody got, picks of a
    rep who was ahead already, and the final max - min. Equal weights only.
    """
    roster = Roster.objects.create(team=team, digest=way[:32], candidates={}, skipped={})
    with connection.cursor() as cursor:
        cursor.execute("CREATE SEQUENCE IF NOT EXISTS control_turn")
    members = list(Membership.objects.filter(team=team).values_list("pk", flat=True))
    at_once(clients, lambda _: [_take(team, roster, WRONG_WAYS[way]) for _ in range(leads_each)])
    counts, wrong = dict.fromkeys(members, 0), 0
    for member in Assignment.objects.filter(roster=roster).order_by("turn").values_list("membership_id", flat=True):
        wrong += counts[member] > min(counts.values())
        counts[member] += 1
    unassigned = Lead.objects.waiting().filter(team=team).count()
    return {
        "leads": clients * leads_each,
        "unassigned": unassigned,
        "wrong_picks": wrong,
        "spread": max(counts.values()) - min(counts.values()),
    }


def _take(team: Team, roster: Roster, pick: str) -> None:
    lead = make_lead(team=team)
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(pick, [team.pk] * pick.count("%s"))
        row = cursor.fetchone()
        if row is None:
            return
        cursor.execute("SELECT nextval('control_turn')")
        turn = cursor.fetchone()[0]
        cursor.execute("UPDATE routing_membership SET last_turn = %s WHERE id = %s", [turn, row[0]])
        cursor.execute(
            "UPDATE routing_lead SET status = 'assigned', first_assigned_at = now() WHERE id = %s", [lead.pk]
        )
        cursor.execute(
            "INSERT INTO routing_assignment (lead_id, membership_id, team_id, turn, roster_id, lag_before, lag_after,"
            " assigned_at) VALUES (%s, %s, %s, %s, %s, 0, 0, now())",
            [lead.pk, row[0], team.pk, turn, roster.pk],
        )


def until_seen(attempt: Callable[[], Seen], is_wrong: Callable[[Seen], object], name: str, rounds: int = 10) -> Seen:
    """Try until the race shows itself, and print what was seen; no scheduler promises that two meet."""
    for _ in range(rounds):
        seen = attempt()
        if is_wrong(seen):
            print(f"\ncontrol {name}: " + " ".join(f"{what}={count}" for what, count in seen.items()), flush=True)
            return seen
    raise AssertionError(f"{rounds} rounds did not show the race: {seen}")
