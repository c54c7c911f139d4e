"""Mass updates in the admin: a file is looked at, its plan confirmed, paused, cancelled; lanes and the org by hand."""

from typing import Any

import pytest
from django.core.cache import cache
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from crmsync import tasks
from crmsync.models import Batch, Intervention, Lane, LockFailure, OrgState, OutboxMessage
from tests.crmsync.push.test_cancelling import batch_of
from tests.crmsync.rows import put_contacts, run_sql
from tests.crmsync.sandbox_org import SandboxOrg
from tests.staff import ask, confirm, listed, logged_in, page_of, said

pytestmark = pytest.mark.django_db(transaction=True)
BATCH = "crmsync_batch"
FILE = "Rota_Id__c,LastName,Account.Rota_Id__c\nC-1,Novák,A\nC-2,Reyes,A\n"


@pytest.fixture(autouse=True)
def _nothing_remembered() -> None:
    cache.clear()


@pytest.fixture
def staff() -> Client:
    return logged_in()


def upload(staff: Client, text: str = FILE, **more: Any) -> Any:
    given = {"object": "Contact", "operation": "upsert", "parent": "", "encoding": "", **more}
    file = SimpleUploadedFile("rows.csv", text.encode())
    return staff.post(reverse("admin:crmsync_batch_push"), {**given, "file": file}, follow=True)


def dead_contacts(count: int) -> None:
    put_contacts("hot", count)
    run_sql(
        "UPDATE crmsync_outboxmessage SET status = 'dead', settled_at = now(), failure_kind = 'contention'"
        " WHERE status = 'pending'"
    )


def test_a_file_is_queued_after_its_plan_was_seen(org: SandboxOrg, staff: Client) -> None:
    page = upload(staff)
    batch = Batch.objects.get()
    assert page.redirect_chain[-1][0] == page_of(BATCH, batch.pk)
    assert "Busiest parents" in page.content.decode() and not OutboxMessage.objects.exists()
    staff.post(reverse("admin:crmsync_batch_go", args=[batch.pk]))
    assert tasks.load_batch(batch.pk) == {"left": False}
    assert OutboxMessage.objects.filter(batch=batch).count() == 2
    assert "0 % done" in staff.get(page_of(BATCH, batch.pk)).content.decode()
    again = upload(staff)
    assert "pushed before" in again.content.decode()
    second = Batch.objects.get(status="offered")
    answer = staff.post(reverse("admin:crmsync_batch_go", args=[second.pk]), follow=True)
    assert "pushed before" in said(answer)[0]


def test_the_same_file_while_the_first_is_still_being_queued_is_told_so(org: SandboxOrg, staff: Client) -> None:
    upload(staff)
    upload(staff)
    first, second = Batch.objects.order_by("pk")
    staff.post(reverse("admin:crmsync_batch_go", args=[first.pk]))
    answer = staff.post(reverse("admin:crmsync_batch_go", args=[second.pk]), follow=True)
    assert "is being queued: 0 of 2 rows so far" in said(answer)[-1]


def test_no_button_is_offered_that_would_do_nothing(staff: Client) -> None:
    batch = batch_of("one")
    page = ask(staff, BATCH, "resume_selected", batch.pk).content.decode()
    assert "Resume 0" not in page and ">Back</a>" in page
    page = staff.get(reverse("admin:crmsync_lockfailure_retry_all")).content.decode()
    assert "Retry all 0</button>" not in page and ">Back</a>" in page


def test_a_filter_that_matches_nothing_does_not_say_that_there_is_nothing(staff: Client) -> None:
    put_contacts("hot", 2)
    run_sql(
        "UPDATE crmsync_outboxmessage SET status = 'dead', settled_at = now(), failure_kind = 'permanent'"
        " WHERE status = 'pending'"
    )
    page = staff.get(f"{listed('crmsync_deadletter')}?failure_kind=zzz").content.decode()
    assert "Nothing matches." in page and "No dead letters." not in page


def test_what_is_wrong_with_a_file_is_told_by_line(org: SandboxOrg, staff: Client) -> None:
    page = upload(staff, "Rota_Id__c,LastName\nC-1,A\nC-1,B\n").content.decode()
    assert "1 problem in the file" in page and "line 3: Rota_Id__c is that of line 2" in page
    assert "no such object" in upload(staff, object="Nothing").content.decode()
    assert not Batch.objects.exists()


def test_a_mass_update_is_paused_resumed_and_cancelled_with_who_and_why(staff: Client) -> None:
    batch = batch_of("one", "two")
    assert "Pause 1 mass update" in ask(staff, BATCH, "pause_selected", batch.pk).content.decode()
    assert said(confirm(staff, BATCH, "pause_selected", batch.pk, reason="busy"))[0].startswith("Paused 1.")
    assert said(confirm(staff, BATCH, "resume_selected", batch.pk))[0].startswith("Resumed 1.")
    assert "2 rows will not be sent" in ask(staff, BATCH, "cancel_selected", batch.pk).content.decode()
    confirm(staff, BATCH, "cancel_selected", batch.pk, reason="wrong file")
    assert OutboxMessage.objects.filter(status="cancelled").count() == 2
    deeds = Intervention.objects.order_by("pk").values_list("kind", "by", "reason")
    assert list(deeds) == [
        ("batch_paused", "robin", "busy"),
        ("batch_resumed", "robin", ""),
        ("batch_cancelled", "robin", "wrong file"),
    ]
    assert "wrong file" in staff.get(page_of(BATCH, batch.pk)).content.decode()


@pytest.mark.parametrize("noted", [True, False])
def test_a_mass_update_that_has_ended_is_neither_paused_nor_cancelled(staff: Client, noted: bool) -> None:
    batch = batch_of("one")
    run_sql("UPDATE crmsync_outboxmessage SET status = 'delivered', settled_at = now() WHERE status = 'pending'")
    if noted:
        assert tasks.look_after_batches()["ended"] == 1
        assert ask(staff, BATCH, "pause_selected", batch.pk).context["question"].ready == 0
        assert ask(staff, BATCH, "cancel_selected", batch.pk).context["question"].ready == 0
    assert said(confirm(staff, BATCH, "pause_selected", batch.pk)) == ["Paused 0. Skipped 1 paused or ended."]
    assert said(confirm(staff, BATCH, "cancel_selected", batch.pk)) == [
        "Cancelled 0. Skipped 1 cancelled before or ended."
    ]
    batch.refresh_from_db()
    assert (batch.status, batch.paused_at) == ("queued", None) and batch.settled_at
    assert not Intervention.objects.exists()


def test_the_verdicts_are_a_csv_with_a_line_for_each_row(staff: Client) -> None:
    batch = batch_of("one", "=1+1")
    answer = staff.get(reverse("admin:crmsync_batch_verdicts", args=[batch.pk]))
    lines = b"".join(answer.streaming_content).decode("utf-8-sig").splitlines()
    assert lines[0].startswith("line,key,verdict,crm_id,code")
    assert lines[1].startswith("2,one,waiting,") and lines[2].startswith("3,'=1+1,waiting,")


def test_who_may_only_look_pushes_and_stops_nothing() -> None:
    reader = logged_in("reader", may=("view_batch", "view_orgstate", "view_lane", "view_lockfailure"))
    assert reader.get(listed(BATCH)).status_code == 200
    assert reader.get(reverse("admin:crmsync_batch_push")).status_code == 403
    assert reader.post(listed("crmsync_orgstate"), {"do": "stop", "reason": "r"}).status_code == 403
    assert reader.get(f"{reverse('admin:crmsync_lane_hold')}?key=Account:a").status_code == 403
    assert reader.get(reverse("admin:crmsync_lockfailure_retry_all")).status_code == 403


def test_all_lock_failures_that_match_are_retried_and_the_count_is_confirmed(staff: Client) -> None:
    dead_contacts(30)
    (other,) = put_contacts("cold", 1)
    run_sql(
        "UPDATE crmsync_outboxmessage SET status = 'dead', settled_at = now(), failure_kind = 'contention'"
        " WHERE status = 'pending'"
    )
    address = f"{reverse('admin:crmsync_lockfailure_retry_all')}?parent=Account:hot"
    page = staff.get(address)
    assert page.context["count"] == 30
    answer = staff.post(
        address, {"asked_at": page.context["asked_at"].isoformat(), "reason": "load is over"}, follow=True
    )
    assert said(answer) == ["Retried 30."]
    assert list(LockFailure.objects.values_list("pk", flat=True)) == [other.pk]
    deed = Intervention.objects.get(kind="retried")
    assert (deed.count, deed.reason, deed.about) == (30, "load is over", "lock failures, parent Account:hot")


def test_a_contended_parent_is_held_and_released_from_its_page(staff: Client) -> None:
    dead_contacts(2)
    address = f"{reverse('admin:crmsync_lane_hold')}?key=Account%3Ahot"
    assert "key=Account%3Ahot" in staff.get(listed("crmsync_lockfailure")).content.decode()
    staff.post(address, {"do": "hold", "until": "2999-01-01T06:00", "reason": "month end"})
    assert Lane.objects.get(key="Account:hot").held_by == "robin"
    page = staff.get(address).content.decode()
    assert "month end" in page and "Release" in page
    staff.post(address, {"do": "release", "reason": "done"})
    assert Lane.objects.get(key="Account:hot").held_until is None
    assert list(Intervention.objects.order_by("pk").values_list("kind", flat=True)) == ["held", "released"]


def test_the_org_is_stopped_and_resumed_from_its_page(staff: Client) -> None:
    page = listed("crmsync_orgstate")
    assert "writing" in staff.get(page).content.decode()
    staff.post(page, {"do": "stop", "reason": "release week-end"})
    assert OrgState.objects.get().stopped_by == "robin"
    assert "release week-end" in staff.get(page).content.decode()
    staff.post(page, {"do": "resume", "reason": "done"})
    assert OrgState.objects.get().stopped_at is None


def test_the_minute_task_goes_on_with_what_was_left_half_done() -> None:
    batch = batch_of("one", "two")
    from crmsync.moves import batches

    batches.cancel(batch_id=batch.pk, by="ops", reason="r")  # as if the process had died after this
    assert tasks.look_after_batches()["cancelling"] == 1
    assert tasks.cancel_batch(batch.pk) == {"cancelled": 2, "left": False}
    assert tasks.look_after_batches() == {"loading": 0, "cancelling": 1, "ended": 1}
