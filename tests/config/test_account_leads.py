"""From the form to the contact: a lead matched to an account by its domain, its rep's turn, the org, and back."""

from typing import Any

import pytest
from django.urls import reverse

from config.crm_owners import ReadBack, read_back_owners
from crmsync.gateway import connect
from crmsync.models import AccountLeads, CrmRecord, OutboxMessage
from routing.by_hand import give_now
from routing.models import Account, Assignment
from tests.crmsync.conftest import org, org_process  # noqa: F401 - fixtures
from tests.crmsync.rows import drain
from tests.crmsync.sandbox_org import SandboxOrg
from tests.crmsync.test_adopt import all_of, create
from tests.make import make_account, make_lead, make_member, make_rep, make_source, make_team, send
from tests.staff import ask, confirm, hands_on, listed, logged_in, nothing, page_of, said

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _org(org: Any) -> None:  # noqa: F811
    """Every test here has an org."""


def users(count: int) -> list[str]:
    found = connect().query(f"SELECT Id FROM User WHERE IsActive = true ORDER BY Id LIMIT {count}")
    return [row["Id"] for row in found]


def of_account(**fields: Any) -> tuple[str, Any]:
    """An account that the org has, and a lead of it that its owner was given."""
    account = create("Account")
    (user,) = users(1)
    team = make_team()
    make_member(team=team, rep=make_rep(crm_user_id=user))
    make_account(domains=("acme.example",), crm_id=account)
    return account, send(source=make_source(team=team), email="pat@eu.acme.example", **fields)


def test_a_matched_lead_is_a_contact_under_the_account_and_its_page_says_so(org: SandboxOrg) -> None:  # noqa: F811
    AccountLeads.objects.create(written_as="Contact")
    account, lead = of_account(last_name="Novák", matched_account="001000000000001AAA")  # a form cannot choose
    drain()
    (contact,) = all_of(org, "Contact")
    assert (contact["AccountId"], contact["Rota_Id__c"], contact["LastName"]) == (account, str(lead.uid), "Novák")
    assert contact["OwnerId"] == users(1)[0]
    page = logged_in().get(page_of("routing_lead", lead.pk)).content.decode()
    assert f"Contact <code>{contact['Id']}</code> under Account <code>{account}</code>" in page


def test_as_people_find_it_everything_is_a_lead(org: SandboxOrg) -> None:  # noqa: F811
    _, lead = of_account()
    drain()
    (found,) = all_of(org, "Lead")
    assert found["Rota_Id__c"] == str(lead.uid) and all_of(org, "Contact") == []
    page = logged_in().get(page_of("routing_lead", lead.pk)).content.decode()
    assert f"Lead <code>{found['Id']}</code>" in page


def test_an_account_that_is_gone_from_the_org_leaves_a_lead_and_its_page_says_why(org: SandboxOrg) -> None:  # noqa: F811
    AccountLeads.objects.create(written_as="Contact")
    account, lead = of_account()
    connect().call("DELETE", f"sobjects/Account/{account}", None, {})
    drain()
    assert len(all_of(org, "Lead")) == 1
    page = logged_in().get(page_of("routing_lead", lead.pk)).content.decode()
    assert f"No contact of its account. The CRM has no Account {account}." in page


def test_a_lead_that_a_person_gives_away_carries_its_account_too(org: SandboxOrg) -> None:  # noqa: F811
    AccountLeads.objects.create(written_as="Contact")
    account = create("Account")
    member = make_member(team=make_team())
    lead = make_lead(team=member.team, account=make_account(domains=("acme.example",), crm_id=account))
    give_now(lead_ids=[lead.pk], membership=member, by="robin", reason="test")
    drain()
    assert [one["AccountId"] for one in all_of(org, "Contact")] == [account]


def test_a_lead_without_an_account_or_of_one_without_an_id_says_nothing_of_it() -> None:
    team = make_team(reps=1)
    source = make_source(team=team)
    make_account(domains=("acme.example",))
    send(source=source, email="pat@acme.example")
    send(source=source, email="pat@other.example")
    assert [message for message in OutboxMessage.objects.all() if "matched_account" in message.fields] == []


def test_the_owner_of_such_a_contact_is_read_back_like_that_of_a_lead(org: SandboxOrg) -> None:  # noqa: F811
    AccountLeads.objects.create(written_as="Contact")
    first, second = users(2)
    team = make_team()
    ann, ben = (make_member(team=team, rep=make_rep(crm_user_id=each)) for each in (first, second))
    lead = make_lead(team=team, account=make_account(domains=("acme.example",), crm_id=create("Account")))
    give_now(lead_ids=[lead.pk], membership=ann, by="robin", reason="test")
    drain()
    record = CrmRecord.objects.get()
    connect().call("PATCH", f"sobjects/Contact/{record.crm_id}", {"OwnerId": second}, {})
    assert read_back_owners() == ReadBack(moved=1)
    assert Assignment.objects.current().get(lead=lead).membership == ben
    give_now(lead_ids=[lead.pk], membership=ann, by="robin", reason="Hers")
    drain()
    assert [one["OwnerId"] for one in all_of(org, "Contact")] == [first]


def test_the_org_is_asked_about_the_id_of_an_account(org: SandboxOrg) -> None:  # noqa: F811
    staff, known = logged_in(), create("Account", Name="Acme Holding")
    rows = {"name": "Acme", **nothing("domains")}
    answer = staff.post(reverse("admin:routing_account_add"), {**rows, "crm_id": "001000000000999"})
    assert "The CRM has no Account 001000000000999AAA" in str(answer.context["adminform"].form.errors)
    address = f"https://acme.lightning.force.com/lightning/r/Account/{known}/view"
    answer = hands_on(staff, reverse("admin:routing_account_add"), {**rows, "crm_id": address})
    assert any("called Acme Holding" in text for text in said(answer))
    assert known in staff.get(listed("routing_account")).content.decode()
    account = Account.objects.get()
    hands_on(staff, page_of("routing_account", account.pk), {**rows, "name": "Acme AG", "crm_id": known})
    hands_on(staff, page_of("routing_account", account.pk), {**rows, "crm_id": ""})
    account.refresh_from_db()
    assert (account.name, account.crm_id) == ("Acme", "")


def test_accounts_are_found_in_the_crm_by_their_websites_and_named_once_confirmed(org: SandboxOrg) -> None:  # noqa: F811
    acme = create("Account", Name="Acme Holding", Website="https://www.ACME.example/en")
    create("Account", Name="Not Acme", Website="https://notacme.example")
    for name in ("Blue One", "Blue Two"):
        create("Account", Name=name, Website="blue.example")
    first, blue = make_account(domains=("acme.example", "acme-labs.example")), make_account(domains=("blue.example",))
    named = make_account(domains=("coral.example",), crm_id="001000000000001AAA")
    staff, pks = logged_in(), (first.pk, blue.pk, named.pk)
    page = ask(staff, "routing_account", "find_in_the_crm", *pks).content.decode()
    assert f"{first}: Acme Holding ({acme})" in page and "Blue One" in page and "Blue Two" in page
    assert "<strong>1</strong> of 3" in page
    assert Account.objects.exclude(crm_id="").count() == 1
    answer = confirm(staff, "routing_account", "find_in_the_crm", *pks)
    assert said(answer)[-1].startswith("Named 1. Skipped 2 named already, or not exactly one")
    assert dict(Account.objects.values_list("pk", "crm_id")) == {
        first.pk: acme,
        blue.pk: "",
        named.pk: "001000000000001AAA",
    }
    assert "Named 1." in staff.get(reverse("admin:routing_account_history", args=[first.pk])).content.decode()


def test_without_an_org_nothing_is_found_and_that_is_said(org: SandboxOrg, settings: Any) -> None:  # noqa: F811
    settings.CRM_URL = ""
    account = make_account(domains=("acme.example",))
    given = {"action": "find_in_the_crm", "_selected_action": account.pk, "index": 0}
    assert "The org was not asked" in said(logged_in().post(listed("routing_account"), given, follow=True))[-1]
