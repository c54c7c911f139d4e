"""Accounts by form: domains in one form, an owner, and the switches of a source that ask for owners."""

import pytest
from django.core.cache import cache
from django.test import Client
from django.urls import reverse

from routing.models import Account, AccountDomain, InboundSource
from tests.make import make_account, make_member, make_source, make_team, send
from tests.staff import hands_on, listed, logged_in, page_of, said

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _nothing_remembered() -> None:
    cache.clear()


@pytest.fixture
def staff() -> Client:
    return logged_in()


def domains(*names: str) -> dict[str, object]:
    given: dict[str, object] = {"domains-TOTAL_FORMS": len(names), "domains-INITIAL_FORMS": 0}
    return given | {f"domains-{number}-domain": name for number, name in enumerate(names)}


def test_a_lead_of_an_account_added_by_form_goes_to_its_owner(staff):
    team = make_team(reps=2)
    owner, source = make_member(team=team), make_source(team=team)

    given = {"name": "Acme", "owner": owner.rep_id, **domains("@ACME.example", "acme-labs.example")}
    hands_on(staff, reverse("admin:routing_account_add"), given)

    assert set(AccountDomain.objects.values_list("domain", flat=True)) == {"acme.example", "acme-labs.example"}
    assert send(source=source, email="pat@acme-labs.example").assignments.get().membership == owner
    assert "acme-labs.example, acme.example" in staff.get(listed("routing_account"), {"q": "labs"}).content.decode()


@pytest.mark.parametrize(
    ("domain", "says"), [("gmail.com", "is free mail"), ("acme", "Write a domain"), ("taken.example", "already exists")]
)
def test_free_mail_no_domain_at_all_and_that_of_another_account_are_refused(staff, domain, says):
    make_account(domains=("taken.example",))
    answer = staff.post(reverse("admin:routing_account_add"), {"name": "Acme", **domains(domain)})
    assert says in answer.content.decode()
    assert Account.objects.count() == 1


def test_a_domain_is_taken_from_an_account_and_the_account_stays(staff):
    account = make_account(domains=("acme.example",))
    row = {"domains-0-id": account.domains.get().pk, "domains-0-account": account.pk, "domains-0-DELETE": "on"}
    given = {"name": "Acme", **domains("acme.example"), "domains-INITIAL_FORMS": 1, **row}
    hands_on(staff, page_of("routing_account", account.pk), given)
    assert not AccountDomain.objects.exists()
    assert staff.post(reverse("admin:routing_account_delete", args=[account.pk]), {"post": "yes"}).status_code == 403


@pytest.mark.parametrize(
    "given",
    [
        "001000000000001",
        " 001000000000001AAA ",
        "https://x.lightning.force.com/lightning/r/Account/001000000000001AAA/view",
    ],
)
def test_the_crms_id_is_taken_from_whatever_was_pasted(staff, settings, given):
    settings.CRM_URL = ""
    answer = hands_on(staff, reverse("admin:routing_account_add"), {"name": "Acme", "crm_id": given, **domains()})
    assert Account.objects.get().crm_id == "001000000000001AAA"
    assert any("The org was not asked" in text for text in said(answer))


@pytest.mark.parametrize("given", ["Acme", "003000000000001AAA", "0010000000000010"])
def test_what_is_no_id_of_an_account_is_refused(staff, settings, given):
    settings.CRM_URL = ""
    answer = staff.post(reverse("admin:routing_account_add"), {"name": "Acme", "crm_id": given, **domains()})
    assert "the address of its page" in str(answer.context["adminform"].form.errors)
    assert not Account.objects.exists()


def test_a_source_can_be_told_to_ask_for_no_owners(staff):
    team = make_team(reps=1)
    owner, source = make_member(team=make_team()), make_source(team=team)
    make_account(domains=("acme.example",), owner=owner.rep)

    given = {"name": source.name, "slug": source.slug, "team": team.pk, "sticky_owner": "on", "active": "on"}
    hands_on(staff, page_of("routing_inboundsource", source.pk), given)

    source = InboundSource.objects.get()
    assert (source.sticky_owner, source.account_owner) == (True, False)
    assert send(source=source, email="pat@acme.example").team == team
