"""A hand-over is taken back: leads return as far as nothing happened to them, and nobody has won or lost a turn."""

from datetime import timedelta

import pytest
from django.core.cache import cache
from django.db import transaction
from django.utils import timezone

from routing import leads, members
from routing.errors import HasLeft, NotUndone
from routing.hand_back import undo
from routing.models import Assignment, HandOver, Lead, Membership, Rep, Team
from routing.reassign import assign_by_hand, give_to_the_others
from routing.turns import take_turns
from tests.make import make_lead, make_rep, make_team
from tests.properties.ledger import read_ledger
from tests.races.crowd import at_once
from tests.races.replay import caps_held, nothing_lost_nothing_twice
from tests.staff import ask, confirm, logged_in, said

pytestmark = pytest.mark.django_db(transaction=True)


def handed_over(*, count: int = 6, reps: int = 3, turns_back: bool = False, direct: bool = False) -> HandOver:
    team = make_team(reps=reps)
    Team.objects.filter(pk=team.pk).update(direct_counts=direct)
    for _ in range(count):
        make_lead(team=team)
    take_turns(team_id=team.pk)
    one = team.memberships.earliest("pk")
    give_to_the_others(membership=one, by="Kim", reason="ill", turns_back=turns_back)
    return HandOver.objects.get()


def holders() -> dict[int, int]:
    return dict(Assignment.objects.current().values_list("lead_id", "membership_id"))


def lags() -> list[int]:
    return list(Membership.objects.order_by("pk").values_list("lag", flat=True))


@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize("turns_back", [False, True])
def test_everything_is_as_it_was_before_the_hand_over(turns_back: bool, direct: bool) -> None:
    team = make_team(weights=(2, 1, 1))
    Team.objects.filter(pk=team.pk).update(direct_counts=direct)
    Rep.objects.update(open_cap=50)
    for _ in range(9):
        make_lead(team=team)
    take_turns(team_id=team.pk)
    before, owed = holders(), lags()
    one = team.memberships.earliest("pk")
    first_dates = list(Lead.objects.order_by("pk").values_list("first_assigned_at", flat=True))
    give_to_the_others(membership=one, by="Kim", reason="ill", turns_back=turns_back)
    assert one.pk not in holders().values()
    done = undo(hand_over_id=HandOver.objects.get().pk, by="Kim")
    assert (done.returned, done.left) == (list(before.values()).count(one.pk), 0)
    assert holders() == before and lags() == owed
    assert list(Lead.objects.order_by("pk").values_list("first_assigned_at", flat=True)) == first_dates
    returned = Assignment.objects.current().filter(membership=one)
    assert set(returned.values_list("chosen_by", flat=True)) == {"Kim"}, "no automatic move takes them away again"
    assert not Lead.objects.exclude(part=None).exists(), "the whole team may take them, as before"
    read_ledger(team)
    caps_held()
    nothing_lost_nothing_twice()


def test_what_was_worked_closed_or_given_by_hand_since_stays() -> None:
    run = handed_over(count=12)
    moved = [a.lead_id for a in run.ended.order_by("lead_id")]
    third = run.membership.team.memberships.latest("pk")
    leads.mark_worked(lead_ids=moved[:1], by="Kim")
    with transaction.atomic():
        leads.close(lead_ids=moved[1:2])
        assign_by_hand(lead_id=moved[2], membership=third, by="Lou", reason="knows them")
    stays = {pk: rep for pk, rep in holders().items() if pk in (moved[0], moved[2])}
    done = undo(hand_over_id=run.pk, by="Kim")
    assert (done.returned, done.left) == (1, 3)
    now = holders()
    assert now[moved[3]] == run.membership_id and all(now[pk] == rep for pk, rep in stays.items())


def test_leads_that_nobody_could_take_return_too() -> None:
    team = make_team(reps=1)
    rep = make_rep(day_cap=0)
    with transaction.atomic():
        members.add_member(team=team, rep=rep)
    lead = make_lead(team=team)
    take_turns(team_id=team.pk)
    one = Assignment.objects.get().membership
    assert give_to_the_others(membership=one, by="Kim", reason="ill").waiting == 1
    assert undo(hand_over_id=HandOver.objects.get().pk, by="Kim").returned == 1
    assert holders() == {lead.pk: one.pk}


def test_it_is_taken_back_once_and_within_a_day_and_to_nobody_who_left() -> None:
    run = handed_over()
    HandOver.objects.update(made_at=timezone.now() - timedelta(hours=24, seconds=1))
    with pytest.raises(NotUndone):
        undo(hand_over_id=run.pk, by="Kim")
    HandOver.objects.update(made_at=timezone.now())
    with transaction.atomic():
        members.retire_reps(reps=Rep.objects.filter(pk=run.membership.rep_id))
    with pytest.raises(HasLeft):
        undo(hand_over_id=run.pk, by="Kim")
    Rep.objects.update(retired_at=None)
    answers = at_once(3, lambda _: undo(hand_over_id=run.pk, by="Kim"))
    assert sorted(type(answer).__name__ for answer in answers) == ["HandedBack", "NotUndone", "NotUndone"]
    nothing_lost_nothing_twice()


def test_a_hand_over_that_moved_nothing_is_no_run() -> None:
    team = make_team(reps=2)
    give_to_the_others(membership=team.memberships.earliest("pk"), by="Kim", reason="ill")
    assert not HandOver.objects.exists()


def test_it_is_taken_back_in_the_admin_after_asking() -> None:
    cache.clear()
    staff, run = logged_in(), handed_over()
    assert "Take back 1 hand-over" in ask(staff, "routing_handover", "undo", run.pk).content.decode()
    assert said(confirm(staff, "routing_handover", "undo", run.pk)) == ["Leads returned: 2."]
    run.refresh_from_db()
    assert run.undone_by == "robin"
    again = said(confirm(staff, "routing_handover", "undo", run.pk))
    assert again[0].startswith("Leads returned: 0. 1 not: This hand-over was taken back before")
