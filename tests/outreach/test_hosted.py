"""Mail through a provider's HTTP API: what is a definite no, what is doubt, and that nothing is sent twice."""

import json
import threading
from datetime import timedelta
from typing import Any

import pytest

from outreach.flows.sender import Sent, send_due
from outreach.mail import hosted
from outreach.mail.hosted import Body, Hosted
from outreach.models import Campaign, Message, ProviderEvent, SendAttempt, SendingState, Suppression
from outreach.moves.doubt import it_did_not_go
from outreach.moves.sending import seen
from tests.config.living import free_port
from tests.outreach.make import make_running
from tests.outreach.provider import KEY, Api, provider
from tests.outreach.test_invariants import backend_states, sender

pytestmark = pytest.mark.django_db(transaction=True)

KINDS = ("postmark", "resend", "brevo")


def through(settings: Any, api: Api, **more: Any) -> None:
    given = {"EMAIL_PROVIDER": api.kind, "EMAIL_PROVIDER_KEY": KEY, "EMAIL_PROVIDER_URL": api.url}
    for name, value in {**given, "EMAIL_PHASE_TIMEOUT_S": 2, "EMAIL_REPLY_TIMEOUT_S": 1, **more}.items():
        setattr(settings, name, value)


def sent() -> Sent:
    return send_due(worker="w1")


def attempt() -> SendAttempt:
    return SendAttempt.objects.latest("pk")


@pytest.mark.parametrize("kind", KINDS)
def test_everybody_due_is_mailed_once_with_the_headers_that_matter(settings: Any, kind: str) -> None:
    campaign = make_running(leads=5, from_name="Zoë")
    with provider(kind) as api:
        through(settings, api)
        assert sent().sent == 5
        assert seen().relay
    assert set(api.addresses().values()) == {1} and len(api.addresses()) == 5
    mail_ids = set(SendAttempt.objects.values_list("mail_id", flat=True))
    assert {mail["headers"]["Message-ID"] for mail in api.taken} == mail_ids
    assert all(mail["headers"]["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click" for mail in api.taken)
    assert all("Hello Ann" in json.dumps(mail["mail"]) for mail in api.taken)
    one = attempt()
    assert one.status == "accepted" and one.reply.startswith("taken as ") and campaign.messages.count() == 5
    if kind == "postmark":
        assert api.taken[0]["headers"]["X-PM-KeepID"] == "true"
        assert {mail["mail"]["Metadata"]["mail_id"] for mail in api.taken} == mail_ids
    if kind == "resend":
        assert {f"<{mail['key']}>" for mail in api.taken} == mail_ids, "the idempotency key"


def test_a_refused_connection_is_a_definite_no_that_no_mail_is_charged_for(settings: Any) -> None:
    make_running(leads=5)
    with provider("postmark") as api:
        through(settings, api, EMAIL_PROVIDER_URL=f"http://127.0.0.1:{free_port()}/")
        done = sent()
    assert (done.deferred, done.in_doubt, done.stopped) == (3, 0, "the relay carries nothing at the moment")
    assert set(Message.objects.values_list("status", "attempts")) == {("due", 0)}
    assert attempt().phase == "connect"


@pytest.mark.parametrize("say", ["hang up after", "silence", (500, {}), (502, b"<html>"), (504, {}), (200, b"{")])
def test_what_may_have_been_taken_is_in_doubt_and_not_sent_again_by_itself(settings: Any, say: Any) -> None:
    make_running()
    with provider("postmark", say) as api:
        through(settings, api)
        assert (sent().in_doubt, sent().sent) == (1, 0)
        assert api.requests == 1
    assert Message.objects.get().status == "in_doubt" and attempt().phase == "dot"


@pytest.mark.parametrize(
    ("code", "attempts", "stopped"),
    [(429, 0, False), (503, 0, False), (408, 0, False), (400, 1, False), (401, 0, True)],
)
def test_a_plain_refusal_for_now_is_due_again(settings: Any, code: int, attempts: int, stopped: bool) -> None:
    make_running()
    with provider("postmark", (code, {"ErrorCode": 9999, "Message": "no"})) as api:
        through(settings, api)
        assert sent().deferred == 1
    message = Message.objects.get()
    assert (message.status, message.attempts, attempt().code) == ("due", attempts, code)
    assert bool(SendingState.objects.get().off_because) == stopped


@pytest.mark.parametrize(
    ("kind", "code", "body"),
    [
        ("postmark", 401, {"ErrorCode": 10, "Message": "Bad or missing API token"}),
        ("postmark", 422, {"ErrorCode": 400, "Message": "Sender signature not found"}),
        ("postmark", 422, {"ErrorCode": 405, "Message": "Not allowed to send"}),
        ("resend", 403, {"name": "validation_error", "message": "The domain is not verified"}),
        ("resend", 422, {"name": "invalid_from_address", "message": "from"}),
        ("brevo", 400, {"code": "not_enough_credits", "message": "no credits"}),
    ],
)
def test_what_the_provider_holds_against_us_stops_everybody_and_no_lead(
    settings: Any, kind: str, code: int, body: Any
) -> None:
    make_running(leads=3)
    with provider(kind, (code, body)) as api:
        through(settings, api)
        done = sent()
        assert (done.deferred, api.requests) == (1, 1)
        assert "refuses us" in done.stopped and "refuses us" in sent().stopped
    assert set(Message.objects.values_list("status", "attempts")) == {("due", 0)}


def test_a_wrong_key_stops_everybody(settings: Any) -> None:
    make_running(leads=2)
    with provider("resend") as api:
        through(settings, api, EMAIL_PROVIDER_KEY="wrong")
        assert "refuses us: 401" in sent().stopped
        assert not api.taken
    settings.EMAIL_PROVIDER_KEY = ""
    SendingState.objects.update(off_because="", off_until=None)
    assert "EMAIL_PROVIDER_KEY" in sent().stopped


def test_an_address_that_the_provider_knows_to_be_dead_is_suppressed(settings: Any) -> None:
    make_running()
    address = Message.objects.get().enrolment.address
    says = (
        "You tried to send to a recipient that has been marked as inactive.\n"
        f"Found inactive addresses: {address}.\nInactive recipients are ones that have generated a hard bounce."
    )
    with provider("postmark", (422, {"ErrorCode": 406, "Message": says})) as api:
        through(settings, api)
        assert sent().refused == 1
    assert Message.objects.get().status == "failed"
    assert Suppression.objects.get().reason == "bounced"


def test_a_mail_that_is_too_large_has_failed_for_good(settings: Any) -> None:
    make_running()
    with provider("postmark", (413, {})) as api:
        through(settings, api)
        assert sent().refused == 1
    assert not Suppression.objects.exists()


def test_a_redirect_is_not_followed(settings: Any) -> None:
    make_running()
    with provider("postmark", "redirect") as api:
        through(settings, api)
        assert sent().deferred == 1
        assert api.requests == 1 and not api.taken


def test_negative_control_a_session_that_follows_redirects_sends_to_both(settings: Any, monkeypatch: Any) -> None:
    import requests

    make_running()
    monkeypatch.setattr(hosted.OnceSession, "get_redirect_target", requests.Session.get_redirect_target)
    monkeypatch.setattr(hosted.Once, "send", requests.adapters.HTTPAdapter.send)
    with provider("postmark", "redirect") as api:
        through(settings, api)
        sent()
        assert api.requests == 2


def test_a_provider_that_hangs_up_before_it_has_read_the_whole_mail_leaves_a_definite_no(settings: Any) -> None:
    campaign = make_running()
    campaign.steps.update(body="all work and no play\n" * 400_000)
    with provider("postmark", "hang up") as api:
        through(settings, api)
        done = sent()
    assert (done.deferred, done.in_doubt) == (1, 0) and attempt().phase == "body"


def test_a_process_that_was_held_up_too_long_does_not_send_the_end_of_the_request(settings: Any) -> None:
    make_running()
    with provider("postmark") as api:
        through(settings, api)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(hosted, "before_dot_s", lambda: -1.0)
            assert sent().deferred == 1
        assert not api.taken
    assert "held up" in attempt().reply and attempt().phase == "connect"


def test_the_body_knows_how_far_it_has_been_sent() -> None:
    body = Body(b"x" * 10, until=float("inf"))
    assert (body.phase, body.read(4), body.phase) == ("connect", b"xxxx", "body")
    assert (body.read(6), body.phase, body.read(6)) == (b"x" * 6, "dot", b"")


def test_a_mail_in_doubt_that_is_sent_again_under_resends_key_is_not_mailed_twice(settings: Any) -> None:
    make_running()
    with provider("resend", "hang up after") as api:
        through(settings, api, SEND_BACKOFF_FIRST_S=0)
        assert sent().in_doubt == 1
        SendAttempt.objects.update(begun_at=attempt().begun_at - timedelta(hours=3))
        it_did_not_go(attempt_id=attempt().pk, by="Pat", reason="not in the provider's log")
        assert sent().sent == 1
        assert api.requests == 2 and set(api.addresses().values()) == {1}


def test_the_same_key_with_another_text_is_in_doubt_for_the_first_may_have_gone(settings: Any) -> None:
    make_running()
    with provider("resend", "hang up after") as api:
        through(settings, api)
        sent()
        SendAttempt.objects.update(begun_at=attempt().begun_at - timedelta(hours=3))
        it_did_not_go(attempt_id=attempt().pk, by="Pat", reason="not in the provider's log")
        Campaign.objects.get().steps.update(subject="Corrected")
        hosted_again = sent()
        assert (hosted_again.in_doubt, set(api.addresses().values())) == (1, {1})


def test_no_transaction_is_open_while_the_provider_is_spoken_to(settings: Any) -> None:
    make_running()
    reached, go = threading.Event(), threading.Event()

    def wait() -> None:
        reached.set()
        go.wait(20)

    with provider("postmark") as api:
        through(settings, api, EMAIL_REPLY_TIMEOUT_S=20)
        api.before = wait
        thread = threading.Thread(target=sender)
        thread.start()
        assert reached.wait(20)
        states = backend_states()
        go.set()
        thread.join()
    assert not [state for state in states if state.startswith("idle in transaction")], states
    assert Message.objects.get().status == "sent"


def test_an_address_outside_ascii_before_the_at_is_refused_with_the_reason(settings: Any) -> None:
    campaign = make_running()
    campaign.enrolments.update(address="jörg@acme.example")
    with provider("postmark") as api:
        through(settings, api)
        assert sent().given_up == 1 and not api.requests


def test_its_webhook_settles_what_it_left_in_doubt(settings: Any) -> None:
    from tests.outreach.test_feedback import POSTMARK, postmark

    make_running()
    with provider("postmark", "hang up after") as api:
        through(settings, api, EMAIL_PROVIDER_WEBHOOK_SECRET="rota:secret")
        sent()
        metadata = api.taken[0]["mail"]["Metadata"]
        event = POSTMARK | {"Metadata": metadata, "RecordType": "Delivery", "Recipient": api.taken[0]["to"]}
        assert postmark(event | {"DeliveredAt": "2026-11-29T10:00:00Z"}).json()["acted"] == 1
    assert Message.objects.get().status == "sent" and ProviderEvent.objects.get().attempt_id == attempt().pk


def test_a_connection_that_was_idle_is_not_used_again(settings: Any, monkeypatch: Any) -> None:
    with provider("postmark") as api:
        through(settings, api)
        with Hosted() as road:
            road.ready()
            first = road.session
            road.ready()
            assert road.session is first
            road.used_at -= hosted.IDLE_MOST_S + 1
            road.ready()
            assert road.session is not first
