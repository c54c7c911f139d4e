"""Bulk jobs against a real org process: what arrives, what is written down when, and who carries on after a death."""

from collections.abc import Callable
from typing import Any

import pytest

from crmsync import bulk2
from crmsync.flows.deliver import deliver, next_due_at
from crmsync.flows.orphans import sweep_orphans
from crmsync.flows.reap import reap
from crmsync.flows.send import send
from crmsync.gateway import Org, connect
from crmsync.models import Attempt, BulkJob, Claim, Lane, OrgState, OutboxMessage
from crmsync.moves.claim import claim_next
from tests.crmsync.rows import (
    again,
    age_claims,
    claim_everything,
    drain,
    eventually,
    put,
    put_many,
    record_of,
    run_sql,
    statuses,
)
from tests.crmsync.sandbox_org import SandboxOrg

pytestmark = pytest.mark.django_db(transaction=True)

ROADS = ("collections", "bulk2", "bulk1")
BULK = ("bulk2", "bulk1")
DELIVERED = OutboxMessage.Status.DELIVERED


@pytest.fixture
def by(settings: Any) -> Callable[[str], None]:
    """Set the road of every object that these tests write."""

    def choose(road: str) -> None:
        settings.CRM_ROADS = dict.fromkeys(("Contact", "Account", "Lead"), road)

    return choose


class Watched(Org):
    """Notes what the journal said when each call for a job left."""

    def __init__(self) -> None:
        super().__init__(connect().address)
        self.seen: list[tuple[str, str, str]] = []

    def send(self, method: str, path: str, **more: Any) -> bytes:
        job = BulkJob.objects.get()
        self.seen.append((method, path.replace(job.org_id or "?", "ID"), job.status))
        return super().send(method, path, **more)


class Killed(BaseException):
    """As kill -9: nothing that the worker would do afterwards is done."""


class Mortal(Org):
    """A connection whose worker dies at its call number `at`, before it leaves or after its answer has come."""

    def __init__(self, at: int, when: str) -> None:
        super().__init__(connect().address)
        self.left, self.when = at, when

    def send(self, method: str, path: str, **more: Any) -> bytes:
        self.left -= 1
        if self.left == 0 and self.when == "before":
            raise Killed
        answer = super().send(method, path, **more)
        if self.left == 0:
            raise Killed
        return answer


def time_passes() -> None:
    """As if every lease, hold and wait were over."""
    run_sql("UPDATE crmsync_bulkjob SET held_until = now() - interval '1 s' WHERE held_until IS NOT NULL")
    run_sql("UPDATE crmsync_bulkjob SET look_at = now() - interval '1 s', created_at = created_at - interval '60 s'")
    run_sql("UPDATE crmsync_orgstate SET bulk_paused_until = NULL, bulk_paused_reason = ''")


def names(org: SandboxOrg, object: str = "Contact") -> dict[str, str]:
    return {record["Rota_Id__c"]: record["LastName"] for record in org.records(object)}


VALUES = {
    "last_name": 'Zoë "£€", 日本\r\nline two\u2028and\x0bmore ',
    "first_name": " , ",
    "title": "null",
    "phone": None,
    "country": "",
    "email": "zoë@customer.example",
    "opted_out": True,
}


@pytest.mark.parametrize("road", ROADS)
def test_a_value_arrives_the_same_by_every_road(org: SandboxOrg, by: Any, road: str) -> None:
    put("acme", object="Account", name="Acme")
    put_many(["a", "b"], fields={"last_name": "Old", "phone": "1", "country": "FR", "title": "T"})
    drain()
    by(road)
    put_many(["a"], account="acme", fields=VALUES)
    put_many(["b"], fields={"last_name": "B"})
    drain()
    a, b = org.records("Contact")
    assert a["LastName"] == VALUES["last_name"].replace("\x0b", "")  # the org drops control characters
    assert (a["FirstName"], a["Title"], a["Phone"], a["MailingCountry"]) == (" , ", "null", None, None)
    assert (a["Email"], a["HasOptedOutOfEmail"], a["AccountId"] is None) == ("zoë@customer.example", True, False)
    assert (b["LastName"], b["Phone"], b["MailingCountry"], b["Title"]) == ("B", "1", "FR", "T")
    assert BulkJob.objects.count() == (0 if road == "collections" else BulkJob.objects.filter(road=road).count())
    assert (road == "collections") == (not BulkJob.objects.exists())


def test_each_step_is_written_down_before_the_next_is_taken(org: SandboxOrg, by: Any, settings: Any) -> None:
    settings.CRM_POLL_FIRST_MS = 60_000  # looked at when the test says so
    by("bulk2")
    messages = put_many(["a", "b", "c"])
    watched = Watched()
    deliver(budget_s=0.01, org=watched)
    assert statuses(messages) == ["claimed"] * 3
    assert watched.seen == [
        ("POST", "jobs/ingest", "planned"),
        ("PUT", "jobs/ingest/ID/batches", "created"),
        ("PATCH", "jobs/ingest/ID", "uploaded"),
    ]
    settings.CRM_POLL_FIRST_MS = 20
    time_passes()
    drain()
    job = BulkJob.objects.get()
    assert (job.status, job.org_state, job.rows, job.processed, job.failed) == ("harvested", "JobComplete", 3, 3, 0)
    assert list(Claim.objects.values_list("end_reason", flat=True)) == ["settled"]
    assert list(Attempt.objects.values_list("outcome", flat=True)) == ["delivered"] * 3
    assert {record["Id"] for record in org.records("Contact")} == {record_of(message).crm_id for message in messages}
    assert not Lane.objects.filter(claim__isnull=False).exists()


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("at", range(1, 8))
@pytest.mark.parametrize("road", BULK)
def test_a_worker_that_dies_at_any_step_is_succeeded_and_nothing_is_lost_or_doubled(
    org: SandboxOrg, by: Any, road: str, at: int, when: str
) -> None:
    by(road)
    put_many(["a", "b", "c"])
    mortal = Mortal(at, when)
    try:
        for _ in range(20):
            deliver(budget_s=0.01, org=mortal)
            run_sql("UPDATE crmsync_bulkjob SET look_at = now() - interval '1 s'")
    except Killed:
        assert BulkJob.objects.unfinished().exists()
    age_claims()
    reap()
    time_passes()
    drain()
    assert set(OutboxMessage.objects.values_list("status", flat=True)) == {"delivered"}
    assert names(org) == {"a": "N", "b": "N", "c": "N"}
    assert not BulkJob.objects.unfinished().exists()
    time_passes()
    assert sweep_orphans() == (1 if (at, when) == (1, "after") else 0)
    assert not [each for each in bulk2.listed(connect(), {}) if each["state"] == "Open"]


def test_a_job_keeps_its_lanes_past_every_lease_until_it_is_read(org: SandboxOrg, by: Any) -> None:
    by("bulk2")
    put("acme", object="Account", name="Acme")
    drain()
    org.fault("job_sticks", object="Contact", forever=True)
    put_many(["a", "b"], account="acme")
    deliver(budget_s=0.01)
    age_claims()
    assert reap().claims == 0
    put_many(["a"], account="acme", fields={"last_name": "New"})
    put("c", object="Contact", account="acme", last_name="C")
    assert claim_next(worker="other") is None
    org.ask("DELETE", "faults")
    drain()
    assert names(org) == {"a": "New", "b": "N", "c": "C"}
    assert not Lane.objects.filter(claim__isnull=False).exists()


def test_a_slow_worker_whose_job_was_taken_over_changes_nothing(org: SandboxOrg, by: Any) -> None:
    by("bulk2")

    class Slow(Org):
        def send(self, method: str, path: str, **more: Any) -> bytes:
            answer = super().send(method, path, **more)
            if method == "PUT":
                time_passes()
                drain(worker="other")
            return answer

    put_many(["a", "b"])
    assert deliver(budget_s=0.01, worker="slow", org=Slow(connect().address)).claims_lost == 1
    assert set(OutboxMessage.objects.values_list("status", "attempts")) == {("delivered", 1)}
    assert list(BulkJob.objects.order_by("pk").values_list("status", flat=True))[0] == "aborted"


def test_a_waiting_job_names_its_next_look_and_blocks_nobody(org: SandboxOrg, by: Any, settings: Any) -> None:
    by("bulk2")
    settings.CRM_POLL_FIRST_MS = 60_000
    put_many(["a"])
    done = deliver(budget_s=5)
    assert (done.chunks, done.job_steps, done.more) == (1, 0, False)
    look_at = BulkJob.objects.get().look_at
    assert next_due_at() == look_at
    put("b", object="Lead")
    assert deliver(budget_s=5).delivered == 1


@pytest.mark.parametrize("road", BULK)
def test_a_session_that_ends_mid_job_is_renewed_and_the_job_goes_on(
    org: SandboxOrg, by: Any, road: str, settings: Any
) -> None:
    settings.CRM_POLL_FIRST_MS = 60_000  # looked at when the test says so
    by(road)
    put_many(["a", "b"])
    deliver(budget_s=0.01)
    path = "/jobs/ingest/" if road == "bulk2" else "/services/async/"
    org.fault("expire_token", times=1, path=path, method="GET")
    org.fault("expire_token", times=1, path=path, method="GET", nth=3)
    settings.CRM_POLL_FIRST_MS = 20
    time_passes()
    drain()
    assert BulkJob.objects.count() == 1
    assert set(OutboxMessage.objects.values_list("status", flat=True)) == {"delivered"}


def test_a_403_forever_and_a_401_forever_pause_the_org_while_the_job_waits(
    org: SandboxOrg, by: Any, settings: Any
) -> None:
    settings.CRM_POLL_FIRST_MS = 60_000  # looked at when the test says so
    by("bulk2")
    put_many(["a"])
    deliver(budget_s=0.01)
    org.fault("unauthorized", forever=True)
    run_sql("UPDATE crmsync_bulkjob SET look_at = now()")
    deliver(budget_s=0.01)
    assert "INVALID_SESSION_ID" in OrgState.objects.get().paused_reason
    assert BulkJob.objects.get().status in ("closed", "polling")
    org.ask("DELETE", "faults")
    settings.CRM_POLL_FIRST_MS = 20
    time_passes()
    drain()
    assert BulkJob.objects.get().status == "harvested"


@pytest.mark.parametrize("road", BULK)
def test_a_job_that_never_ends_is_aborted_its_outcomes_read_and_the_rest_sent_again(
    org: SandboxOrg, by: Any, road: str, settings: Any
) -> None:
    by(road)
    org.fault("job_sticks", object="Contact", forever=True)
    messages = put_many(["a", "b"])
    deliver(budget_s=0.01)
    settings.CRM_JOB_MOST_S = 0
    run_sql("UPDATE crmsync_bulkjob SET look_at = now()")
    deliver(budget_s=0.01)
    org.ask("DELETE", "faults")
    settings.CRM_JOB_MOST_S = 600
    settings.CRM_ROADS = {}
    drain()
    assert statuses(messages) == ["delivered"] * 2
    assert names(org) == {"a": "N", "b": "N"}


@pytest.mark.parametrize("road", BULK)
def test_each_row_of_a_job_gets_the_outcome_of_its_own_key(org: SandboxOrg, by: Any, road: str) -> None:
    by(road)
    org.facts(bulk2_results_shuffled=True, bulk2_results_name_charset=False)
    keys = [f"ü{n}" for n in range(40)]
    rows = [{"last_name": f"N{n}", "email": "bad" if n % 5 == 0 else f"a{n}@x.example"} for n in range(40)]
    messages = put_many(keys, fields=rows)
    drain()
    assert [status == DELIVERED for status in statuses(messages)] == [n % 5 != 0 for n in range(40)]
    dead = again(messages[5])
    assert (dead.failure_kind, dead.failure_code, dead.failure_field) == (
        "permanent",
        "INVALID_EMAIL_ADDRESS",
        "Email",
    )
    ids = {record["Rota_Id__c"]: record["Id"] for record in org.records("Contact")}
    for message in messages:
        assert record_of(message).crm_id == ids.get(message.record.external_id)


@pytest.mark.parametrize("name", ["successfulResults", "failedResults"])
def test_a_row_that_no_result_names_is_in_doubt_and_sent_again(org: SandboxOrg, by: Any, name: str) -> None:
    by("bulk2")
    org.fault("rows_missing", times=4, path=name)
    messages = put_many(["a", "b"], fields=[{"last_name": "A"}, {"last_name": "B", "email": "bad"}])
    drain()
    outcomes = list(Attempt.objects.order_by("pk").values_list("outcome", flat=True))
    assert "unanswered" in outcomes
    assert BulkJob.objects.order_by("pk").first().reads == 3  # type: ignore[union-attr]
    assert statuses(messages) == ["delivered", "dead"]
    assert names(org) == {"a": "A"}


def test_results_that_lag_behind_are_read_again_before_anything_is_doubted(org: SandboxOrg, by: Any) -> None:
    by("bulk2")
    org.fault("rows_missing", times=2, path="successfulResults")
    org.fault("no_content", times=1, path="successfulResults")
    org.fault("cut_short", times=1, path="successfulResults")
    put_many(["a", "b"])
    drain()
    assert set(Attempt.objects.values_list("outcome", flat=True)) == {"delivered"}


def test_empty_lists_may_come_as_204(org: SandboxOrg, by: Any) -> None:
    by("bulk2")
    org.facts(bulk2_empty_result_is_204=True)
    put_many(["a", "b"])
    drain()
    assert set(Attempt.objects.values_list("outcome", flat=True)) == {"delivered"}


def test_a_text_that_csv_would_take_for_nothing_goes_by_a_call_instead(org: SandboxOrg, by: Any) -> None:
    by("bulk2")
    put_many(["a", "b"], fields=[{"last_name": "#N/A"}, {"last_name": "B"}])
    drain()
    assert names(org) == {"a": "#N/A", "b": "B"}
    assert BulkJob.objects.get().rows == 1


def test_a_job_is_cut_at_its_bytes_and_the_rest_follows(org: SandboxOrg, by: Any, monkeypatch: Any) -> None:
    by("bulk2")
    monkeypatch.setattr(bulk2, "BYTES_MOST", 2_000)
    messages = put_many([f"k{n:02}" for n in range(60)], fields={"last_name": "N" * 60})
    drain()
    assert set(statuses(messages)) == {"delivered"}
    assert BulkJob.objects.count() > 2
    assert sum(BulkJob.objects.values_list("rows", flat=True)) == 60


def test_a_full_day_of_batches_sends_everything_by_calls_meanwhile(org: SandboxOrg, by: Any) -> None:
    by("bulk2")
    org.facts(bulk_batches_most=1)
    put_many(["a"])
    drain()
    messages = put_many(["b", "c"])
    drain()
    assert statuses(messages) == ["delivered"] * 2
    assert [again(message).attempts for message in messages] == [1, 1]
    assert "EXCEEDEDQUOTA" in OrgState.objects.get().bulk_paused_reason.upper()
    assert OrgState.objects.get().paused_until is None


def test_a_column_that_the_org_does_not_know_blames_the_rows_that_have_it(
    org: SandboxOrg, by: Any, settings: Any
) -> None:
    by("bulk2")
    settings.CRM_MAIL_FIELDS = {"last_campaign": "No_Such__c"}
    rows = [{"last_name": "A", "company": "C", "last_campaign": "x"}, {"last_name": "B", "company": "C"}]
    messages = put_many(["a", "b"], object="Lead", fields=rows)
    drain()
    assert statuses(messages) == ["dead", "delivered"]
    dead = again(messages[0])
    assert (dead.failure_kind, dead.failure_code, dead.failure_field) == ("permanent", "InvalidBatch", "No_Such__c")


def test_too_many_lock_failures_end_the_job_and_the_rows_go_on_by_calls_then_serially(
    org: SandboxOrg, by: Any, settings: Any
) -> None:
    settings.CRM_ATTEMPTS_MOST = 9
    settings.CRM_SERIAL_AFTER = 3
    settings.CRM_BULK_FROM = 1
    put("acme", object="Account", name="Acme")
    drain()
    org.facts(bulk_lock_failures_most=0, bulk2_retries_most=0, bulk_requeue_s=0)
    hold = org.hold("Account", "acme")
    by("bulk2")
    messages = put_many([f"k{n}" for n in range(4)], account="acme")
    tries = Attempt.objects.filter(message__in=messages)
    while not tries.filter(ended_at__isnull=False).exists():
        deliver(budget_s=0.05)
    assert set(tries.values_list("outcome", flat=True)) == {"contention"}
    settings.CRM_ROADS = {}
    run_sql("UPDATE crmsync_outboxmessage SET attempts = 3 WHERE status = 'pending'")
    while BulkJob.objects.filter(road="bulk1").count() == 0:
        deliver(budget_s=0.05)
    org.let_go(hold)
    drain(seconds=20)
    assert statuses(messages) == ["delivered"] * 4


def large_job(org: SandboxOrg, rows: int = 250) -> list[OutboxMessage]:
    messages = put_many([f"k{n:03}" for n in range(rows)])
    send(chunk=claim_everything(), org=connect())
    return messages


def test_more_rows_than_a_call_takes_go_as_one_job_by_the_rules_alone(org: SandboxOrg) -> None:
    messages = large_job(org)
    drain(seconds=20)
    assert set(statuses(messages)) == {"delivered"}
    assert list(BulkJob.objects.values_list("road", "rows", "processed")) == [("bulk2", 250, 250)]


def test_a_failed_job_keeps_its_id_and_what_it_saved_and_only_the_rest_is_sent_again(org: SandboxOrg) -> None:
    org.fault("job_fails", object="Contact", rows=200)
    messages = large_job(org)
    drain(seconds=20)
    assert set(statuses(messages)) == {"delivered"}
    job = BulkJob.objects.earliest("pk")
    assert (job.org_state, job.processed, "InternalServerError" in job.message) == ("Failed", 200, True)
    tries = Attempt.objects.filter(claim=job.claim)
    assert tries.filter(outcome="delivered").count() == 200
    assert sum(entry["rows"] for entry in org.journal()) == 250


def test_an_aborted_job_is_read_and_only_what_it_did_not_come_to_is_sent_again(org: SandboxOrg, settings: Any) -> None:
    org.fault("job_sticks", object="Contact", rows=200, forever=True)
    messages = large_job(org)
    eventually(lambda: sum(entry["rows"] for entry in org.journal()) == 200, what="the first 200 rows are saved")
    settings.CRM_JOB_MOST_S = 0
    time_passes()
    deliver(budget_s=0.01)
    org.ask("DELETE", "faults")
    settings.CRM_JOB_MOST_S = 600
    drain(seconds=20)
    assert set(statuses(messages)) == {"delivered"}
    tries = Attempt.objects.filter(claim=BulkJob.objects.earliest("pk").claim)
    assert tries.filter(outcome="delivered").count() == 200
    assert tries.filter(outcome="unanswered").count() == 50


def test_a_serial_batch_that_completes_with_a_message_is_judged_by_its_rows(org: SandboxOrg, settings: Any) -> None:
    put("acme", object="Account", name="Acme")
    drain()
    settings.CRM_ROADS = {"Contact": "bulk1"}
    org.facts(bulk_lock_failures_most=1, bulk_requeue_s=0)
    hold = org.hold("Account", "acme")
    put_many(["a", "b"], account="acme")
    messages = large_job(org)
    eventually(lambda: sum(entry["rows"] for entry in org.journal()) >= 200, what="the first rows have met the lock")
    org.let_go(hold)
    drain(seconds=20)
    job = BulkJob.objects.earliest("pk")
    assert (job.org_state, job.failed) == ("Completed", 2)
    assert "Too many lock failures" in job.message
    assert set(statuses(messages)) == {"delivered"}
    assert len(names(org)) == 252
