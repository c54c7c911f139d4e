"""Twenty thousand leads that wait for somebody absent slow nobody down: a turn does not even read them."""

import pytest
from django.db import connection, transaction

from routing import members
from routing.models import Assignment, Lead, Membership
from tests.make import make_lead, make_team
from tests.races.controls import until_seen
from tests.races.crowd import rows

pytestmark = pytest.mark.django_db(transaction=True)

ABSENT = 20_000
FEW = 40


@pytest.fixture
def team():
    """Of three members one is absent, and twenty thousand leads are for her only."""
    team = make_team(reps=3)
    absent = Membership.objects.filter(team=team).latest("pk")
    with transaction.atomic():
        members.set_active(memberships=Membership.objects.filter(pk=absent.pk), active=False)
    part = members.part_of(team=team, memberships=[absent])
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO routing_lead (team_id, part_id, email) SELECT %s, %s, n || '@acme.example'"
            " FROM generate_series(1, %s) AS n",
            [team.pk, part.pk, ABSENT],
        )
    return team


def leads_read(query: str, *values) -> tuple[int, list]:
    """How many rows of the lead table a statement fetches, by index or by scan, and what it answers."""
    with transaction.atomic():
        before = rows(FETCHED)[0][0]
        answer = rows(query, *values)
        return rows(FETCHED)[0][0] - before, answer


FETCHED = """
    SELECT coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0)
      FROM pg_stat_xact_user_tables WHERE relname = 'routing_lead'
"""
TURN = "SELECT outcome, taken FROM take_turns(%s, %s)"


def test_control_a_filter_on_the_allowed_members_reads_every_lead_that_waits(team):
    """The query of a team without parts: a turn reads past the whole row of those nobody present may take."""
    present = list(Membership.objects.filter(team=team, active=True).values_list("pk", flat=True))

    def attempt():
        read, _ = leads_read(FILTERED, team.pk, present)
        return {"waiting_for_an_absent_member": ABSENT, "leads_read_for_one_turn": read}

    until_seen(attempt, lambda seen: seen["leads_read_for_one_turn"] >= ABSENT, "filter on allowed members", rounds=1)


FILTERED = """
    SELECT l.id FROM routing_lead l LEFT JOIN routing_teampart p ON p.id = l.part_id
     WHERE l.team_id = %s AND l.status = 'waiting' AND (l.part_id IS NULL OR p.members && %s::bigint[])
     ORDER BY l.id LIMIT 100
"""


@pytest.fixture(params=["never analyzed", "analyzed while empty", "planned while empty", "analyzed"])
def statistics(request, team):
    """What the planner knows of the lead table, or knew when this connection took its first turn."""
    with connection.cursor() as cursor:
        if request.param == "analyzed":
            cursor.execute("ANALYZE")
        if request.param.endswith("while empty"):
            cursor.execute("CREATE TEMP TABLE kept AS SELECT * FROM routing_lead")
            cursor.execute("DELETE FROM routing_lead")
            cursor.execute(f"VACUUM {'ANALYZE' if request.param.startswith('analyzed') else ''} routing_lead")
            if request.param.startswith("planned"):
                with transaction.atomic():
                    assert rows(TURN, team.pk, make_lead(team=team).pk) == [("assigned", 1)]
                    transaction.set_rollback(True)
            cursor.execute("INSERT INTO routing_lead SELECT * FROM kept")
            cursor.execute("DROP TABLE kept")


@pytest.mark.usefixtures("statistics")
def test_a_turn_of_those_present_reads_none_of_the_leads_of_somebody_absent(team):
    for _ in range(8):  # more than five times: until the plans of the function are the ones it keeps
        lead = make_lead(team=team)
        read, answer = leads_read(TURN, team.pk, lead.pk)
        assert answer == [("assigned", 1)]
        assert read <= FEW, f"{read} leads read for one turn"
    assert Lead.objects.waiting().count() == ABSENT and Assignment.objects.count() == 8


@pytest.mark.usefixtures("statistics")
def test_a_sweep_of_those_present_reads_none_of_them_either(team):
    part = members.part_of(team=team, memberships=Membership.objects.filter(team=team, active=True))
    for _ in range(8):
        mixed = [make_lead(team=team, part=part if number % 2 else None).pk for number in range(5)]
        read, answer = leads_read("SELECT outcome, taken FROM take_turns(%s, NULL, 1000)", team.pk)
        assert answer == [("done", 5)]
        assert read <= 5 * FEW, f"{read} leads read for five turns"
        assert mixed == list(Assignment.objects.order_by("turn").values_list("lead_id", flat=True))[-5:]


def test_a_turn_with_nothing_to_take_reads_none_of_them_either(team):
    read, answer = leads_read(TURN, team.pk, None)
    assert answer == [("done", 0)] and read <= FEW
