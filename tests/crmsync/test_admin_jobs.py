"""The journal of bulk jobs and the lesser pauses of the org, as the operations staff see them."""

import pytest
from django.test import Client

from crmsync.models import BulkJob, Claim, OrgState
from tests.crmsync.rows import run_sql
from tests.staff import logged_in

pytestmark = pytest.mark.django_db


@pytest.fixture
def staff() -> Client:
    return logged_in()


def test_a_job_shows_how_far_it_has_come_and_can_only_be_looked_at(staff: Client) -> None:
    run_sql("INSERT INTO crmsync_claim (token, worker, lease_until) VALUES (gen_random_uuid(), 'w', now() + '1 h')")
    job = BulkJob.objects.create(
        claim=Claim.objects.get(), road="bulk2", object="Contact", operation="update", rows=5_000, worker="w",
        status="polling", org_id="7505R0000000001QAA", processed=1_200, failed=3,
    )  # fmt: skip
    page = staff.get("/admin/crmsync/bulkjob/?state=unfinished").content.decode()
    assert "1,200 of 5,000 Contact, update, 3 failed" in page
    assert "Bulk API 2.0" in page
    assert "7505R0000000001QAA" in staff.get(f"/admin/crmsync/bulkjob/{job.pk}/change/").content.decode()
    assert staff.post(f"/admin/crmsync/bulkjob/{job.pk}/change/", {"rows": 1}).status_code == 403


def test_the_org_page_says_that_mass_updates_wait_and_why(staff: Client) -> None:
    OrgState.objects.create(mass_paused_until="2030-01-01T00:00Z", mass_paused_reason="4,100 of 5,000 calls are used")
    page = staff.get("/admin/crmsync/orgstate/").content.decode()
    assert "4,100 of 5,000 calls are used" in page
