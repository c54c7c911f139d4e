"""The choice what leads of accounts become, made in the admin; and lock failures of contacts that leads became."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from crmsync.contended import contended
from crmsync.contention import contention
from crmsync.models import AccountLeads, CrmRecord, FieldMapping, LockFailure, OutboxMessage
from crmsync.moves.retry import retry_dead
from tests.crmsync.rows import again, drain, put, run_sql
from tests.crmsync.sandbox_org import SandboxOrg
from tests.crmsync.test_adopt import create
from tests.staff import listed, logged_in, said

pytestmark = pytest.mark.django_db(transaction=True)
LIST = "/admin/crmsync/fieldmapping/"
ADD = "/admin/crmsync/accountleads/add/"
CHANGE = "/admin/crmsync/accountleads/1/change/"


def put_in(staff: Client, path: str, written_as: str) -> Any:
    return staff.post(path, {"written_as": written_as}, follow=True)


def test_it_is_chosen_beside_the_field_mapping_and_its_history_says_by_whom(org: SandboxOrg) -> None:
    staff = logged_in("kim")
    page = staff.get(LIST).content.decode()
    assert "leads, like all others" in page and ADD in page
    assert "id of an Account that the CRM knows" in staff.get(ADD).content.decode()
    page = put_in(staff, ADD, "Contact").content.decode()
    assert "contacts under their account" in page and CHANGE in page
    assert AccountLeads.become_contacts()
    put_in(staff, CHANGE, "Lead")
    assert not AccountLeads.become_contacts()
    history = staff.get(reverse("admin:crmsync_accountleads_history", args=[1])).content.decode()
    assert history.count("kim") >= 2 and "Changed" in history


def test_an_org_that_would_refuse_the_contacts_is_asked_first(org: SandboxOrg) -> None:
    FieldMapping.objects.create(object="Contact", ours="job", theirs="Nowhere__c")
    answer = put_in(logged_in(), ADD, "Contact")
    assert "Nowhere__c (job) does not exist" in str(answer.context["adminform"].form.errors)
    assert not AccountLeads.objects.exists()


def test_without_an_org_it_is_saved_with_a_warning(org: SandboxOrg, settings: Any) -> None:
    settings.CRM_URL = ""
    answer = put_in(logged_in(), ADD, "Contact")
    assert any("The org was not asked" in text for text in said(answer))
    assert AccountLeads.become_contacts()


def test_who_may_only_look_is_shown_the_choice_and_may_not_make_it(org: SandboxOrg) -> None:
    looker = logged_in(may=("view_fieldmapping", "view_accountleads"))
    assert "leads, like all others" in looker.get(LIST).content.decode()
    assert ADD not in looker.get(LIST).content.decode()
    assert looker.post(ADD, {"written_as": "Contact"}).status_code == 403


@pytest.fixture
def locked(org: SandboxOrg) -> tuple[str, OutboxMessage]:
    """A lead that was to be a contact of an account that somebody held for too long."""
    AccountLeads.objects.create(written_as="Contact")
    account = create("Account")
    hold = org.ask("POST", "locks", {"ids": [account]})["id"]
    message = put("one", email="ada@customer.example", matched_account=account)
    drain(seconds=30)
    org.let_go(hold)
    assert again(message).failure_kind == "contention"
    return account, message


def test_a_lock_failure_of_a_new_contact_is_shown_under_its_account(locked: tuple[str, OutboxMessage]) -> None:
    account, message = locked
    assert [(one.label, one.lane) for one in contended()] == [(f"Account {account}", f"Account#{account}")]
    staff = logged_in()
    under = staff.get(listed("crmsync_lockfailure"), {"parent": f"Account:{account}"})
    assert [row.pk for row in under.context["cl"].result_list] == [message.pk]
    assert f"Account {account}" in under.content.decode() and "Contact · version 1" in under.content.decode()
    itself = staff.get(listed("crmsync_lockfailure"), {"parent": "itself"})
    assert not itself.context["cl"].result_list


def test_the_contention_report_counts_its_attempts_under_its_account(locked: tuple[str, OutboxMessage]) -> None:
    account, message = locked
    now = timezone.now()
    found = contention(since=now - timedelta(hours=1), until=now)
    assert [(one.label, one.failures, one.ours) for one in found.parents] == [
        (f"Account {account}", message.tries.count(), 0)
    ]
    assert [one.object for one in found.objects] == ["Contact"]


def test_retried_it_lands_at_once_though_the_lane_was_to_wait(
    org: SandboxOrg, locked: tuple[str, OutboxMessage]
) -> None:
    account, message = locked
    run_sql("UPDATE crmsync_lane SET not_before = now() + interval '1 hour'")
    assert retry_dead(message_ids=[message.pk], by="ops", reason="the job is over").retried == 1
    assert not LockFailure.objects.exists()
    drain()
    assert [one["AccountId"] for one in org.records("Contact")] == [account]
    assert CrmRecord.objects.get().crm_id
