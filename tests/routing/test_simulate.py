"""A simulation decides as the real thing does, shows what a draft would change, and writes nothing."""

import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.apps import apps
from django.core.management import CommandError, call_command
from django.db import connection, transaction

from routing import leads, members, rule_books
from routing.floor import Change, read_floor
from routing.models import Lead, Membership, RuleBook
from routing.rehearsal import Arrival, Crew, Worker, rehearse
from routing.shares import Place
from routing.simulate import Side, of_leads, place, simulate
from tests.bench import simulate as bench
from tests.make import make_account, make_email, make_member, make_rep, make_source, make_team, publish_rules, send

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)


def crew(*weights: int, **fields: object) -> Crew:
    places = {number: Place(number, weight) for number, weight in enumerate(weights)}
    workers = {number: Worker(number, UTC, **fields) for number in places}  # type: ignore[arg-type]
    return Crew(1, places, workers, ignore_hours="shifts" not in fields)


def test_a_rehearsal_is_as_fair_as_the_turns_are() -> None:
    arrivals = [Arrival(number, NOON + timedelta(minutes=number), 1) for number in range(80)]
    taken = rehearse(crews=[crew(1, 2, 5)], arrivals=arrivals)
    assert [list(taken.values()).count(member) for member in range(3)] == [10, 20, 50]


def test_leads_of_a_rehearsal_wait_for_hours_and_go_out_oldest_first() -> None:
    tomorrow = NOON + timedelta(days=1)
    arrivals = [Arrival(number, NOON + timedelta(minutes=number), 1) for number in range(3)]
    arrivals.append(Arrival(3, tomorrow + timedelta(minutes=5), 1))
    taken = rehearse(crews=[crew(1, shifts=[(tomorrow, tomorrow + timedelta(hours=1))])], arrivals=arrivals)
    assert list(taken) == [0, 1, 2, 3]


def test_a_day_cap_holds_in_a_rehearsal_and_frees_at_the_reps_midnight() -> None:
    arrivals = [Arrival(number, NOON + timedelta(hours=number), 1) for number in range(24)]
    taken = rehearse(crews=[crew(1, day_cap=5)], arrivals=arrivals)
    assert len(taken) == 10 and list(taken) == list(range(10))


@pytest.mark.django_db(transaction=True)
def test_the_simulation_places_every_lead_as_the_intake_did() -> None:
    """Random rules, parts, accounts, returns and leavers: team, part and preferred member are the same."""
    dice = random.Random(7)
    teams = [make_team(reps=3) for _ in range(3)]
    everyone = list(Membership.objects.all())
    gone = everyone[0]
    with transaction.atomic():
        members.set_active(memberships=Membership.objects.filter(pk=gone.pk), active=False)
        closed = make_team(reps=1)
    for number in range(6):
        owner = dice.choice([*everyone, None])
        make_account(domains=(f"c{number}.example",), owner=owner.rep if owner else None)
    skilled = list(teams[1].memberships.order_by("pk"))[:2]
    publish_rules(
        {"team": closed, "conditions": [("fields.kind", "is", "a")]},
        {"team": teams[1], "members": skilled, "conditions": [("fields.kind", "is", "b")]},
        {"team": teams[2], "rep": everyone[4].rep, "conditions": [("fields.kind", "is", "c")]},
        {"team": teams[2], "owners_first": False, "conditions": [("fields.kind", "is", "d")]},
    )
    with transaction.atomic():
        members.retire_teams(teams=type(closed).objects.filter(pk=closed.pk))
    sources = [make_source(team=teams[0]), make_source(team=teams[1], sticky_owner=False)]
    addresses = [f"p{number}@x.c{number % 6}.example" for number in range(8)] + [make_email() for _ in range(4)]
    side = Side(rule_books.read(RuleBook.objects.get(status="published")))
    for _ in range(60):
        lead = send(source=dice.choice(sources), email=dice.choice(addresses), kind=dice.choice("abcde"))
        (sample,) = of_leads([lead])
        placed = place(sample, side, read_floor())
        part = frozenset(lead.part.members) if lead.part else None
        assert (placed.team, placed.part, placed.preferred) == (lead.team_id, part, lead.preferred_id), lead.why
        with transaction.atomic():
            leads.close(lead_ids=[lead.pk])


def everything() -> dict[str, list[tuple[object, ...]]]:
    found = {}
    with connection.cursor() as cursor:
        for app in ("routing", "crmsync", "django_q"):
            for model in apps.get_app_config(app).get_models():
                cursor.execute(f'SELECT t::text FROM "{model._meta.db_table}" t ORDER BY 1')
                found[model._meta.db_table] = cursor.fetchall()
    return found


@pytest.mark.django_db(transaction=True)
def test_a_simulation_shows_what_a_draft_would_change_and_writes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    source, enterprise = make_source(), make_team(name="Enterprise")
    big = make_member(team=enterprise, rep=make_rep(name="Ann"))
    for number in range(10):
        send(source=source, size=number * 100)
    with transaction.atomic():
        row = rule_books.draft()
        rule_books.replace_rules(
            row=row,
            wanted=[
                {
                    "name": "Big",
                    "team": enterprise,
                    "members": [big],
                    "conditions": [("fields.size", "at_least", "500")],
                }
            ],
        )
    before = everything()
    call_command("simulate", "--json", "--ignore-hours")
    found = json.loads(capsys.readouterr().out)
    assert (found["leads"], found["different"]) == (10, 5)
    assert found["by_rep"]["Ann"] == {"now": 0, "then": 5}
    assert found["by_rule"] == {"(catch-all)": {"now": 10, "then": 5}, "Big": {"now": 0, "then": 5}}
    assert everything() == before
    call_command("simulate")
    assert "10 leads; 5 decided differently." in capsys.readouterr().out
    assert everything() == before


@pytest.mark.django_db(transaction=True)
def test_changed_weights_leavers_and_newcomers_show_per_rep() -> None:
    team = make_team(reps=2)
    one, two = team.memberships.select_related("rep").order_by("pk")
    new, source = make_rep(name="New"), make_source(team=team)
    for _ in range(12):
        send(source=source)
    samples = of_leads(list(Lead.objects.order_by("pk")))
    changes = [Change(team.pk, one.rep_id, 3), Change(team.pk, two.rep_id, active=False), Change(team.pk, new.pk)]
    found = simulate(samples=samples, now=Side(rule_books.NO_RULES), then=Side(rule_books.NO_RULES, changes=changes))
    assert found.by_rep == {one.rep.name: (6, 9), two.rep.name: (6, 0), "New": (0, 3)}
    assert found.different == 0


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_a_file_is_simulated_with_a_source_of_ones_choice(
    suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, file = make_source(), tmp_path / f"leads{suffix}"
    rows = [{"email": make_email(), "company": "Acme"} for _ in range(4)]
    lines = ["email,company"] + [",".join(row.values()) for row in rows] if suffix == ".csv" else map(json.dumps, rows)
    file.write_text("\n".join(lines), encoding="utf-8")
    call_command("simulate", "--file", str(file), "--source", source.slug, "--json")
    assert json.loads(capsys.readouterr().out)["leads"] == 4
    assert not Lead.objects.exists()
    with pytest.raises(CommandError):
        call_command("simulate", "--file", str(file))
    with pytest.raises(CommandError):
        call_command("simulate", "--file", str(tmp_path / "none.csv"), "--source", source.slug)


@pytest.mark.django_db(transaction=True)
def test_ten_thousand_leads_are_simulated_without_a_row_written_by_postgres_own_count() -> None:
    bench.prepare()
    before = bench.rows_written()
    found = bench.rehearsed()
    assert found.leads == bench.LEADS and found.different == 4_000, "every second rule, four countries of five"
    assert sum(now for now, _ in found.by_rep.values()) == bench.LEADS
    assert bench.rows_written() == before
    make_team()
    assert bench.rows_written() > before, "the count sees a write"
