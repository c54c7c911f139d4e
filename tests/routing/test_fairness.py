"""The fairness report adds up, and says why anybody was passed over."""

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from django.core.management import call_command
from django.db import transaction

from routing import members
from routing.credits import give_credit
from routing.fairness import Report, report
from routing.models import Rep, Team
from routing.models.team import SCALE
from routing.reassign import assign_by_hand
from routing.turns import take_turns
from tests.make import make_account, make_lead, make_member, make_rep, make_source, make_team, send

pytestmark = pytest.mark.django_db(transaction=True)


def of(team: Team) -> Report:
    now = datetime.now(UTC)
    return report(team=team, since=now - timedelta(hours=1), until=now + timedelta(hours=1))


def give(team: Team, count: int, **fields: object) -> None:
    for _ in range(count):
        make_lead(team=team, **fields)
    take_turns(team_id=team.pk, most=1_000)


def test_due_less_received_with_credits_is_what_the_lag_moved_by() -> None:
    team = make_team(weights=(1, 2, 5))
    one, two, _ = team.memberships.order_by("pk")
    give(team, 17)
    give(team, 2, preferred=two)
    with transaction.atomic():
        give_credit(membership=one, leads=Decimal("1.5"), reason="agreed", by="ops")
        assign_by_hand(lead_id=make_lead(team=team).pk, membership=two, by="ops", reason="asked for")
    give(team, 9)
    found = of(team)
    assert found.turns == 29 == sum(share.received for share in found.shares)
    for share in found.shares:
        assert share.behind == pytest.approx(share.lag, abs=1e-9)
    assert {share.member: share.direct for share in found.shares}[two.pk] == 3
    assert sum(share.credits for share in found.shares) == 1.5


def test_each_reason_for_being_passed_over_is_counted_by_its_own_word() -> None:
    team = make_team(outside_hours="wait")
    now = datetime.now(UTC)
    present, owner, capped, away = (make_member(team=team, rep=make_rep()) for _ in range(4))
    with transaction.atomic():
        for member in (present, owner, capped):
            members.set_shifts(rep=member.rep, ranges=[(now - timedelta(hours=1), now + timedelta(hours=1))])
        members.set_caps(rep=capped.rep, day_cap=0, week_cap=None, open_cap=None, zone="UTC")
        part = members.part_of(team=team, memberships=[present])
    make_account(domains=("acme.example",), owner=owner.rep)
    send(source=make_source(team=team), email="a@acme.example")
    give(team, 2, part=part)
    skipped = {share.member: share.skipped for share in of(team).shares}
    assert skipped[present.pk] == {"account": 1}
    assert skipped[owner.pk] == {"skill": 2}
    assert skipped[capped.pk] == {"cap": 3}
    assert skipped[away.pk] == {"off hours": 3}


def test_the_longest_run_is_the_most_turns_in_a_row() -> None:
    team = make_team(reps=2)
    one, two = team.memberships.order_by("pk")
    give(team, 2)
    give(team, 4, preferred=two)
    give(team, 1)
    runs = {share.member: share.longest_run for share in of(team).shares}
    assert runs == {one.pk: 1, two.pk: 5}


def test_a_quiet_period_is_a_report_of_noughts() -> None:
    team = make_team(reps=1)
    past = datetime(2020, 1, 1, tzinfo=UTC)
    found = report(team=team, since=past, until=past + timedelta(days=1))
    assert (found.turns, found.shares[0].received, found.shares[0].due) == (0, 0, 0)


def test_the_command_prints_a_table_or_one_json_object(capsys: pytest.CaptureFixture[str]) -> None:
    team = make_team(name="Inbound", reps=2)
    Rep.objects.filter(memberships__team=team).update(retired_at=None)
    give(team, 3)
    call_command("fairness", "--team", "inbound", "--json")
    (found,) = json.loads(capsys.readouterr().out)["teams"]
    assert (found["team"], found["turns"], [row["received"] for row in found["members"]]) == ("Inbound", 3, [2, 1])
    call_command("fairness")
    assert "Inbound: 3 turns" in capsys.readouterr().out
    with pytest.raises(SystemExit) as exit_code:
        call_command("fairness", "--team", "nobody")
    assert exit_code.value.code == 2
    assert SCALE == 10**12
