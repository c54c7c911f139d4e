"""What each provider's requests become: every event once, the good ones whatever the bad ones, and a quick answer."""

import json

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django_q.models import OrmQ

from routing.kinds import KINDS
from routing.models import Delivery, Fetch, InboundEvent, Lead
from routing.models.source import new_secret
from tests.make import make_email, make_payload, make_source, make_team
from tests.routing.providers import SECRET, booking, contact_event, leadgen, make_source_of, post
from tests.routing.senders import CLIENT, send

pytestmark = pytest.mark.django_db(transaction=True)

FORM = "application/x-www-form-urlencoded"


def outcomes(answer):
    assert answer.status_code == 200, answer.content
    return [event["outcome"] for event in answer.json()["events"]]


def response(email, token="tok0001", **hidden):
    answers = [{"type": "email", "email": email, "field": {"id": "q1", "ref": "email"}}]
    form = {"form_id": "f", "token": token, "hidden": hidden, "answers": answers}
    return {"event_id": f"delivery-{token}", "event_type": "form_response", "form_response": form}


def submission(**data):
    return {"triggerType": "form_submission", "payload": {"name": "Contact", "id": "sub0001", "data": data}}


# Providers


@pytest.mark.parametrize(
    "kind, said",
    [
        ("typeform", response("pat@acme.example")),
        ("webflow", submission(**{"Work E-mail": "pat@acme.example", "First Name": "Pat"})),
        ("calendly", booking("pat@acme.example")),
    ],
)
def test_a_provider_that_says_all_makes_a_lead_with_a_rep_at_once(kind, said):
    answer = post(make_source_of(kind), said)
    assert outcomes(answer) == ["assigned"]
    lead = Lead.objects.get()
    assert (lead.email, lead.status) == ("pat@acme.example", "assigned")
    assert answer.json()["events"][0]["lead"] == str(lead.uid)


@pytest.mark.parametrize(
    "kind, said",
    [
        ("hubspot", [contact_event(1)]),
        ("meta", leadgen("555666777")),
        ("typeform", response("pat@acme.example")),
        ("webflow", submission(email="pat@acme.example")),
        ("calendly", booking()),
        ("generic", make_payload(event_id="e1")),
    ],
)
def test_the_same_request_again_changes_nothing_and_is_answered_200(kind, said):
    source = make_source_of(kind)
    first, again = post(source, said), post(source, said)
    assert first.status_code in (200, 201) and again.status_code == 200
    assert InboundEvent.objects.count() == 1 and Lead.objects.count() <= 1
    assert list(Delivery.objects.order_by("pk").values_list("verdict", flat=True)) == ["accepted", "replayed"]
    assert Delivery.objects.get(verdict="replayed").body is None


@pytest.mark.parametrize("kind", ["hubspot", "meta", "typeform", "webflow", "calendly", "generic"])
def test_a_request_signed_with_another_secret_is_answered_401_and_nothing_is_kept(kind):
    source = make_source_of(kind)
    source.secret = "guessed"
    assert post(source, [contact_event(1)]).status_code == 401
    assert not Delivery.objects.exists() and not InboundEvent.objects.exists()


@pytest.mark.parametrize("kind, said", [("hubspot", [contact_event(1)]), ("meta", leadgen("1"))])
def test_both_live_secrets_of_a_provider_are_taken(kind, said):
    source = make_source_of(kind, previous_secret="the-one-before")
    assert post(source, said).status_code == 200
    source.secret = "the-one-before"
    assert post(source, said).status_code == 200
    source.secret = "the-one-before-that"
    assert post(source, said).status_code == 401


def test_an_empty_previous_secret_signs_nothing():
    source = make_source_of("meta")
    source.secret = ""
    assert post(source, leadgen("1")).status_code == 401


def test_hubspot_is_known_behind_a_proxy_that_ends_https(settings):
    settings.PUBLIC_URL = "http://testserver"
    source = make_source_of("hubspot")
    settings.ALLOWED_HOSTS = ["inside.example"]
    assert post(source, [contact_event(2)], Host="inside.example").status_code == 200


def test_a_batch_of_ids_is_stored_to_be_fetched_each_event_once():
    source = make_source_of("hubspot")
    batch = [contact_event(number) for number in range(100)]
    answer = post(source, [*batch, batch[7]])
    assert outcomes(answer) == ["fetching"] * 101
    assert InboundEvent.objects.filter(outcome="fetching").count() == Fetch.objects.count() == 100
    delivery = Delivery.objects.get()
    assert (delivery.events, delivery.event_id, delivery.verdict) == (100, "", "accepted")
    assert json.loads(bytes(delivery.body or b"")) == [*batch, batch[7]]


def test_a_batch_of_a_hundred_ids_takes_no_more_queries_than_one():
    source = make_source_of("hubspot")
    with CaptureQueriesContext(
        connection,
    ) as one:
        post(source, [contact_event(1)])
    with CaptureQueriesContext(connection) as hundred:
        post(source, [contact_event(number) for number in range(2, 102)])
    assert len(hundred) == len(one)


def test_a_batch_wakes_a_fetcher_once_and_a_redelivery_wakes_nobody():
    source = make_source_of("hubspot")
    for _ in range(2):
        post(source, [contact_event(1), contact_event(2)])
    assert [row.task["func"] for row in OrmQ.objects.all()].count("routing.tasks.fetch") == 1


def test_a_redelivery_with_another_attempt_number_is_the_same_event():
    source = make_source_of("hubspot")
    post(source, [contact_event(1)])
    assert outcomes(post(source, [contact_event(1, attempt=1), contact_event(2)])) == ["known", "fetching"]
    assert InboundEvent.objects.count() == 2


def test_two_genuine_events_on_one_contact_are_two_events():
    source = make_source_of("hubspot")
    answer = post(source, [contact_event(1, contact=9), contact_event(2, contact=9)])
    assert outcomes(answer) == ["fetching", "fetching"] and InboundEvent.objects.count() == 2


def test_a_partly_bad_batch_keeps_the_good_ones_and_records_the_bad_ones():
    source = make_source_of("hubspot")
    gone = contact_event(3, subscriptionType="contact.deletion")
    batch = [contact_event(1), 7, contact_event(2, objectId=None), gone, {"a": "\x00"}, contact_event(4)]
    assert outcomes(post(source, batch)) == ["fetching", "refused", "refused", "ignored", "refused", "fetching"]
    refused = InboundEvent.objects.filter(outcome="refused")
    assert refused.count() == 3 and all(event.because for event in refused)
    assert InboundEvent.objects.get(outcome="ignored").because == "contact.deletion brings no lead"
    assert outcomes(post(source, batch)) == ["known"] * 6, "nor are the bad ones recorded twice"


def test_meta_changes_of_other_fields_are_kept_and_ignored():
    source = make_source_of("meta")
    said = leadgen("1")
    said["entry"].append({"id": "1", "time": 5, "changes": [{"field": "feed", "value": {"item": "post"}}]})
    assert outcomes(post(source, said)) == ["fetching", "ignored"]


def test_a_lead_the_provider_sent_without_an_address_is_kept_as_refused_and_answered_200():
    source = make_source_of("webflow")
    assert outcomes(post(source, submission(Name="Pat"))) == ["refused"]
    event = InboundEvent.objects.get()
    assert (event.outcome, event.lead) == ("refused", None)
    assert event.because.startswith("email is missing") and event.payload["payload"]["data"] == {"Name": "Pat"}


def test_a_reschedule_is_a_cancellation_that_is_ignored_and_a_booking_that_touches_in_either_order():
    source = make_source_of("calendly")
    post(source, booking(number=1))
    canceled, anew = booking(number=1, event="invitee.canceled"), booking(number=2)
    assert [outcomes(post(source, said)) for said in (anew, canceled)] == [["touched"], ["ignored"]]
    assert Lead.objects.count() == 1


def test_a_typeform_response_sent_again_by_hand_has_another_event_id_and_is_no_second_lead():
    source = make_source_of("typeform")
    said = response("pat@acme.example")
    post(source, said)
    assert outcomes(post(source, {**said, "event_id": "another"})) == ["replayed"]


def test_a_full_name_fills_first_and_last_name_and_unknown_fields_stay_with_the_lead():
    post(make_source_of("calendly"), booking() | {"created_by": "x"})
    lead = Lead.objects.get()
    assert (lead.first_name, lead.last_name) == ("Pat de", "Novák")
    assert lead.fields["name"] == "Pat de Novák"
    post(make_source_of("typeform"), response("sam@acme.example", utm_source="ad", budget="10k"))
    assert Lead.objects.get(email="sam@acme.example").fields["budget"] == "10k"


def test_a_number_where_a_text_belongs_is_taken_as_its_text_from_a_form_tool():
    post(make_source_of("webflow"), submission(**{"email": "pat@acme.example", "Phone Number": 15550000000}))
    assert Lead.objects.get().fields["phone_as_given"] == "15550000000"


def test_a_field_that_cannot_be_stored_refuses_the_event_and_is_not_sent_round_for_ever():
    source = make_source_of("webflow")
    assert outcomes(post(source, submission(email="pat@acme.example", x="a\x00b"))) == ["refused"]
    assert "NUL" in InboundEvent.objects.get().because
    assert outcomes(post(source, {**submission(email="sam@acme.example"), "z": "\x00"})) == ["assigned"]


def test_an_event_in_flight_elsewhere_is_answered_503_so_that_the_provider_comes_again():
    source = make_source_of("hubspot")
    other = connection.copy()
    try:
        with other.cursor() as cursor:
            cursor.execute("BEGIN")
            name = "1234567.1.77.42001.1790000000000"
            cursor.execute(
                "INSERT INTO routing_inboundevent (source_id, event_id, digest, payload) VALUES (%s, %s, '', '{}')",
                [source.pk, name],
            )
            with connection.cursor() as mine:
                mine.execute("SET lock_timeout = '100ms'")
            answer = post(source, [contact_event(1)])
            assert (answer.status_code, answer["Retry-After"]) == (503, "5")
            cursor.execute("ROLLBACK")
    finally:
        other.close()
    assert outcomes(post(source, [contact_event(1)])) == ["fetching"]


@pytest.mark.parametrize("body", [b"{", b"7", b'{"a": 1}', b"\xff"])
def test_a_body_that_is_no_batch_is_answered_400(body):
    assert post(make_source_of("hubspot"), body).status_code == 400


def test_a_source_of_a_kind_that_is_gone_is_answered_503_and_nothing_breaks():
    source = make_source_of("hubspot")
    type(source).objects.update(kind="fax")
    assert post(source, [contact_event(1)]).status_code == 503


def test_a_switched_off_source_is_answered_410_whatever_its_kind():
    assert post(make_source_of("calendly", active=False), booking()).status_code == 410


# Handshakes


def shake(source, **query):
    return CLIENT.get(f"/in/{source.slug}", query)


def test_meta_is_answered_its_challenge_as_plain_text():
    source = make_source_of("meta", verify_token="ours")
    query = {"hub.mode": "subscribe", "hub.verify_token": "ours", "hub.challenge": "<b>1158"}
    answer = shake(source, **query)
    assert (answer.status_code, answer.content, answer["Content-Type"]) == (200, b"<b>1158", "text/plain")
    assert shake(source, **{**query, "hub.verify_token": "guess"}).status_code == 403
    assert shake(source).status_code == 403


def test_linkedin_is_answered_its_challenge_with_the_newest_secret():
    code = "11111111-2222-4333-8444-555555555555"
    answer = shake(make_source_of("linkedin"), challengeCode=code)
    assert answer.json()["challengeResponse"] == "f512e4fa5d990b7eec217281202e8c558f80f51b44572705cf90834eadca144b"


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"meta", "linkedin"}))
def test_a_kind_without_handshake_answers_get_with_405(kind):
    answer = shake(make_source_of(kind))
    assert (answer.status_code, answer["Allow"]) == (405, "POST")


def test_a_switched_off_source_shakes_no_hands():
    source = make_source_of("meta", verify_token="ours", active=False)
    query = {"hub.mode": "subscribe", "hub.verify_token": "ours", "hub.challenge": "1"}
    assert shake(source, **query).status_code == 403


# JSON and forms with a shared secret


def test_json_with_a_shared_secret_is_answered_like_standard_webhooks():
    source = make_source_of("generic")
    payload = make_payload(event_id="e1")
    assert [post(source, payload).status_code for _ in range(2)] == [201, 200]
    assert post(source, make_payload(event_id="e1")).status_code == 409
    refused = post(source, {"Full Name": "Pat Novák", "event_id": "e2"})
    assert refused.status_code == 422 and refused.json()["errors"][0]["path"] == "email"
    assert InboundEvent.objects.get(event_id="e2").outcome == "refused"
    assert post(source, b"[1, 2").status_code == 400
    assert post(source, b"7").status_code == 422


def test_a_form_post_makes_a_lead():
    body = b"Email+Address=pat%40acme.example&First+Name=Pat&Company=Acme&Lead+ID=9001&topic=a&topic=b"
    assert post(make_source_of("generic"), body, content_type=FORM).status_code == 201
    lead = Lead.objects.get()
    assert (lead.email, lead.first_name, lead.company) == ("pat@acme.example", "Pat", "Acme")
    assert lead.fields["topic"] == ["a", "b"]
    assert InboundEvent.objects.get().event_id == "9001"


def test_an_array_of_leads_takes_the_good_ones_and_says_what_is_wrong_with_the_others():
    source = make_source_of("generic")
    leads = [make_payload(), {"name": "Pat"}, make_payload(), 7]
    assert outcomes(post(source, leads)) == ["assigned", "refused", "assigned", "refused"]
    assert Lead.objects.count() == 2 and InboundEvent.objects.filter(outcome="refused").count() == 2


def test_the_same_words_without_an_id_twice_in_a_moment_are_one_event():
    source = make_source_of("generic")
    payload = make_payload()
    answers = [post(source, payload).json()["outcome"] for _ in range(2)]
    assert answers[0] == "assigned" and answers[1] in ("replayed", "touched")  # a minute may end between the two
    assert Lead.objects.count() == 1


def test_bodies_that_differ_only_in_a_time_stamp_make_one_lead():
    source = make_source_of("generic")
    payload = make_payload()
    for at in ("2026-11-02T09:00:00Z", "2026-11-02T09:00:24Z"):
        post(source, {**payload, "createdAt": at})
    assert Lead.objects.count() == 1


@pytest.mark.parametrize("content_type", ["text/plain", "application/xml", ""])
def test_another_type_than_the_kind_takes_is_answered_415(content_type):
    assert post(make_source_of("generic"), b"a=b", content_type=content_type).status_code == 415
    assert post(make_source_of("hubspot"), b"a=b", content_type=FORM).status_code == 415


# Standard Webhooks stays what it was


def test_the_way_of_a_standard_webhook_takes_the_same_few_queries_as_ever():
    source = make_source()
    send(source)
    with CaptureQueriesContext(connection) as created:
        assert send(source).status_code == 201
    with CaptureQueriesContext(connection) as replayed:
        assert [send(source, body='{"email": "a@acme.example"}', event_id="e").status_code for _ in range(2)][1] == 200
    print(f"queries: new {len(created)}, new and replayed {len(replayed)}")
    assert (len(created), len(replayed)) == (7, 13)


def test_a_refused_event_is_kept_and_the_same_id_with_a_better_body_is_taken():
    source = make_source(team=make_team(reps=1))
    assert send(source, {"first_name": "Pat"}, event_id="evt_1").status_code == 422
    assert InboundEvent.objects.get().because.startswith("email is missing")
    assert send(source, {"first_name": "Pat"}, event_id="evt_1").status_code == 422
    assert send(source, make_payload(), event_id="evt_1").status_code == 201
    event = InboundEvent.objects.get()
    assert (event.outcome, event.because) == ("created", "")
    assert send(source, make_payload(), event_id="evt_1").status_code == 409


def test_a_mapping_serves_standard_webhooks_too_and_the_event_is_kept_in_the_senders_words():
    source = make_source(mapping={"email": ["contact.mail"], "company": ["org"]})
    email = make_email()
    payload = {"contact": {"mail": email, "x": 1}, "org": "Acme", "email": "other@acme.example"}
    assert send(source, payload).status_code == 201
    lead = Lead.objects.get()
    assert (lead.email, lead.company) == (email, "Acme")
    assert lead.fields == {"contact": {"mail": email, "x": 1}, "sent_email": "other@acme.example"}
    assert InboundEvent.objects.get().payload == payload


def test_a_secret_of_another_kind_does_not_open_a_standard_source():
    source = make_source(secret=new_secret())
    body = json.dumps(make_payload()).encode()
    answer = CLIENT.post(
        f"/in/{source.slug}", data=body, content_type="application/json", headers={"X-Rota-Secret": source.secret}
    )
    assert answer.status_code == 401 and SECRET not in answer.content.decode()
