"""People say in the admin where a field goes, and the org is asked before that is believed."""

from typing import Any

import pytest

from crmsync.models import FieldMapping
from crmsync.moves.batches import note_settled
from tests.crmsync.piled import put_batch
from tests.crmsync.rows import drain, put
from tests.crmsync.sandbox_org import SandboxOrg
from tests.staff import logged_in, said

pytestmark = pytest.mark.django_db(transaction=True)
ADD = "/admin/crmsync/fieldmapping/add/"
LIST = "/admin/crmsync/fieldmapping/"


def add(staff: Any, **given: str) -> Any:
    return staff.post(ADD, {"object": "Lead", "theirs": "", **given}, follow=True)


def errors(answer: Any) -> str:
    return str(answer.context["adminform"].form.errors) if answer.context.get("adminform") else ""


def test_a_mapped_field_reaches_the_org_from_the_next_chunk_on(org: SandboxOrg) -> None:
    add(logged_in(), ours="job", theirs="Title")
    put("one", email="a@b.example", job="CTO")
    drain()
    assert [record["Title"] for record in org.records("Lead")] == ["CTO"]
    row = FieldMapping.objects.get()
    assert (row.kind, row.problem) == ("string", "")
    assert row.length and row.checked_at


@pytest.mark.parametrize(
    ("theirs", "says"),
    [
        ("Nowhere__c", "has no field Nowhere__c"),
        ("title", "The field is called Title"),
        ("CreatedDate", "read-only"),
        ("not a name", "has no field not a name"),
        ("Email", "is filled from email"),
    ],
)
def test_a_field_that_would_have_records_refused_is_refused_first(org: SandboxOrg, theirs: str, says: str) -> None:
    assert says in errors(add(logged_in(), ours="job", theirs=theirs))
    assert not FieldMapping.objects.exists()


@pytest.mark.parametrize(
    ("object", "ours", "theirs", "says"),
    [
        ("Lead", "x", "Rota_Id__c", "is the key by which Rota finds its records"),
        ("Lead", "x", "rota_id__c", "is the key by which Rota finds its records"),
        ("Contact", "x", "AccountId", "names the parent"),
        ("Lead", "last_name", "", "LastName is required of every record"),
        ("Lead", "last_name", "Title", "LastName is required of every record"),
        ("Lead", "email", "AnnualRevenue", "AnnualRevenue is of type currency, and email is sent as e-mail address"),
        ("Lead", "country", "HasOptedOutOfEmail", "is of type boolean, and country is sent as text"),
        ("Contact", "owner", "AnnualRevenue__c", "has no field"),
    ],
)
def test_a_mapping_that_would_break_every_record_is_refused(
    org: SandboxOrg, object: str, ours: str, theirs: str, says: str
) -> None:
    assert says in errors(add(logged_in(), object=object, ours=ours, theirs=theirs))
    assert not FieldMapping.objects.exists()


def test_a_required_field_gets_another_source_first_and_then_lets_go_of_the_usual_one(org: SandboxOrg) -> None:
    staff = logged_in()
    add(staff, ours="surname", theirs="LastName")
    put("one", email="a@b.example", surname="Byron", last_name="not this")
    add(staff, ours="last_name", theirs="Title")
    put("two", email="a@b.example", surname="King", last_name="Countess")
    drain()
    names = {(record["LastName"], record["Title"]) for record in org.records("Lead")}
    assert ("King", "Countess") in names and "not this" not in {last for last, _ in names}


def test_what_was_saved_before_is_told_when_the_org_is_asked_again(org: SandboxOrg) -> None:
    FieldMapping.objects.create(ours="email", theirs="AnnualRevenue")
    row = FieldMapping.objects.get()
    answer = logged_in().post(LIST, {"action": "ask_the_org", "_selected_action": row.pk, "index": 0}, follow=True)
    assert "1 would be refused" in said(answer)[-1]
    assert "of type currency" in answer.content.decode()


def test_a_field_mapped_to_nothing_is_not_sent(org: SandboxOrg) -> None:
    add(logged_in(), ours="phone", theirs="")
    put("one", email="a@b.example", phone="+4930123")
    drain()
    assert [record["Phone"] for record in org.records("Lead")] == [None]


def test_without_an_org_the_mapping_is_saved_with_a_warning_and_can_be_asked_later(
    org: SandboxOrg, settings: Any
) -> None:
    staff, url = logged_in(), settings.CRM_URL
    settings.CRM_URL = ""
    assert any("The org was not asked" in text for text in said(add(staff, ours="job", theirs="Nowhere__c")))
    row = FieldMapping.objects.get()
    assert row.checked_at is None
    settings.CRM_URL = url
    answer = staff.post(LIST, {"action": "ask_the_org", "_selected_action": row.pk, "index": 0}, follow=True)
    assert "1 would be refused" in said(answer)[-1]
    assert "has no field Nowhere__c" in answer.content.decode()


def test_the_list_shows_the_usual_table_and_what_was_changed(org: SandboxOrg) -> None:
    staff = logged_in()
    add(staff, ours="title", theirs="Title")
    page = staff.get(LIST).content.decode()
    assert "LeadSource" in page and "Title" in page


def test_two_fields_never_fill_the_same_one(org: SandboxOrg) -> None:
    staff = logged_in()
    add(staff, ours="job", theirs="Title")
    assert "is filled from job" in errors(add(staff, ours="role", theirs="Title"))
    row = FieldMapping.objects.get()
    staff.post(f"/admin/crmsync/fieldmapping/{row.pk}/change/", {"object": "Lead", "ours": "role", "theirs": "Title"})
    assert FieldMapping.objects.get().ours == "role"


def test_the_mapping_stays_as_it_is_while_rows_of_a_mass_update_wait(org: SandboxOrg) -> None:
    """They would reach another field than the one their cells were checked for."""
    staff = logged_in()
    add(staff, object="Contact", ours="company", theirs="Description")
    batch, row = put_batch("people.csv", {"a": 1}), FieldMapping.objects.get()
    assert f"Mass update {batch.pk} was checked" in errors(
        add(staff, object="Contact", ours="company", theirs="Description")
    )
    where = f"/admin/crmsync/fieldmapping/{row.pk}/delete/"
    assert f"Mass update {batch.pk} was checked" in staff.get(where).content.decode()
    staff.post(where, {"post": "yes"})
    assert FieldMapping.objects.exists()
    drain()
    note_settled()
    staff.post(where, {"post": "yes"})
    assert not FieldMapping.objects.exists()
