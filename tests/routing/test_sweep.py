"""What was left waiting is given out later: by the minute's sweep, or at once where somebody asks."""

import pytest
from django.db import connection, transaction
from django.test import override_settings
from django.utils import timezone
from django_q.models import OrmQ

from routing import members, sweep, tasks
from routing.intake import take_turn_of_new
from routing.models import Assignment, Lead, Membership, Team
from tests.make import make_lead, make_team
from tests.routing.rows import members_of, waiting
from tests.routing.sessions import another_session

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def waiting_leads():
    """A team of two with five leads, of which nobody has been told."""
    team = make_team(reps=2)
    OrmQ.objects.all().delete()
    return team, [make_lead(team=team).pk for _ in range(5)]


def queued(name: str) -> list[tuple[int, ...]]:
    return [task.task["args"] for task in OrmQ.objects.order_by("pk") if task.task["func"] == name]


def test_a_sweep_gives_out_what_waits_oldest_first_and_nudges_the_crm(waiting_leads):
    team, ids = waiting_leads
    assert sweep.sweep_team(team_id=team.pk) == sweep.Swept(taken=5)
    assert list(Assignment.objects.order_by("turn").values_list("lead_id", flat=True)) == ids
    assert len(queued("crmsync.tasks.deliver")) == 1
    assert queued("routing.tasks.sweep_team") == []


def test_a_sweep_goes_on_until_nothing_is_left(waiting_leads):
    team, ids = waiting_leads
    with override_settings(SWEEP_MOST=2):
        assert sweep.sweep_team(team_id=team.pk).taken == 5
    assert waiting(team) == []


def test_a_sweep_that_runs_out_of_time_asks_for_the_next(waiting_leads, monkeypatch):
    team, ids = waiting_leads
    monkeypatch.setattr(sweep, "BUDGET_S", 0)
    assert sweep.sweep_team(team_id=team.pk).taken == 0
    assert queued("routing.tasks.sweep_team") == [(team.pk,)]


def test_a_sweep_of_a_team_where_nobody_is_present_ends_and_asks_for_nothing(waiting_leads):
    team, ids = waiting_leads
    with transaction.atomic():
        members.set_active(memberships=Membership.objects.filter(team=team), active=False)
    OrmQ.objects.all().delete()
    assert sweep.sweep_team(team_id=team.pk) == sweep.Swept()
    assert OrmQ.objects.count() == 0 and waiting(team) == ids


def test_the_sweep_of_all_teams_passes_over_retired_ones_and_those_with_nothing_waiting(waiting_leads):
    team, ids = waiting_leads
    retired, idle = make_team(reps=1), make_team(reps=1)
    stuck = make_lead(team=retired)
    with transaction.atomic():
        members.retire_teams(teams=Team.objects.filter(pk=retired.pk))
    assert list(sweep.teams_with_waiting()) == [team.pk]
    assert tasks.sweep() == {"taken": 5, "busy": 0, "set_aside": 0, "failed": 0}
    assert waiting(retired) == [stuck.pk] and not Assignment.objects.filter(team=idle).exists()


def test_an_old_lead_is_given_out_however_long_it_waited(waiting_leads):
    team, ids = waiting_leads
    Lead.objects.filter(pk=ids[0]).update(created_at=timezone.now() - timezone.timedelta(days=400))
    assert tasks.sweep_team(team.pk)["taken"] == 5
    assert tasks.sweep_team(team.pk)["taken"] == 0, "a task that runs twice does nothing twice"


def test_a_busy_turnstile_is_counted_and_asked_for_again(waiting_leads):
    team, ids = waiting_leads
    with another_session() as other:
        other.execute("SELECT pg_advisory_xact_lock(turnstile_key(%s))", [team.pk])
        assert tasks.sweep_team(team.pk) == {"taken": 0, "busy": 1, "set_aside": 0, "failed": 0}
    assert queued("routing.tasks.sweep_team") == [(team.pk,)]


def test_a_busy_turnstile_at_intake_asks_for_a_sweep(waiting_leads):
    team, ids = waiting_leads
    with another_session() as other:
        other.execute("SELECT pg_advisory_xact_lock(turnstile_key(%s))", [team.pk])
        with override_settings(TURN_WAIT_MS=20):
            assert take_turn_of_new(team_id=team.pk, lead_id=ids[0]).outcome == "busy"
    assert queued("routing.tasks.sweep_team") == [(team.pk,)]


def test_one_lead_whose_turn_fails_is_set_aside_and_the_others_are_given_out(waiting_leads):
    team, ids = waiting_leads
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE FUNCTION refuse_one() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            f"  IF NEW.lead_id = {ids[2]} THEN RAISE foreign_key_violation; END IF; RETURN NEW; END $$;"
            "CREATE TRIGGER refuse_one BEFORE INSERT ON routing_assignment FOR EACH ROW EXECUTE FUNCTION refuse_one()"
        )
    try:
        swept = sweep.sweep_team(team_id=team.pk)
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DROP FUNCTION refuse_one CASCADE")
    assert (swept.taken, swept.set_aside) == (4, 1)
    assert Lead.objects.get(status=Lead.Status.SET_ASIDE).pk == ids[2]


def test_leads_asked_for_go_first_and_what_cannot_be_taken_is_counted(waiting_leads):
    team, ids = waiting_leads
    a, b = members_of(team)
    given = sweep.assign_asked_for(team_id=team.pk, lead_ids=[ids[4], ids[1]])
    assert (given.taken, given.left, list(given.reps)) == (2, 0, [ids[1], ids[4]])
    with transaction.atomic():
        members.set_active(memberships=Membership.objects.filter(team=team), active=False)
    assert sweep.assign_asked_for(team_id=team.pk, lead_ids=[ids[0], ids[1]])[:2] == (0, 1)


def test_leads_asked_for_that_somebody_holds_are_left_to_them(waiting_leads):
    team, ids = waiting_leads
    with another_session() as other:
        other.execute("SELECT FROM routing_lead WHERE id = %s FOR UPDATE", [ids[0]])
        assert sweep.assign_asked_for(team_id=team.pk, lead_ids=ids[:2])[:2] == (1, 1)
    assert waiting(team) == [ids[0], *ids[2:]]


def test_a_dry_run_says_who_would_get_what_and_changes_nothing(waiting_leads):
    team, ids = waiting_leads
    rehearsed = sweep.assign_asked_for(team_id=team.pk, lead_ids=ids, dry_run=True)
    assert waiting(team) == ids and not Assignment.objects.exists() and OrmQ.objects.count() == 0
    assert sweep.assign_asked_for(team_id=team.pk, lead_ids=ids) == rehearsed
