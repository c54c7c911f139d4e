"""A run of assign_waiting is undone as far as nobody has touched its leads, and nobody has won or lost a turn by it."""

import json
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import transaction
from django.utils import timezone

from crmsync.models import OutboxMessage
from outreach.flows.launching import launch
from routing import members, undo_run
from routing.by_hand import close_now, give_back_now, give_now, worked_now
from routing.errors import RunNotUndone
from routing.models import Assignment, Lead, Membership, Rep, RepCount, Run, Team
from routing.sweep import sweep_team
from routing.touched import BY_HAND, CLOSED, ELSEWHERE, NEWS, WORKED
from routing.undo_run import undo
from tests.make import make_lead, make_member, make_source, make_team, send
from tests.outreach.make import make_campaign, switched_on
from tests.properties.ledger import read_ledger
from tests.races.crowd import at_once
from tests.races.replay import caps_held, nothing_lost_nothing_twice
from tests.staff import ask, confirm, logged_in, said

pytestmark = pytest.mark.django_db(transaction=True)


def command(name: str, *words: Any) -> tuple[int, dict[str, Any]]:
    """Exit code, and the JSON object in the last line of stdout."""
    out = StringIO()
    try:
        call_command(name, *map(str, words), "--json", stdout=out, stderr=StringIO())
    except SystemExit as end:
        return int(end.code or 0), json.loads(out.getvalue().splitlines()[-1])
    return 0, json.loads(out.getvalue().splitlines()[-1])


def run_over(team: Team, count: int, *words: Any) -> Run:
    """A run that gives out so many new leads of the team."""
    for _ in range(count):
        make_lead(team=team)
    code, figures = command("assign_waiting", "--team", team.pk, "--by", "kim", *words)
    assert (code, figures["taken"]) == (0, count)
    return Run.objects.get(pk=figures["run"])


def lags() -> list[int]:
    return list(Membership.objects.order_by("pk").values_list("lag", flat=True))


def test_after_an_undo_the_leads_wait_again_and_all_is_as_it_was_before_the_run() -> None:
    team = make_team(weights=(2, 1, 1))
    Rep.objects.update(open_cap=50)
    run_over(team, 5)
    before, had = lags(), set(Assignment.objects.current().values_list("lead_id", flat=True))
    run = run_over(team, 9)
    undone = undo(run_id=run.pk, by="Kim")
    assert (undone.returned, dict(undone.left)) == (9, {})
    assert lags() == before
    assert set(Assignment.objects.current().values_list("lead_id", flat=True)) == had
    assert Lead.objects.waiting().count() == 9
    ended = Assignment.objects.filter(run=run).values_list("end_reason", "ended_by", "end_note")
    assert set(ended) == {("undone", "Kim", f"run {run.pk} by kim was undone")}
    run.refresh_from_db()
    assert (run.undone_by, run.undone) == ("Kim", {"returned": 9, "left": {}})
    assert sum(RepCount.objects.filter(kind="open").values_list("count", flat=True)) == 5
    sweep_team(team_id=team.pk)
    assert not Lead.objects.waiting().exists()
    nothing_lost_nothing_twice()
    caps_held()
    read_ledger(team)


def test_only_leads_that_the_run_itself_gave_out_are_of_it() -> None:
    team, other = make_team(reps=2), make_team(reps=1)
    make_lead(team=other)
    sweep_team(team_id=other.pk)
    first, asked = [make_lead(team=team) for _ in range(2)]
    code, figures = command("assign_waiting", "--lead", asked.pk)
    assert (code, Run.objects.get(pk=figures["run"]).assignments.get().lead_id) == (0, asked.pk)
    sweep_team(team_id=team.pk)
    assert undo(run_id=figures["run"], by="Kim").returned == 1
    assert [lead.pk for lead in Lead.objects.waiting()] == [asked.pk] != [first.pk]


def test_turns_that_others_take_at_the_same_time_are_not_of_the_run() -> None:
    team = make_team(reps=3)
    for _ in range(300):
        make_lead(team=team)

    def work(number: int) -> int:
        if number:
            return int(command("assign_waiting", "--team", team.pk)[1]["taken"])
        return sweep_team(team_id=team.pk).taken

    swept, taken = at_once(2, work)
    assert swept + taken == 300
    assert Assignment.objects.filter(run__isnull=False).count() == taken
    assert Run.objects.count() == (1 if taken else 0)


def test_what_somebody_has_touched_since_stays_with_its_rep_and_the_undo_says_why() -> None:
    team = make_team(reps=2)
    third = make_member(team=team)
    source = make_source(team=team)
    run = run_over(team, 8)
    leads = [assignment.lead for assignment in run.assignments.order_by("lead_id")]
    give_now(lead_ids=[leads[0].pk], membership=third, by="kim", reason="asked for it")
    close_now(lead_ids=[leads[1].pk])
    worked_now(lead_ids=[leads[2].pk], by="kim")
    Lead.objects.filter(pk=leads[3].pk).update(email="news@customer.example")
    leads[3].addresses.create(kind="email", value="news@customer.example")
    send(source=source, email="news@customer.example")
    switched_on()
    launch(campaign_id=make_campaign().pk, leads=[leads[4].pk], by="kim")
    give_back_now(lead_ids=[leads[5].pk], by="kim", reason="not mine")
    kept = dict(Assignment.objects.current().filter(lead__in=leads[:6]).values_list("lead_id", "membership_id"))
    undone = undo(run_id=run.pk, by="Kim")
    assert undone.returned == 2
    assert dict(undone.left) == {BY_HAND: 2, CLOSED: 1, WORKED: 1, NEWS: 1, ELSEWHERE: 1}
    assert dict(Assignment.objects.current().filter(lead__in=leads).values_list("lead_id", "membership_id")) == kept
    assert {lead.pk for lead in Lead.objects.waiting()} == {leads[6].pk, leads[7].pk}


def test_the_crm_is_told_who_has_the_lead_after_the_undo() -> None:
    team = make_team(reps=2)
    for number, rep in enumerate(Rep.objects.order_by("pk"), start=1):
        Rep.objects.filter(pk=rep.pk).update(crm_user_id=f"00500000000000{number}AAA")
    run = run_over(team, 1)
    first = run.assignments.select_related("membership__rep").get()
    undo(run_id=run.pk, by="Kim")
    with transaction.atomic():
        members.set_active(memberships=Membership.objects.filter(pk=first.membership_id), active=False)
    sweep_team(team_id=team.pk)
    second = Assignment.objects.current().select_related("membership__rep").get()
    told = OutboxMessage.objects.order_by("version").values_list("fields__owner", flat=True)
    assert first.membership != second.membership
    assert list(told) == [first.membership.rep.crm_user_id, second.membership.rep.crm_user_id]


def test_a_run_is_undone_once_and_in_time_and_one_that_gave_out_nothing_is_none() -> None:
    team = make_team(reps=1)
    assert command("assign_waiting", "--team", team.pk)[1]["run"] is None and not Run.objects.exists()
    run = run_over(team, 2)
    made_at = run.made_at
    Run.objects.update(made_at=timezone.now() - timedelta(hours=25))
    with pytest.raises(RunNotUndone, match="more than a day"):
        undo(run_id=run.pk, by="Kim")
    Run.objects.update(made_at=made_at)
    undo(run_id=run.pk, by="Kim")
    with pytest.raises(RunNotUndone):
        undo(run_id=run.pk, by="Kim")


def test_a_dry_run_leaves_no_run_behind() -> None:
    team = make_team(reps=1)
    lead = make_lead(team=team)
    assert command("assign_waiting", "--dry-run")[1]["run"] is None
    assert command("assign_waiting", "--dry-run", "--lead", lead.pk)[1]["run"] is None
    assert not Run.objects.exists()


def test_an_undo_that_died_half_way_is_finished_by_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(undo_run, "BATCH", 5)
    run = run_over(make_team(reps=2), 12)
    real, calls = undo_run._undo_batch, []

    def dying(*given: Any) -> None:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        real(*given)

    monkeypatch.setattr(undo_run, "_undo_batch", dying)
    with pytest.raises(KeyboardInterrupt):
        undo(run_id=run.pk, by="Kim")
    assert Lead.objects.waiting().count() == 5
    rest = undo(run_id=run.pk, by="Kim")
    assert (rest.returned, dict(rest.left)) == (7, {})
    assert Lead.objects.waiting().count() == 12


def test_two_undo_it_at_once_and_each_turn_comes_back_once() -> None:
    team = make_team(weights=(3, 2))
    run = run_over(team, 60)
    answers = at_once(3, lambda _: undo(run_id=run.pk, by="Kim").returned)
    assert sum(answer for answer in answers if isinstance(answer, int)) == 60
    assert all(isinstance(answer, int | RunNotUndone) for answer in answers), answers
    assert lags() == [0, 0] and Lead.objects.waiting().count() == 60
    read_ledger(team)


def test_the_command_says_what_it_did_by_its_exit_code_and_in_json() -> None:
    run = run_over(make_team(reps=2), 3)
    close_now(lead_ids=[run.assignments.earliest("pk").lead_id])
    code, figures = command("undo_run", run.pk, "--by", "kim")
    assert (code, figures) == (
        3,
        {"command": "undo_run", "run": run.pk, "returned": 2, "left": 1, "because": {CLOSED: 1}},
    )
    with pytest.raises(CommandError, match="undone before") as refusal:
        command("undo_run", run.pk)
    assert refusal.value.returncode == 1


def test_an_operator_undoes_it_in_the_admin_after_being_asked() -> None:
    run = run_over(make_team(reps=2), 3)
    staff = logged_in()
    assert "Undo 1 run" in ask(staff, "routing_run", "undo_selected", run.pk).content.decode()
    assert Lead.objects.waiting().count() == 0
    answer = confirm(staff, "routing_run", "undo_selected", run.pk)
    assert said(answer) == [f"Undone 1. Run {run.pk}: 3 leads wait again."]
    again = confirm(staff, "routing_run", "undo_selected", run.pk)
    assert said(again) == ["Undone 0. Skipped 1 that cannot be undone."]


def test_who_may_only_look_at_runs_undoes_none() -> None:
    run = run_over(make_team(reps=1), 1)
    looker = logged_in("looker", may=("view_run",))
    assert "undo_selected" not in ask(looker, "routing_run", "undo_selected", run.pk).content.decode()
    confirm(looker, "routing_run", "undo_selected", run.pk)
    assert Run.objects.get().undone_at is None
