"""What is reported of mails after they left: each report once, at once, and only from who may report."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.db import transaction
from django.test import Client
from django.utils import timezone
from standardwebhooks import Webhook

from outreach.flows.reaping import reap_all
from outreach.flows.resolving import resolve_in_doubt
from outreach.mail.providers import is_soft
from outreach.mail.reports import Report
from outreach.models import Enrolment, Message, OutreachEvent, ProviderEvent, Recipient, SendAttempt, Suppression
from outreach.moves.claims import Held, claim_batch
from outreach.moves.doubt import it_did_not_go
from outreach.moves.feedback import take_in
from outreach.moves.gate import Begun
from outreach.moves.settling import settle
from routing.models.source import new_secret
from tests.outreach.api.asking import Asking
from tests.outreach.make import ACCEPTED, SILENCE, at_gate, expire, hold, make_begun, make_campaign, make_running
from tests.races.test_outreach_claims import at_once
from tests.staff import listed, logged_in, page_of

pytestmark = pytest.mark.django_db(transaction=True)

Kind = ProviderEvent.Kind
MAIL_ID = "<m@rota.example>"
"""What tests/outreach/make gives every try."""


def report(kind: Kind, *, event_id: str = "1", mail_id: str = MAIL_ID, **more: Any) -> Report:
    return Report("test", event_id, kind, mail_id, **more)


def in_doubt() -> SendAttempt:
    held, attempt = make_begun(steps=2)
    settle(attempt_id=attempt.pk, outcome=SILENCE, worker="w1", token=held.token)
    return SendAttempt.objects.get(pk=attempt.pk)


def sent(**fields: Any) -> Message:
    """A mail that was sent, whose sequence goes on."""
    held, attempt = make_begun(**{"steps": 2, **fields})
    settle(attempt_id=attempt.pk, outcome=ACCEPTED, worker="w1", token=held.token)
    return Message.objects.get(pk=attempt.message_id)


@pytest.mark.parametrize("kind", [Kind.DELIVERED, Kind.SENT, Kind.DEFERRED, Kind.OPENED, Kind.CLICKED])
def test_what_only_a_mail_that_went_can_cause_settles_a_doubt(kind: Kind) -> None:
    attempt = in_doubt()
    assert take_in(report(kind)) == "settled: accepted"
    attempt.refresh_from_db()
    assert attempt.status == "accepted"
    message = Message.objects.get(pk=attempt.message_id)
    assert message.status == "sent" and Message.objects.filter(status="due").count() == 1, "the sequence goes on"
    told = OutreachEvent.objects.filter(message=message).latest("pk")
    assert (told.kind, told.worker, told.layer) == ("sent", "test", "settle")
    row = ProviderEvent.objects.get()
    assert (row.attempt_id, row.effect) == (attempt.pk, "settled: accepted")


def test_a_provider_that_did_not_send_it_on_settles_a_doubt_as_refused() -> None:
    attempt = in_doubt()
    assert take_in(report(Kind.REJECTED)) == "settled: refused"
    assert Message.objects.get(pk=attempt.message_id).status == "failed"
    assert not Suppression.objects.exists()


def test_a_report_of_a_mail_that_is_settled_or_still_on_its_way_changes_no_try() -> None:
    held, attempt = make_begun()
    assert take_in(report(Kind.DELIVERED)) == ""
    attempt.refresh_from_db()
    assert attempt.status == "begun", "its worker will say so"
    settle(attempt_id=attempt.pk, outcome=ACCEPTED, worker="w1", token=held.token)
    assert take_in(report(Kind.REJECTED, event_id="2")) == ""
    attempt.refresh_from_db()
    assert attempt.status == "accepted"


def test_evidence_that_came_before_its_mail_was_in_doubt_is_found_by_the_reaper_by_message_id() -> None:
    _, attempt = make_begun()
    take_in(report(Kind.DELIVERED))
    expire()
    done = reap_all()
    assert (done.in_doubt, done.resolved) == (1, 1)
    assert SendAttempt.objects.get(pk=attempt.pk).status == "accepted"
    assert Message.objects.get().status == "sent"


def test_evidence_of_an_earlier_try_says_nothing_of_a_later_one() -> None:
    held, attempt = make_begun(steps=2)
    take_in(report(Kind.DELIVERED))
    settle(attempt_id=attempt.pk, outcome=SILENCE, worker="w1", token=held.token)
    disprove(attempt)
    ProviderEvent.objects.update(received_at=timezone.now() - AGO / 2)
    held = hold(attempt.message.campaign)
    gate = at_gate(held)
    assert isinstance(gate, Begun)
    settle(attempt_id=gate.attempt, outcome=SILENCE, worker="w1", token=held.token)
    assert resolve_in_doubt() == 0
    assert take_in(report(Kind.OPENED, event_id="2")) == "settled: accepted"
    assert SendAttempt.objects.get(pk=gate.attempt).status == "accepted", "the one in doubt before all"


AGO = timedelta(hours=3)


def disprove(attempt: SendAttempt) -> None:
    """Long after it was begun, a person says that it did not go."""
    SendAttempt.objects.filter(pk=attempt.pk).update(begun_at=attempt.begun_at - AGO)
    it_did_not_go(attempt_id=attempt.pk, by="Pat", reason="not in the relay's log")


@pytest.mark.parametrize("kind", [Kind.DELIVERED, Kind.OPENED, Kind.BOUNCED])
def test_a_report_that_it_went_stops_a_mail_that_a_person_has_had_sent_again(kind: Kind) -> None:
    attempt = in_doubt()
    disprove(attempt)
    assert take_in(report(kind)).startswith("settled: accepted")
    message = Message.objects.get(pk=attempt.message_id)
    assert (message.status, SendAttempt.objects.get().status) == ("sent", "accepted")
    told = OutreachEvent.objects.get(message=message, kind="sent")
    assert (told.worker, told.layer) == ("test", "settle") and "Pat had said" in told.reason
    assert ProviderEvent.objects.get().attempt_id == attempt.pk
    claim_batch(campaign_id=message.campaign_id, worker="w2", size=50, lease_s=60)
    assert not Message.objects.filter(pk=message.pk, status="claimed").exists()


def test_a_report_that_it_was_not_sent_on_changes_nothing_of_a_mail_that_is_due_again() -> None:
    attempt = in_doubt()
    disprove(attempt)
    assert take_in(report(Kind.REJECTED)) == ""
    assert Message.objects.get().status == "due"


def test_a_report_that_it_went_while_it_is_sent_again_is_an_event_only() -> None:
    attempt = in_doubt()
    disprove(attempt)
    gate = at_gate(hold(attempt.message.campaign))
    assert isinstance(gate, Begun)
    assert take_in(report(Kind.DELIVERED)) == ""
    assert list(SendAttempt.objects.order_by("pk").values_list("status", flat=True)) == ["disproved", "begun"]
    told = OutreachEvent.objects.latest("pk")
    assert (told.kind, told.attempt_id) == ("late", attempt.pk)


def test_a_report_and_a_gate_decide_about_one_mail_at_once_and_it_leaves_once_or_is_told() -> None:
    for number in range(6):
        attempt = in_doubt()
        mail_id = f"<{number}@rota.example>"
        SendAttempt.objects.filter(pk=attempt.pk).update(mail_id=mail_id)
        disprove(attempt)
        held = hold(attempt.message.campaign)

        def decide(who: int, held: Held = held, number: int = number, mail_id: str = mail_id) -> Any:
            if who:
                return take_in(report(Kind.DELIVERED, event_id=str(number), mail_id=mail_id))
            return at_gate(held)

        at_once(2, decide)
        live = SendAttempt.objects.live().filter(message_id=attempt.message_id)
        assert live.count() == 1, "one try of it may have gone, never two"


def test_the_command_says_what_it_settled_and_what_is_left(capsys: Any) -> None:
    _, attempt = make_begun()
    take_in(report(Kind.DELIVERED))
    settle(attempt_id=attempt.pk, outcome=SILENCE, worker="w1")
    call_command("resolve_in_doubt", "--dry-run", "--json")
    assert json.loads(capsys.readouterr().out) == {"settled": 1, "in_doubt": 1}
    call_command("resolve_in_doubt", "--json")
    assert json.loads(capsys.readouterr().out) == {"settled": 1, "in_doubt": 0}


@pytest.mark.parametrize(
    ("kind", "reason"),
    [(Kind.BOUNCED, "bounced"), (Kind.COMPLAINED, "complained"), (Kind.UNSUBSCRIBED, "unsubscribed")],
)
def test_who_bounces_complains_or_unsubscribes_is_suppressed_at_once_claimed_mails_included(
    kind: Kind, reason: str
) -> None:
    first = sent()
    other = make_campaign(name="another")
    from outreach.flows.launching import launch

    launch(campaign_id=other.pk, leads=[first.enrolment.lead_id], by="Pat")
    held = hold(other)
    assert take_in(report(kind, detail="550 5.1.1 nobody")) == "suppressed"
    suppression = Suppression.objects.get()
    assert (suppression.reason, suppression.recipient_id) == (reason, first.recipient_id)
    assert suppression.detail == "reported by test: 550 5.1.1 nobody"
    assert not Message.objects.filter(status__in=Message.NOT_BEGUN).exists()
    assert not Enrolment.objects.filter(ended_at=None).exists()
    assert at_gate(held).reason == "the claim is lost"  # type: ignore[union-attr]


def test_a_soft_bounce_suppresses_nobody() -> None:
    sent()
    assert take_in(report(Kind.SOFT_BOUNCED)) == ""
    assert not Suppression.objects.exists() and Message.objects.filter(status="due").count() == 1


def test_a_bounce_of_a_mail_in_doubt_says_that_it_went_and_that_no_more_shall_go() -> None:
    attempt = in_doubt()
    assert take_in(report(Kind.BOUNCED)) == "settled: accepted, suppressed"
    statuses = list(Message.objects.order_by("pk").values_list("status", flat=True))
    assert statuses == ["sent", "suppressed"] and attempt.recipient_id == Suppression.objects.get().recipient_id


@pytest.mark.parametrize(("kind", "end"), [(Kind.REPLIED, "replied"), (Kind.CONVERTED, "converted")])
def test_who_replies_or_converts_hears_no_more_of_this_campaign(kind: Kind, end: str) -> None:
    first = sent()
    second = make_running()
    Enrolment.objects.filter(campaign=second).update(recipient=first.recipient_id)
    Message.objects.filter(campaign=second).update(recipient=first.recipient_id)
    assert take_in(report(kind)) == "stopped the sequence"
    assert Enrolment.objects.get(pk=first.enrolment_id).end_reason == end
    assert Enrolment.objects.filter(campaign=second, ended_at=None).exists()
    key = Recipient.objects.get(pk=first.recipient_id).key
    assert take_in(report(kind, event_id="2", mail_id="", address=key)) == "stopped its sequences"
    assert not Enrolment.objects.filter(ended_at=None).exists() and not Suppression.objects.exists()


def test_an_address_nobody_wrote_to_yet_is_suppressed_for_later() -> None:
    assert take_in(report(Kind.COMPLAINED, mail_id="", address="new@acme.example")) == "suppressed"
    assert Suppression.objects.get().recipient.key == "new@acme.example"
    assert take_in(report(Kind.DELIVERED, event_id="2", mail_id="", address="other@acme.example")) == ""
    assert Recipient.objects.count() == 1


def test_negative_control_without_the_event_id_a_report_acts_each_time_it_is_told() -> None:
    sent()
    effects = [take_in(report(Kind.BOUNCED, event_id=str(number))) for number in range(3)]
    assert effects == ["suppressed"] * 3


def test_the_same_report_told_many_times_at_once_is_kept_and_acts_once() -> None:
    attempt = in_doubt()
    effects = at_once(6, lambda _: take_in(report(Kind.BOUNCED)))
    assert sorted(effects) == ["known"] * 5 + ["settled: accepted, suppressed"]
    assert ProviderEvent.objects.count() == 1 and Suppression.objects.count() == 1
    assert OutreachEvent.objects.filter(attempt=attempt, kind__in=("sent", "late")).count() == 1


def test_a_report_and_a_person_decide_about_one_doubt_at_once_and_one_of_them_is_heard() -> None:
    from outreach.errors import WrongState
    from outreach.moves.doubt import it_went

    for number in range(6):
        attempt = in_doubt()
        SendAttempt.objects.filter(pk=attempt.pk).update(mail_id=f"<{number}@rota.example>")

        def decide(who: int, attempt: SendAttempt = attempt, number: int = number) -> str:
            if who:
                return take_in(report(Kind.DELIVERED, event_id=str(number), mail_id=f"<{number}@rota.example>"))
            try:
                it_went(attempt_id=attempt.pk, by="Pat")
                return "Pat"
            except WrongState:
                return "too late"

        at_once(2, decide)
        assert OutreachEvent.objects.filter(attempt=attempt, kind="sent").count() == 1
        assert SendAttempt.objects.get(pk=attempt.pk).status == "accepted"


# --- the endpoint for reports of anybody: signed lines of JSON


@pytest.fixture
def secret(settings: Any) -> str:
    settings.MAIL_EVENTS_SECRET = new_secret()
    return str(settings.MAIL_EVENTS_SECRET)


def told(secret: str, *lines: Any, at: datetime | None = None, path: str = "/events/mail") -> Any:
    body = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    moment = at or datetime.now(UTC)
    signature = Webhook(secret).sign("msg_1", moment, body)
    headers = {
        "webhook-id": "msg_1",
        "webhook-timestamp": str(int(moment.timestamp())),
        "webhook-signature": signature,
    }
    return Client().post(path, body, content_type="application/x-ndjson", headers=headers)


def line(event: str, **more: Any) -> dict[str, Any]:
    """As shared logs have them: no id of its own."""
    return {"event": event, "message_id": MAIL_ID, "worker": "agent-1", "timestamp": "2026-11-29T10:00:00Z", **more}


def test_signed_lines_are_taken_in_once_with_or_without_ids_of_their_own(secret: str) -> None:
    in_doubt()
    lines = [line("delivered"), line("bounced", id="b1", email="lead0@a.example"), line("opened", email="x@a.example")]
    assert told(secret, *lines).json() == {"new": 3, "known": 0, "acted": 2}
    assert told(secret, *lines, line("clicked")).json() == {"new": 1, "known": 3, "acted": 0}
    assert Suppression.objects.count() == 1
    assert ProviderEvent.objects.first().occurred_at == datetime(2026, 11, 29, 10, tzinfo=UTC)  # type: ignore[union-attr]


def test_a_message_id_is_known_with_or_without_its_brackets(secret: str) -> None:
    in_doubt()
    assert told(secret, line("delivered", message_id=MAIL_ID.strip("<>"))).json()["acted"] == 1


def test_lines_that_are_no_reports_are_named_and_nothing_is_taken_in(secret: str) -> None:
    lines = [line("delivered"), "{", line("bonced"), {"event": "bounced"}, line("bounced", id="x" * 201), "[1]"]
    answer = told(secret, *lines)
    assert answer.status_code == 422
    assert [error["path"] for error in answer.json()["errors"]] == [f"line {n}" for n in (2, 3, 4, 5, 6)]
    assert not ProviderEvent.objects.exists()
    assert told(secret, "").status_code == 422


def test_a_soft_bounce_is_told_by_its_type(secret: str) -> None:
    sent()
    told(secret, line("bounced", bounce_type="soft"))
    assert ProviderEvent.objects.get().kind == "soft_bounced" and not Suppression.objects.exists()


def test_unsigned_wrongly_signed_and_old_reports_are_refused(secret: str) -> None:
    sent()
    body = json.dumps(line("complained"))
    assert Client().post("/events/mail", body, content_type="application/json").status_code == 401
    assert told(new_secret(), line("complained")).status_code == 401
    assert told(secret, line("complained"), at=datetime.now(UTC) - timedelta(minutes=6)).status_code == 401
    assert not ProviderEvent.objects.exists() and not Suppression.objects.exists()


def test_without_a_secret_there_is_no_endpoint(settings: Any) -> None:
    settings.MAIL_EVENTS_SECRET = ""
    assert told(new_secret(), line("complained")).status_code == 404
    assert Client().get("/events/mail").status_code == 405


# --- the webhooks of providers

POSTMARK = {
    "MessageID": "00000000-0000-0000-0000-000000000001",
    "Metadata": {"mail_id": MAIL_ID},
    "ServerID": 1,
    "MessageStream": "broadcast",
}
DELIVERY = POSTMARK | {
    "RecordType": "Delivery", "Recipient": "a@acme.example", "DeliveredAt": "2026-11-29T10:00:00Z", "Details": "250 ok"
}  # fmt: skip
BOUNCE = POSTMARK | {
    "RecordType": "Bounce", "ID": 42, "Type": "HardBounce", "Email": "a@acme.example", "Details": "550 nobody",
    "BouncedAt": "2026-11-29T10:00:00Z",
}  # fmt: skip


def postmark(event: Any, *, password: str = "rota:secret", name: str = "postmark") -> Any:
    import base64

    headers = {"Authorization": f"Basic {base64.b64encode(password.encode()).decode()}"} if password else {}
    body = event if isinstance(event, str) else json.dumps(event)
    return Client().post(f"/events/mail/{name}", body, content_type="application/json", headers=headers)


@pytest.fixture
def postmarked(settings: Any) -> None:
    settings.EMAIL_PROVIDER, settings.EMAIL_PROVIDER_WEBHOOK_SECRET = "postmark", "rota:secret"


@pytest.mark.usefixtures("postmarked")
def test_postmarks_webhook_settles_a_doubt_and_suppresses_a_bounce_once() -> None:
    in_doubt()
    assert postmark(DELIVERY).json() == {"new": 1, "known": 0, "acted": 1}
    assert postmark(BOUNCE).json() == {"new": 1, "known": 0, "acted": 1}
    assert [postmark(event).json()["known"] for event in (DELIVERY, BOUNCE, BOUNCE)] == [1, 1, 1]
    assert Suppression.objects.get().reason == "bounced"
    assert set(ProviderEvent.objects.values_list("source", flat=True)) == {"postmark"}


@pytest.mark.usefixtures("postmarked")
def test_postmarks_soft_bounce_suppresses_nobody_and_a_complaint_does() -> None:
    sent()
    postmark(BOUNCE | {"Type": "SoftBounce"})
    assert not Suppression.objects.exists()
    postmark(BOUNCE | {"Type": "SpamComplaint", "RecordType": "SpamComplaint", "ID": 43})
    assert Suppression.objects.get().reason == "complained"


@pytest.mark.usefixtures("postmarked")
def test_a_webhook_without_the_password_with_nonsense_or_of_another_provider_is_refused(settings: Any) -> None:
    sent()
    assert postmark(BOUNCE, password="").status_code == 401
    assert postmark(BOUNCE, password="rota:guess").status_code == 401
    assert [postmark(nonsense).status_code for nonsense in ("{", "[]", "1")] == [422] * 3
    assert postmark(BOUNCE, name="resend").status_code == 404
    settings.EMAIL_PROVIDER_WEBHOOK_SECRET = ""
    assert postmark(BOUNCE, password="").status_code == 404
    assert not ProviderEvent.objects.exists() and not Suppression.objects.exists()


def test_resends_webhook_is_verified_by_its_signature(settings: Any) -> None:
    in_doubt()
    settings.EMAIL_PROVIDER, settings.EMAIL_PROVIDER_WEBHOOK_SECRET = "resend", new_secret()
    headers = [{"name": "X-Metadata", "value": json.dumps({"mail_id": MAIL_ID})}]
    data = {"email_id": "e1", "to": ["a@acme.example"], "headers": headers}
    event = json.dumps({"type": "email.delivered", "created_at": "2026-11-29T10:00:00Z", "data": data})
    now = datetime.now(UTC)

    def post(secret: str) -> Any:
        signature = Webhook(secret).sign("msg_1", now, event)
        signed = {"svix-id": "msg_1", "svix-timestamp": str(int(now.timestamp())), "svix-signature": signature}
        return Client().post("/events/mail/resend", event, content_type="application/json", headers=signed)

    assert post(new_secret()).status_code == 401
    answers = [post(settings.EMAIL_PROVIDER_WEBHOOK_SECRET).json() for _ in range(2)]
    assert answers == [{"new": 1, "known": 0, "acted": 1}, {"new": 0, "known": 1, "acted": 0}]
    assert ProviderEvent.objects.get().event_id == "delivered msg_1"


@pytest.mark.parametrize(
    ("said", "soft"),
    [
        ({"Type": "SoftBounce"}, True),
        ({"event": "soft_bounce"}, True),
        ({"data": {"bounce": {"type": "Transient"}}}, True),
        ({"data": {"bounce": {"type": "Permanent"}}}, False),
        ({"Type": "HardBounce", "data": None}, False),
    ],
)
def test_a_bounce_for_now_is_told_by_each_providers_own_word(said: dict[str, Any], soft: bool) -> None:
    assert is_soft(said) == soft


def test_brevos_webhook_is_read_too(settings: Any) -> None:
    in_doubt()
    settings.EMAIL_PROVIDER, settings.EMAIL_PROVIDER_WEBHOOK_SECRET = "brevo", "rota:secret"
    event = {"event": "delivered", "email": "a@acme.example", "message-id": "<b@x>", "ts_epoch": 1796000000000}
    event["X-Mailin-custom"] = json.dumps({"mail_id": MAIL_ID})
    assert postmark(event, name="brevo").json() == {"new": 1, "known": 0, "acted": 1}
    assert postmark(event, name="brevo").json()["known"] == 1


# --- agents report what they hear


def test_an_agent_reports_a_reply_and_its_second_report_is_known() -> None:
    first, agent = sent(), Asking()
    events = [{"event": "replied", "message_id": MAIL_ID}]
    assert agent.get("mail/events", events=events) == {"new": 1, "known": 0, "acted": 1}
    assert agent.get("mail/events", events=events) == {"new": 0, "known": 1, "acted": 0}
    assert Enrolment.objects.get(pk=first.enrolment_id).end_reason == "replied"
    assert ProviderEvent.objects.get().source == agent.worker
    code, answer = agent.post("mail/events", events=[{"event": "bonced", "message_id": MAIL_ID}])
    assert code == 422 and "events.0" in answer["detail"]
    assert Asking(may_mail=False).post("mail/events", events=events)[0] == 403


def test_no_report_acts_inside_somebody_elses_transaction() -> None:
    with pytest.raises(RuntimeError, match="durable"), transaction.atomic():
        take_in(report(Kind.DELIVERED))


def test_reports_are_listed_in_the_admin_and_found_by_message_id() -> None:
    sent()
    take_in(report(Kind.BOUNCED))
    take_in(report(Kind.OPENED, event_id="2", mail_id="<other@rota.example>"))
    staff = logged_in()
    page = staff.get(listed("outreach_providerevent"), {"q": MAIL_ID.strip("<>")}).content.decode()
    assert "suppressed" in page and "other@rota.example" not in page
    row = ProviderEvent.objects.get(kind="bounced")
    assert MAIL_ID.strip("<>") in staff.get(page_of("outreach_providerevent", row.pk)).content.decode()
