"""Reps and their CRM users, matched by address against a real (sandbox) org."""

import json
from typing import Any

import pytest
from django.core.management import call_command

from config.crm_users import match_crm_users
from crmsync.gateway import connect
from routing.models import Rep
from tests.crmsync.conftest import org, org_process  # noqa: F401 - fixtures
from tests.make import make_rep

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _org(org: Any) -> None:  # noqa: F811
    """Every test here has an org."""


def user() -> dict[str, Any]:
    found = connect().query("SELECT Id, Email FROM User WHERE IsActive = true ORDER BY Id")
    emails = [row["Email"] for row in found]
    return next(row for row in found if emails.count(row["Email"]) == 1)


def test_a_rep_is_given_the_active_user_with_the_same_address() -> None:
    known = user()
    rep = make_rep(email=known["Email"].upper())
    done = match_crm_users()
    assert (done.matched, done.missing, done.inactive) == (1, [], [])
    assert Rep.objects.get(pk=rep.pk).crm_user_id == known["Id"]


def test_reps_without_a_user_and_with_one_that_is_not_active_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    make_rep(email="nobody@rota.example")
    make_rep(email="gone@rota.example", crm_user_id="005000000000001AAA")
    make_rep(email="there@rota.example", crm_user_id=user()["Id"][:15])
    with pytest.raises(SystemExit) as ended:
        call_command("match_crm_users", "--json")
    told = capsys.readouterr()
    assert ended.value.code == 3
    assert json.loads(told.out) == {"matched": 0, "missing": 1, "inactive": 1}
    assert "nobody@rota.example" in told.err and "gone@rota.example is inactive" in told.err


def test_the_id_that_a_person_gave_a_rep_stays() -> None:
    known = user()
    rep = make_rep(email=known["Email"], crm_user_id="005000000000001AAA")
    match_crm_users()
    assert Rep.objects.get(pk=rep.pk).crm_user_id == "005000000000001AAA"
