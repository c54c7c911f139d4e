"""An import is undone as far as nobody has touched what it made; what was there before, and history, stay."""

import pytest
from django.db.models import Sum

from outreach.flows.launching import launch
from routing import undo_import
from routing.by_hand import close_now, give_now, worked_now
from routing.errors import WrongImportState
from routing.models import Assignment, Credit, Import, InboundEvent, Lead, LeadAddress, Membership
from routing.sweep import sweep_team
from routing.touched import BY_HAND, CLOSED, NEWS, WORKED
from routing.undo_import import may_undo, undo
from tests.make import make_member, make_source, make_team, send
from tests.outreach.make import make_campaign, switched_on
from tests.routing.files_of_leads import imported, table, verdicts

pytestmark = pytest.mark.django_db(transaction=True)
FILE = table(*([f"n{number}@a.example", f"N {number}"] for number in range(12)))


@pytest.fixture(autouse=True)
def folder(settings, tmp_path):
    settings.IMPORT_DIR = str(tmp_path)


@pytest.fixture
def source():
    return make_source(team=make_team(reps=3))


def lead(number: int) -> Lead:
    return Lead.objects.get(email=f"n{number}@a.example", previous=None)


def test_an_undo_closes_what_nobody_has_touched_and_gives_the_turns_back(source):
    known = send(source=source, email="n0@a.example")
    before = dict(Membership.objects.values_list("pk", "lag"))
    row = imported(FILE, source=source)
    sweep_team(team_id=source.team_id)
    assert Assignment.objects.current().count() == 12
    undone = undo(import_id=row.pk, by="kim")
    assert (undone.closed, dict(undone.left)) == (11, {})
    assert dict(Membership.objects.values_list("pk", "lag")) == before
    known.refresh_from_db()
    assert known.status == "assigned", "a lead that was there before is left alone"
    ended = Assignment.objects.exclude(lead=known)
    assert set(ended.values_list("end_reason", "ended_by", "end_note")) == {
        ("undone", "kim", f"import {row.pk} was undone")
    }
    assert InboundEvent.objects.count() == 13 and len(verdicts(row)) == 12, "history stays"
    assert LeadAddress.objects.filter(open=True).count() == 1
    row.refresh_from_db()
    assert row.undone == {"closed": 11, "left": {}, "examples": []} and row.undone_by == "kim"


def test_an_undo_leaves_what_somebody_has_touched_since_and_says_why(source):
    other = make_member(team=source.team)
    row = imported(FILE, source=source)
    sweep_team(team_id=source.team_id)
    give_now(lead_ids=[lead(1).pk], membership=other, by="kim", reason="asked for it")
    send(source=source, email="n2@a.example")
    close_now(lead_ids=[lead(3).pk])
    worked_now(lead_ids=[lead(4).pk], by="kim")
    undone = undo(import_id=row.pk, by="kim")
    assert undone.closed == 8
    assert dict(undone.left) == {BY_HAND: 1, NEWS: 1, CLOSED: 1, WORKED: 1}
    assert sorted(undone.examples) == sorted(lead(number).pk for number in (1, 2, 3, 4))
    assert [lead(number).status for number in (1, 2)] == ["assigned", "assigned"]


def test_a_lead_of_a_campaign_is_left(source):
    row = imported(FILE, source=source)
    switched_on()
    launch(campaign_id=make_campaign().pk, leads=[lead(1).pk], by="kim")
    undone = undo(import_id=row.pk, by="kim")
    assert undone.closed == 11 and sum(undone.left.values()) == 1


def test_waiting_leads_are_closed_too_and_a_cancelled_import_can_be_undone(source):
    row = imported(FILE, source=source)
    Import.objects.filter(pk=row.pk).update(status="cancelled")
    assert undo(import_id=row.pk, by="kim").closed == 12
    assert not Lead.objects.waiting().exists()


def test_an_import_is_undone_once_and_in_time(source, settings):
    row = imported(FILE, source=source)
    assert may_undo(row)
    Import.objects.filter(pk=row.pk).update(ended_at="2026-01-01T00:00:00Z")
    assert not may_undo(row)
    with pytest.raises(WrongImportState, match="for 24 hours"):
        undo(import_id=row.pk, by="kim")
    settings.IMPORT_UNDO_H = 8_760
    undo(import_id=row.pk, by="kim")
    with pytest.raises(WrongImportState):
        undo(import_id=row.pk, by="kim")


def test_a_file_whose_import_was_undone_may_be_imported_anew(source):
    undo(import_id=imported(FILE, source=source).pk, by="kim")
    again = imported(FILE, source=source)
    assert (again.again, again.created, again.duplicate) == (1, 12, 0)
    third = imported(FILE, source=source)
    assert (third.created, third.duplicate) == (0, 12)


def test_an_undo_that_died_half_way_is_finished_by_the_next(source, monkeypatch):
    monkeypatch.setattr(undo_import, "BATCH", 5)
    row = imported(FILE, source=source)
    real, calls = undo_import._undo_batch, []

    def dying(*args):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        real(*args)

    monkeypatch.setattr(undo_import, "_undo_batch", dying)
    with pytest.raises(KeyboardInterrupt):
        undo(import_id=row.pk, by="kim")
    assert Lead.objects.waiting().count() == 7
    undone = undo(import_id=row.pk, by="kim")
    assert undone.closed == 7
    assert not Lead.objects.waiting().exists()


def test_the_credits_of_an_undo_add_up_to_nothing(source):
    row = imported(FILE, source=source)
    sweep_team(team_id=source.team_id)
    undo(import_id=row.pk, by="kim")
    assert Credit.objects.aggregate(together=Sum("amount"))["together"] in (0, None)
