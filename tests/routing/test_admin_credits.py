"""Credits by form: a person says how many leads and why, and the ledger keeps it."""

import pytest
from django.core.cache import cache
from django.test import Client

from routing.models import Credit, Membership
from routing.models.team import SCALE
from tests.make import make_team
from tests.staff import ask, confirm, listed, logged_in, page_of, said

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _nothing_remembered() -> None:
    cache.clear()


@pytest.fixture
def staff() -> Client:
    return logged_in()


def test_members_of_two_teams_are_credited_and_the_ledger_says_by_whom_and_why(staff):
    make_team(reps=1), make_team(reps=1)
    chosen = list(Membership.objects.order_by("pk"))

    page = ask(staff, "routing_membership", "credit", *[member.pk for member in chosen]).content.decode()
    answer = confirm(
        staff, "routing_membership", "credit", *[member.pk for member in chosen], leads="-1.5", reason="Fair booth"
    )

    assert "Credit 2 members" in page and "on their share" in page
    assert said(answer) == ["Credited -1.5 leads each to 2."]
    assert list(Membership.objects.values_list("lag", flat=True)) == [-3 * SCALE // 2] * 2
    assert Credit.objects.filter(by="robin", reason="Fair booth").count() == 2
    assert "-1.50" in staff.get(listed("routing_credit")).content.decode()
    assert "Fair booth" in staff.get(page_of("routing_membership", chosen[0].pk)).content.decode()


@pytest.mark.parametrize("given", [{"leads": "0", "reason": "x"}, {"leads": "2"}, {"leads": "1001", "reason": "x"}])
def test_no_leads_no_reason_or_a_slip_of_the_hand_is_asked_again(staff, given):
    make_team(reps=1)
    answer = confirm(staff, "routing_membership", "credit", Membership.objects.get().pk, **given)
    assert "errorlist" in answer.content.decode()
    assert not Credit.objects.exists()


def test_a_line_of_the_ledger_cannot_be_changed_or_deleted(staff):
    make_team(reps=1)
    confirm(staff, "routing_membership", "credit", Membership.objects.get().pk, leads="1", reason="Helped out")
    path = page_of("routing_credit", Credit.objects.get().pk)
    assert staff.get(path).status_code == 200
    assert staff.post(path, {"reason": "other"}).status_code == 403
    assert staff.post(path.replace("change", "delete"), {"post": "yes"}).status_code == 403
