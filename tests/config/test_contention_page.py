"""The contention page, as an operator sees it."""

from datetime import timedelta

import pytest
from django.utils import timezone

from crmsync.models import Attempt, Claim
from tests.crmsync.conftest import org, org_process  # noqa: F401 - fixtures
from tests.crmsync.rows import put
from tests.crmsync.sandbox_org import SandboxOrg
from tests.staff import logged_in

pytestmark = pytest.mark.django_db(transaction=True)
PAGE = "/admin/contention/"


def fail(count: int) -> None:
    message, now = put(object="Contact", account="HOT"), timezone.now()
    for _ in range(count):
        until = now + timedelta(seconds=1)
        claim = Claim.objects.create(
            worker="w", claimed_at=now, lease_until=until, begun_at=now, ended_at=until, end_reason="settled"
        )
        Attempt.objects.create(
            message=message, claim=claim, number=1, begun_at=now, ended_at=until, outcome="contention"
        )
        now += timedelta(seconds=2)


def test_without_lock_failures_it_says_so() -> None:
    assert "No write met a lock in this period." in logged_in().get(PAGE).content.decode()


def test_it_names_the_parent_and_what_to_do() -> None:
    fail(6)
    page = logged_in().get(PAGE).content.decode()
    assert "Account HOT" in page
    assert "Account HOT has 100% of them." in page


def test_the_org_is_asked_on_request_and_its_triggers_are_named(org: SandboxOrg) -> None:  # noqa: F811
    org.ask(
        "POST", "automation", {"kind": "trigger", "object": "Contact", "name": "Touch_Account", "events": ["update"]}
    )
    fail(6)
    staff = logged_in()
    assert "Touch_Account" not in staff.get(PAGE).content.decode()
    assert "Touch_Account" in staff.get(PAGE, {"ask": "on"}).content.decode()


def test_days_the_wrong_way_round_are_refused() -> None:
    page = logged_in().get(PAGE, {"first": "2026-03-02", "last": "2026-03-01"}).content.decode()
    assert "The last day is before the first" in page


def test_who_may_not_see_attempts_may_not_see_the_page() -> None:
    assert logged_in(may=("view_lead",)).get(PAGE).status_code == 403
