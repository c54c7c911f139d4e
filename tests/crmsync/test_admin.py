"""Lock failures, dead letters and the outbox as the operations staff see them, and Retry selected."""

from datetime import timedelta

import pytest
from django.core.cache import cache
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from crmsync import outbox
from crmsync.models import Attempt, Claim, CrmRecord, FailureKind, OutboxMessage
from tests.staff import ask, confirm, listed, logged_in, page_of, said

pytestmark = pytest.mark.django_db
LOCKS, RETRY = "crmsync_lockfailure", "retry_selected"


@pytest.fixture(autouse=True)
def _nothing_remembered() -> None:
    cache.clear()


@pytest.fixture
def staff() -> Client:
    return logged_in()


def make_dead(name: str, *, parent: str = "", kind: FailureKind = FailureKind.CONTENTION, **fields) -> OutboxMessage:
    parents = [{"relation": "account", "object": "Account", "external_id": parent}] if parent else []
    with transaction.atomic():
        pk = outbox.enqueue(object="Contact", external_id=name, fields={"last_name": name}, parents=parents)
    failed = {"failure_kind": kind, "failure_code": "UNABLE_TO_LOCK_ROW", "attempts": 8, **fields}
    OutboxMessage.objects.filter(pk=pk).update(status="dead", settled_at=timezone.now(), **failed)
    return OutboxMessage.objects.get(pk=pk)


def test_a_validation_error_is_a_dead_letter_and_never_a_lock_failure(staff):
    make_dead("locked")
    make_dead(
        "refused",
        kind=FailureKind.PERMANENT,
        failure_code="FIELD_CUSTOM_VALIDATION_EXCEPTION",
        failure_field="Country__c",
        failure_text="Country is required",
    )

    locks = staff.get(listed(LOCKS)).content.decode()
    dead = staff.get(listed("crmsync_deadletter")).content.decode()

    assert "locked" in locks
    assert "refused" not in locks
    assert "Country__c" in dead
    assert "Country is required" in dead
    assert "locked" not in dead


def test_retry_selected_asks_first_with_counts_and_rows(staff):
    messages = [make_dead(f"contact-{n}", parent="acme") for n in range(25)]

    page = ask(staff, LOCKS, RETRY, *[message.pk for message in messages]).content.decode()

    assert "Retry 25 lock failures" in page
    assert page.count("under Account acme") == 20
    assert "and 5 more" in page
    assert OutboxMessage.objects.dead().count() == 25


def test_retry_selected_sends_again_and_says_who_asked_and_why(staff):
    one, two = make_dead("one"), make_dead("two")

    answer = confirm(staff, LOCKS, RETRY, one.pk, two.pk, reason="the nightly batch is over")

    assert said(answer) == ["Retried 2."]
    one.refresh_from_db()
    assert one.status == OutboxMessage.Status.RETRIED
    again = one.superseded_by
    assert (again.status, again.requested_by, again.reason) == ("pending", "robin", "the nightly batch is over")


def test_retry_selected_counts_what_was_overtaken_and_what_is_no_longer_dead(staff):
    fresh, overtaken, gone = make_dead("fresh"), make_dead("overtaken"), make_dead("gone")
    with transaction.atomic():
        outbox.enqueue(object="Contact", external_id="overtaken", fields={"last_name": "newer"})
    confirm(staff, LOCKS, RETRY, gone.pk)

    answer = confirm(staff, LOCKS, RETRY, fresh.pk, overtaken.pk, gone.pk)

    assert said(answer) == ["Retried 1. Skipped 1 already overtaken by newer versions, 1 no longer dead."]


def test_the_button_pressed_twice_sends_once(staff):
    message = make_dead("once")
    confirm(staff, LOCKS, RETRY, message.pk)

    answer = confirm(staff, LOCKS, RETRY, message.pk)

    assert said(answer) == ["Retried 0. Skipped 1 no longer dead."]
    assert OutboxMessage.objects.pending().count() == 1


def test_who_may_only_look_may_not_retry():
    message = make_dead("locked")
    looker = logged_in(may=("view_lockfailure",))

    page = looker.get(listed(LOCKS)).content.decode()
    confirm(looker, LOCKS, RETRY, message.pk)

    assert "locked" in page
    assert "retry_selected" not in page
    assert OutboxMessage.objects.dead().count() == 1


def test_retry_is_nothing_a_link_can_do(staff):
    message = make_dead("locked")

    staff.get(listed(LOCKS), {"action": "retry_selected", "chosen": message.pk, "confirmed": "yes"})

    assert OutboxMessage.objects.dead().count() == 1


def test_the_contended_parents_come_first_the_worst_of_them_on_top(staff):
    for number in range(3):
        make_dead(f"a{number}", parent="acme")
    make_dead("b", parent="blue")
    make_dead("itself")

    page = staff.get(listed(LOCKS))
    under_acme = staff.get(listed(LOCKS), {"parent": "Account:acme"})
    itself = staff.get(listed(LOCKS), {"parent": "itself"})

    assert [(parent.external_id, parent.count) for parent in page.context["contended"]] == [("acme", 3), ("blue", 1)]
    assert under_acme.context["cl"].result_count == 3
    assert [row.record.external_id for row in itself.context["cl"].result_list] == ["itself"]


def test_the_page_of_a_message_shows_every_attempt(staff):
    message = make_dead("locked", parent="acme")
    begun = timezone.now() - timedelta(minutes=1)
    for number in (1, 2):
        claim = Claim.objects.create(
            worker="crm-1",
            lease_until=timezone.now() + timedelta(minutes=1),
            ended_at=timezone.now(),
            end_reason="settled",
        )
        Attempt.objects.create(
            message=message,
            claim=claim,
            number=number,
            begun_at=begun,
            ended_at=begun + timedelta(seconds=10),
            outcome="contention",
            code="UNABLE_TO_LOCK_ROW",
        )

    page = staff.get(page_of("crmsync_lockfailure", message.pk)).content.decode()

    assert "attempt 1" in page
    assert "attempt 2" in page
    assert "took 10.0 s" in page
    assert "Account acme" in page


@pytest.mark.parametrize(
    "model", ["outboxmessage", "lockfailure", "deadletter", "lane", "claim", "attempt", "orgstate"]
)
def test_the_crms_tables_are_to_look_at(staff, model):
    assert staff.get(listed(f"crmsync_{model}")).status_code == 200
    assert staff.get(reverse(f"admin:crmsync_{model}_add")).status_code == 403


@pytest.mark.parametrize(("state", "found"), [("due", 1), ("later", 1), ("dead", 1), ("delivered", 0)])
def test_the_outbox_has_a_tab_for_each_state(staff, state, found):
    with transaction.atomic():
        outbox.enqueue(object="Contact", external_id="now", fields={})
        later = outbox.enqueue(object="Contact", external_id="later", fields={})
    OutboxMessage.objects.filter(pk=later).update(due_at=timezone.now() + timedelta(hours=1))
    make_dead("dead")

    assert staff.get(listed("crmsync_outboxmessage"), {"state": state}).context["cl"].result_count == found


@pytest.mark.parametrize("term", ["ada", "003A00000000001", "Contact ada", "#PK"])
def test_a_message_is_found_by_the_key_of_its_record(staff, term):
    message = make_dead("ada")
    make_dead("grace")
    CrmRecord.objects.filter(pk=message.record_id).update(crm_id="003A00000000001")

    found = staff.get(listed("crmsync_outboxmessage"), {"q": term.replace("PK", str(message.pk))})

    assert [row.pk for row in found.context["cl"].result_list] == [message.pk]


def test_the_sidebar_counts_lock_failures_up_to_a_thousand(staff):
    for number in range(2):
        make_dead(f"dead-{number}")

    groups = {group["name"]: group["models"] for group in staff.get(reverse("admin:index")).context["available_apps"]}

    assert list(groups) == ["Today", "Team", "Rules", "Sources", "Outreach", "CRM", "System"]
    assert [line.get("badge") for line in groups["CRM"]][:2] == ["2", None]


def test_a_long_list_of_the_dead_is_read_from_its_index(staff):
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO crmsync_crmrecord (object, external_id, version) "
            "SELECT 'Contact', 'r' || n, 1 FROM generate_series(1, 20000) AS n"
        )
        cursor.execute(
            "INSERT INTO crmsync_outboxmessage (record_id, version, fields, status, settled_at, failure_kind) "
            "SELECT id, 1, '{}', CASE WHEN id % 200 = 0 THEN 'dead' ELSE 'delivered' END, now(), "
            "CASE WHEN id % 200 = 0 THEN 'contention' END FROM crmsync_crmrecord"
        )
        cursor.execute("ANALYZE crmsync_outboxmessage")
    staff.get(listed(LOCKS))

    with CaptureQueriesContext(connection) as asked:
        page = staff.get(listed(LOCKS))

    assert page.context["cl"].result_count == 100
    assert len(asked) <= 16
    rows = next(q["sql"] for q in asked if "ORDER BY" in q["sql"] and "LIMIT 50" in q["sql"])
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN {rows}")
        assert "outbox_dead" in "\n".join(row[0] for row in cursor.fetchall())


def test_task_queue_screens_can_run_nothing_again(staff):
    page = staff.get(reverse("admin:django_q_failure_changelist")).content.decode()

    assert "resubmit" not in page
    assert staff.get(reverse("admin:django_q_schedule_add")).status_code == 403
