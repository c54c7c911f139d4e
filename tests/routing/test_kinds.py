"""Each kind of source takes what its sender signed and nothing else, and reads out of it who the lead is."""

import base64
import contextlib
import hashlib
import hmac
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from standardwebhooks import Webhook

from routing.kinds import KINDS
from routing.kinds.kind import BadBody, Event, Incoming, Read, events_of, same, tidy_id
from routing.models.source import new_secret

SECRET = "test-secret-not-real"
SAMPLES = json.loads((Path(__file__).parents[1] / "cases" / "webhooks" / "signed_samples.json").read_text())
URI = SAMPLES["hubspot_v3"]["headers"]["uri"]
SIGNED_AT = 1_790_000_000.0
KIND_OF = {"hubspot_v3": "hubspot", "hubspot_v1": "hubspot_workflow", "hubspot_v2": "hubspot_workflow"}
POSTED = [name for name in SAMPLES if name != "linkedin_challenge"]
WITH_A_TIME = {"hubspot_v3": 300, "webflow": 300, "calendly": 180}


def sample(name: str) -> Incoming:
    headers = {key.lower(): value for key, value in SAMPLES[name]["headers"].items() if key != "uri"}
    return Incoming(SAMPLES[name]["body"].encode(), Headers(headers), SIGNED_AT, uris=(URI,))


class Headers(dict[str, str]):
    """Headers have no case."""

    def get(self, name: str, default: Any = None) -> Any:
        return super().get(name.lower(), default)


def verified(name: str, incoming: Incoming, secret: str = SECRET) -> bool:
    return KINDS[KIND_OF.get(name, name)].verify(incoming, secret)


def events(name: str) -> list[Event]:
    return events_of(KINDS[KIND_OF.get(name, name)], sample(name))


def changed(incoming: Incoming, change: Callable[[str], str]) -> list[Incoming]:
    """The request with each of its headers changed, one at a time."""
    return [
        replace(incoming, headers=Headers({**incoming.headers, name: change(value)}))
        for name, value in incoming.headers.items()
    ]


# Signatures


@pytest.mark.parametrize("name", POSTED)
def test_a_signed_sample_is_accepted(name):
    assert verified(name, sample(name))


@pytest.mark.parametrize("name", POSTED)
def test_another_secret_is_refused(name):
    assert not verified(name, sample(name), "test-secret-not-reaL")
    assert not verified(name, sample(name), "")


@pytest.mark.parametrize("name", POSTED)
def test_a_body_changed_by_one_byte_is_refused(name):
    incoming = sample(name)
    for body in (incoming.body + b" ", incoming.body[:-1], incoming.body.replace(b"1", b"2", 1), b""):
        assert not verified(name, replace(incoming, body=body))


@pytest.mark.parametrize("name", POSTED)
def test_a_body_written_anew_is_refused_though_it_means_the_same(name):
    incoming = sample(name)
    again = json.dumps(json.loads(incoming.body)).encode()
    assert again != incoming.body and not verified(name, replace(incoming, body=again))


@pytest.mark.parametrize("name", POSTED)
def test_every_header_that_is_cut_changed_or_emptied_is_refused(name):
    for change in (lambda v: v[:-1], lambda v: v + "0", lambda v: "", lambda v: v.swapcase() + "é", lambda v: v[1:]):
        for incoming in changed(sample(name), change):
            assert not verified(name, incoming), incoming.headers


@pytest.mark.parametrize("name", POSTED)
def test_no_signature_at_all_is_refused(name):
    assert not verified(name, replace(sample(name), headers=Headers()))


@pytest.mark.parametrize("name", WITH_A_TIME)
def test_a_signed_time_outside_its_window_is_refused_on_both_sides(name):
    window = WITH_A_TIME[name]
    for off, good in ((window, True), (-window, True), (window + 1, False), (-window - 1, False), (86_400, False)):
        assert verified(name, replace(sample(name), at=SIGNED_AT + off)) is good, off


@pytest.mark.parametrize("name", ["hubspot_v3"])
def test_another_method_or_address_is_refused(name):
    incoming = sample(name)
    assert not verified(name, replace(incoming, method="PUT"))
    for uri in (URI.replace("https", "http"), f"{URI}?x=1", f"{URI}/", URI.replace("leads", "other")):
        assert not verified(name, replace(incoming, uris=(uri,)))
    assert verified(name, replace(incoming, uris=("https://inside.example/in/hubspot", URI)))


def test_hubspot_signs_an_address_with_some_escapes_decoded():
    at, body = str(int(SIGNED_AT * 1000)), b"[]"
    signed = "https://leads.example.test/in/hubspot?form=a:b/c?d@e!$'()*,;%20%26"
    sent = "https://leads.example.test/in/hubspot?form=a%3Ab%2Fc%3Fd%40e%21%24%27%28%29%2A%2C%3B%20%26"
    mac = hmac.new(SECRET.encode(), f"POST{signed}[]{at}".encode(), hashlib.sha256).digest()
    headers = Headers({"x-hubspot-request-timestamp": at, "x-hubspot-signature-v3": base64.b64encode(mac).decode()})
    assert verified("hubspot_v3", Incoming(body, headers, SIGNED_AT, uris=(sent,)))


def test_the_older_hubspot_signatures_never_pass_for_v3():
    for name in ("hubspot_v1", "hubspot_v2"):
        assert not KINDS["hubspot"].verify(sample(name), SECRET)


def test_a_hubspot_version_that_is_named_is_the_only_one_tried():
    for name, other in (("hubspot_v1", "v2"), ("hubspot_v2", "v1")):
        headers = Headers({**sample(name).headers, "x-hubspot-signature-version": other})
        assert not verified(name, replace(sample(name), headers=headers))


def test_one_good_calendly_signature_among_several_is_enough():
    given = SAMPLES["calendly"]["headers"]["Calendly-Webhook-Signature"]
    header = given.replace("v1=", "v1=" + "0" * 64 + ",v1=")
    assert verified("calendly", replace(sample("calendly"), headers=Headers({"calendly-webhook-signature": header})))


def test_standard_webhooks_is_one_of_the_kinds():
    secret, now = new_secret(), datetime.now(UTC)
    headers = {
        "webhook-id": "evt_1",
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Webhook(secret).sign("evt_1", now, "{}"),
    }
    assert verified("standard", Incoming(b"{}", headers, now.timestamp()), secret)
    assert not verified("standard", Incoming(b"{} ", headers, now.timestamp()), secret)


BASIC = base64.b64encode(f"zap:{SECRET}".encode()).decode()


@pytest.mark.parametrize(
    "headers",
    [{"Authorization": f"Bearer {SECRET}"}, {"Authorization": f"Basic {BASIC}"}, {"X-Rota-Secret": SECRET}],
)
def test_a_shared_secret_is_accepted_in_any_of_its_three_places(headers):
    incoming = Incoming(b"{}", headers, SIGNED_AT)
    assert verified("generic", incoming)
    assert not verified("generic", incoming, "other")


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": ""},
        {"Authorization": f"Bearer {SECRET[:-1]}"},
        {"Authorization": f"Bearer {SECRET}x"},
        {"Authorization": f"Token {SECRET}"},
        {"Authorization": f"Basic {SECRET}"},
        {"Authorization": "Basic é"},
        {"X-Rota-Secret": SECRET.upper()},
        {"X-Rota-Secret": ""},
    ],
)
def test_a_shared_secret_that_is_wrong_cut_or_elsewhere_is_refused(headers):
    assert not verified("generic", Incoming(b"{}", headers, SIGNED_AT))


def test_comparing_takes_any_text_and_never_fails():
    assert same("a", "a") and not same("é", "a") and not same("\udcff", "a") and not same("", "a")


# Handshakes


def test_meta_is_answered_its_challenge_only_for_the_verify_token():
    query = {"hub.mode": "subscribe", "hub.challenge": "1158201444", "hub.verify_token": "ours"}
    shake = KINDS["meta"].handshake
    assert shake(query, "ours", [SECRET]) == "1158201444"
    assert shake(query, "other", [SECRET]) is None
    assert shake({**query, "hub.verify_token": ""}, "", [SECRET]) is None
    assert shake({**query, "hub.mode": "unsubscribe"}, "ours", [SECRET]) is None


def test_linkedin_is_answered_its_challenge_signed():
    wanted = SAMPLES["linkedin_challenge"]
    code = wanted["body"].partition("=")[2]
    answer = json.loads(KINDS["linkedin"].handshake({"challengeCode": code}, "", [SECRET]) or "")
    assert answer == {"challengeCode": code, **wanted["headers"]}
    assert KINDS["linkedin"].handshake({"challengeCode": '"}'}, "", [SECRET]) is None
    assert KINDS["linkedin"].handshake({}, "", [SECRET]) is None


def test_who_never_asks_is_not_answered():
    assert KINDS["typeform"].handshake({"hub.challenge": "1"}, "ours", [SECRET]) is None


# What is read


def test_the_samples_are_read():
    ids = {name: [event.id for event in events(name)] for name in POSTED}
    assert ids == {
        "hubspot_v3": ["1234567.900001.77.42001.1790000000000"],
        "hubspot_v1": ["1234567.900001.77.42001.1790000000000"],
        "hubspot_v2": ["1234567.900001.77.42001.1790000000000"],
        "typeform": ["tok0001"],
        "meta": ["555666777"],
        "webflow": ["sub0001"],
        "calendly": ["invitee.created https://api.calendly.com/scheduled_events/E1/invitees/I1"],
        "segment": ["msg-0001"],
        "linkedin": ["urn:li:leadGenFormResponse:abc-1 CREATED"],
    }
    assert not [event.bad for name in POSTED for event in events(name) if event.bad]


@pytest.mark.parametrize("name, fetch", [("hubspot_v3", "42001"), ("meta", "555666777"), ("linkedin", "abc-1")])
def test_an_event_of_an_id_only_says_what_to_fetch(name, fetch):
    assert [event.read for event in events(name)] == [Read(fetch=fetch)]


@pytest.mark.parametrize(
    "name, some",
    [
        ("typeform", {"email": "pat@acme.example", "company": "Acme", "utm_source": "newsletter"}),
        ("webflow", {"email": "pat@acme.example", "First Name": "Pat", "form": "Contact"}),
        ("calendly", {"email": "pat@acme.example", "name": "Pat Test", "Company": "Acme", "utm_source": "ad"}),
        ("segment", {"email": "pat@acme.example", "company": "Acme"}),
    ],
)
def test_an_event_that_says_all_is_read_by_the_senders_own_names(name, some):
    fields = events(name)[0].read.fields
    assert some.items() <= fields.items()


def test_the_same_hubspot_event_delivered_again_has_the_same_id_and_two_events_of_a_contact_have_two():
    one = json.loads(sample("hubspot_v3").body)[0]
    batch = [one, {**one, "attemptNumber": 3}, {**one, "eventId": 900002}, {**one, "subscriptionId": 78}]
    found = events_of(KINDS["hubspot"], replace(sample("hubspot_v3"), body=json.dumps(batch).encode()))
    assert found[0].id == found[1].id and len({event.id for event in found}) == 3


def test_one_bad_event_in_a_batch_is_bad_alone():
    one = json.loads(sample("hubspot_v3").body)[0]
    batch = [
        one,
        7,
        {"eventId": 1},
        {**one, "objectId": None},
        {**one, "eventId": 2, "subscriptionType": "contact.deletion"},
    ]
    found = events_of(KINDS["hubspot"], replace(sample("hubspot_v3"), body=json.dumps(batch).encode()))
    assert [bool(event.bad) for event in found] == [False, True, True, True, False]
    assert found[3].bad == "is not what HubSpot sends: objectId is missing"
    assert found[4].read.ignored == "contact.deletion brings no lead"
    assert len({event.id for event in found}) == 5


@pytest.mark.parametrize("name", ["hubspot", "meta"])
def test_a_batch_that_is_none_is_refused_as_a_whole(name):
    with pytest.raises(BadBody):
        events_of(KINDS[name], Incoming(b'{"a": 1}', Headers(), SIGNED_AT))
    with pytest.raises(BadBody):
        events_of(KINDS[name], Incoming(b"[", Headers(), SIGNED_AT))


def test_a_workflow_contact_is_read_without_its_history_and_named_by_its_last_change():
    said = {
        "vid": 42001,
        "properties": {
            "email": {"value": "pat@acme.example", "versions": [{"value": "x", "timestamp": 1790000000000}]},
            "company": {"value": "Acme"},
        },
    }
    workflow = KINDS["hubspot_workflow"]
    assert workflow.name(said) == "42001.1790000000000"
    assert workflow.read(said).fields == {"email": "pat@acme.example", "company": "Acme"}


def test_typeform_answers_of_every_type_have_a_value():
    uuid = "01234567-89ab-cdef-0123-456789abcdef"
    answers: list[dict[str, Any]] = [
        {"type": "email", "email": "pat@acme.example", "field": {"id": "a", "ref": uuid}},
        {"type": "phone_number", "phone_number": "+33170189900", "field": {"id": "b", "ref": uuid}},
        {"type": "choice", "choice": {"label": "Blue"}, "field": {"id": "c", "ref": uuid}},
        {"type": "choices", "choices": {"labels": ["A", "B"], "other": "C"}, "field": {"id": "d", "ref": "many"}},
        {"type": "number", "number": 50, "field": {"id": "e", "ref": uuid}},
        {"type": "boolean", "boolean": False, "field": {"id": "f", "ref": "agrees"}},
    ]
    inside = {"id": "e", "title": "Seats"}
    definition = {"fields": [{"id": "c", "title": "Colour"}, {"id": "g", "properties": {"fields": [inside]}}]}
    response = {"token": "t", "definition": definition, "answers": answers}
    fields = KINDS["typeform"].read({"event_type": "form_response", "form_response": response}).fields
    assert {name: value for name, value in fields.items() if value is not None} == {
        "email": "pat@acme.example",
        "phone": "+33170189900",
        "Colour": "Blue",
        "many": ["A", "B", "C"],
        "Seats": 50,
        "agrees": False,
    }


def test_a_cancelled_booking_is_another_event_and_no_lead():
    said = json.loads(sample("calendly").body) | {"event": "invitee.canceled"}
    found = events_of(KINDS["calendly"], replace(sample("calendly"), body=json.dumps(said).encode()))
    assert found[0].read.ignored == "invitee.canceled brings no lead"
    assert found[0].id != events("calendly")[0].id


def test_a_form_post_is_read_and_its_several_values_are_a_list():
    form = Incoming(
        b"email=pat%40acme.example&topic=a&topic=b", {}, SIGNED_AT, content_type="application/x-www-form-urlencoded"
    )
    assert events_of(KINDS["generic"], form)[0].read.fields == {"email": "pat@acme.example", "topic": ["a", "b"]}
    body = b'--x\r\nContent-Disposition: form-data; name="email"\r\n\r\npat@acme.example\r\n--x--\r\n'
    multipart = Incoming(
        body, {"Content-Type": "multipart/form-data; boundary=x"}, SIGNED_AT, content_type="multipart/form-data"
    )
    assert events_of(KINDS["generic"], multipart)[0].read.fields == {"email": "pat@acme.example"}


def test_an_id_that_is_too_long_or_not_printable_is_kept_as_its_digest():
    assert tidy_id("evt_1") == "evt_1"
    assert tidy_id("x" * 201).startswith("sha256-") and tidy_id("a\nb").startswith("sha256-")
    assert tidy_id("x" * 201) != tidy_id("x" * 202)


WORDS = [
    "event_type",
    "form_response",
    "payload",
    "entry",
    "changes",
    "value",
    "answers",
    "definition",
    "fields",
    "type",
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["form_response", "leadgen"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS) | st.text(max_size=3), inner),
    max_leaves=12,
)


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=60, deadline=None)
@given(said=JSON)
def test_whatever_json_comes_its_events_are_read_or_said_to_be_bad(name, said):
    incoming = Incoming(json.dumps(said).encode(), Headers(), SIGNED_AT)
    try:
        found = events_of(KINDS[name], incoming)
    except BadBody:
        return
    assert all(isinstance(event.id, str) and len(event.id) <= 200 for event in found)
    assert all(event.id for event in found if event.bad or event.read.fetch or event.read.ignored)


@pytest.mark.parametrize("name", KINDS)
def test_json_nested_out_of_all_proportion_brings_nothing_down(name):
    for deep in (400, 900, 100_000):
        body = b'[{"a": ' + b"[" * deep + b"]" * deep + b"}]"
        with contextlib.suppress(BadBody):
            events_of(KINDS[name], Incoming(body, Headers(), SIGNED_AT))
