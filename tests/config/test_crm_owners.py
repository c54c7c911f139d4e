"""Owners that people change in the CRM are followed, never overwritten, by a real (sandbox) org over HTTP."""

from typing import Any

import pytest
from django.db import transaction

from config.crm_owners import ReadBack, read_back_owners
from crmsync.errors import CallFailed
from crmsync.gateway import connect
from crmsync.models import CrmRecord, OutboxMessage
from routing.by_hand import assign_now, give_now
from routing.leads import close
from routing.models import Assignment, Lead, Membership
from tests.crmsync.conftest import org, org_process  # noqa: F401 - fixtures
from tests.crmsync.rows import drain
from tests.crmsync.sandbox_org import SandboxOrg
from tests.make import make_lead, make_member, make_rep, make_team

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _org(org: Any) -> None:  # noqa: F811
    """Every test here has an org."""


def users(count: int) -> list[str]:
    found = connect().query(f"SELECT Id FROM User WHERE IsActive = true ORDER BY Id LIMIT {count}")
    return [row["Id"] for row in found]


def team_of(*crm_user_ids: str) -> list[Membership]:
    team = make_team()
    return [make_member(team=team, rep=make_rep(crm_user_id=each)) for each in crm_user_ids]


def delivered_lead(membership: Membership) -> Lead:
    """A lead of this member that the CRM has."""
    lead = make_lead(team=membership.team, email="pat@customer.example")
    give_now(lead_ids=[lead.pk], membership=membership, by="robin", reason="test")
    drain()
    return lead


def in_the_crm(lead: Lead, **fields: Any) -> None:
    """Somebody else's write, past Rota."""
    record = CrmRecord.objects.get(external_id=str(lead.uid))
    connect().call("PATCH", f"sobjects/Lead/{record.crm_id}", fields, {})


def owner_in_the_crm(lead: Lead) -> str:
    record = CrmRecord.objects.get(external_id=str(lead.uid))
    return str(connect().query(f"SELECT OwnerId FROM Lead WHERE Id = '{record.crm_id}'")[0]["OwnerId"])


def history(lead: Lead) -> list[tuple[int, str, str]]:
    rows = Assignment.objects.filter(lead=lead).order_by("pk")
    return [(row.membership_id, row.end_reason, row.chosen_by) for row in rows]


def test_a_lead_given_to_another_rep_in_the_crm_is_theirs_here_and_nothing_is_sent() -> None:
    first, second = users(2)
    ann, ben = team_of(first, second)
    lead = delivered_lead(ann)
    in_the_crm(lead, OwnerId=second)
    assert read_back_owners() == ReadBack(moved=1)
    assert history(lead) == [(ann.pk, "taken_over", "robin"), (ben.pk, "", "CRM")]
    assert not OutboxMessage.objects.open().exists()
    assert owner_in_the_crm(lead) == second
    lead.refresh_from_db()
    assert lead.status == Lead.Status.ASSIGNED


def test_a_lead_given_to_somebody_outside_every_team_is_closed_and_never_given_again() -> None:
    first, second = users(2)
    (ann,) = team_of(first)
    lead = delivered_lead(ann)
    in_the_crm(lead, OwnerId=second)
    assert read_back_owners() == ReadBack(taken_over=1)
    assert history(lead) == [(ann.pk, "taken_over", "robin")]
    lead.refresh_from_db()
    assert lead.status == Lead.Status.CLOSED
    assert not OutboxMessage.objects.open().exists()
    assert owner_in_the_crm(lead) == second


def test_a_look_at_what_rota_itself_wrote_or_at_other_fields_changes_nothing() -> None:
    (ann,) = team_of(*users(1))
    lead = delivered_lead(ann)
    in_the_crm(lead, Company="Another name")
    assert read_back_owners() == ReadBack()
    assert history(lead) == [(ann.pk, "", "robin")]


def test_the_same_change_is_followed_once() -> None:
    first, second = users(2)
    ann, _ = team_of(first, second)
    lead = delivered_lead(ann)
    in_the_crm(lead, OwnerId=second)
    assert [read_back_owners().moved for _ in range(3)] == [1, 0, 0]
    assert len(history(lead)) == 2


def test_an_owner_that_rota_is_about_to_write_is_not_taken_for_a_foreign_one() -> None:
    first, second = users(2)
    ann, ben = team_of(first, second)
    lead = delivered_lead(ann)
    give_now(lead_ids=[lead.pk], membership=ben, by="robin", reason="test")  # not yet in the CRM, which still says Ann
    assert read_back_owners() == ReadBack()
    assert history(lead)[-1] == (ben.pk, "", "robin")
    drain()
    assert owner_in_the_crm(lead) == second


def test_a_person_may_give_it_to_somebody_else_afterwards_and_the_crm_follows() -> None:
    first, second = users(2)
    ann, ben = team_of(first, second)
    lead = delivered_lead(ann)
    in_the_crm(lead, OwnerId=second)
    read_back_owners()
    give_now(lead_ids=[lead.pk], membership=ann, by="robin", reason="Her account")
    drain()
    assert owner_in_the_crm(lead) == first
    assert read_back_owners() == ReadBack()
    assert history(lead)[-1] == (ann.pk, "", "robin")


def test_no_automatic_move_overwrites_the_owner_that_the_crm_said() -> None:
    first, second = users(2)
    ann, _ = team_of(first, second)
    lead = delivered_lead(ann)
    in_the_crm(lead, OwnerId=second)
    read_back_owners()
    assert assign_now(lead_ids=[lead.pk]).taken == 0
    assert not Assignment.objects.current().filter(chosen_by="", lead=lead).exists()


def adopted_lead(membership: Membership, owner: str) -> Lead:
    """A lead of this member whom the CRM had before, under another owner."""
    fields = {"LastName": "N", "Company": "C", "Email": "pat@customer.example", "OwnerId": owner}
    connect().call("POST", "sobjects/Lead", fields, {})
    return delivered_lead(membership)


def test_a_lead_that_a_rep_owned_in_the_crm_before_goes_to_that_rep() -> None:
    first, second = users(2)
    ann, ben = team_of(first, second)
    lead = adopted_lead(ann, owner=second)
    assert read_back_owners() == ReadBack(moved=1)
    assert history(lead)[-1] == (ben.pk, "", "CRM")
    assert owner_in_the_crm(lead) == second


def test_a_lead_that_nobody_of_a_team_owned_before_stays_with_whose_turn_it_was_and_the_crm_is_told() -> None:
    first, second = users(2)
    (ann,) = team_of(first)
    lead = adopted_lead(ann, owner=second)
    assert read_back_owners() == ReadBack(told=1)
    drain()
    assert owner_in_the_crm(lead) == first
    assert history(lead) == [(ann.pk, "", "robin")]
    assert read_back_owners() == ReadBack()


def test_an_org_that_does_not_answer_loses_nothing(org: SandboxOrg) -> None:  # noqa: F811
    first, second = users(2)
    ann, _ = team_of(first, second)
    lead = delivered_lead(ann)
    in_the_crm(lead, OwnerId=second)
    org.fault("unavailable", times=1, path="/query")
    with pytest.raises(CallFailed):
        read_back_owners()
    assert read_back_owners().moved == 1


def test_a_closed_lead_stays_closed() -> None:
    first, second = users(2)
    ann, _ = team_of(first, second)
    lead = delivered_lead(ann)
    with transaction.atomic():
        close(lead_ids=[lead.pk])
    in_the_crm(lead, OwnerId=second)
    assert read_back_owners() == ReadBack()
    assert history(lead) == [(ann.pk, "closed", "robin")]
