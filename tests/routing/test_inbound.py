"""What senders are told, above all when what they send is bad: nothing is lost in silence, nothing is kept twice."""

import base64
import hashlib
import hmac
import json
import time
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg.errors
import pytest
from django.db import connection, transaction
from django.test import override_settings

from routing import leads, normalise
from routing.models import Account, AccountDomain, Assignment, Delivery, InboundEvent, Lead, LeadAddress
from routing.models.source import new_secret
from tests.make import make_email, make_payload, make_source, make_team
from tests.routing.senders import CLIENT, headers_for, lead_named, send
from tests.routing.sessions import another_session

pytestmark = pytest.mark.django_db(transaction=True)


def paths(response: Any) -> list[str]:
    assert response.status_code == 422, response.content
    return [error["path"] for error in response.json()["errors"]]


# The good cases


def test_a_new_lead_is_answered_201_with_the_lead_and_its_rep():
    source = make_source()
    response = send(source)
    lead = Lead.objects.get()
    rep = source.team.memberships.get().rep
    assert response.status_code == 201
    assert response.json() == {"outcome": "assigned", "lead": str(lead.uid), "rep": {"id": rep.pk, "name": rep.name}}
    assert Assignment.objects.get(ended_at=None).lead == lead


def test_a_lead_nobody_can_take_is_answered_202_and_waits_where_it_is_seen():
    source = make_source(team=make_team(reps=0))
    response = send(source)
    assert (response.status_code, response.json()["outcome"], response.json()["rep"]) == (202, "waiting", None)
    assert Lead.objects.waiting().filter(team=source.team).count() == 1


def test_a_lead_for_a_retired_team_waits_and_is_not_lost():
    source = make_source()
    source.team.retired_at = datetime.now(UTC)
    source.team.save()
    assert send(source).status_code == 202
    assert Lead.objects.waiting().count() == 1


def test_the_same_event_again_is_answered_200_with_the_same_lead_and_changes_nothing():
    source = make_source(team=make_team(reps=2))
    body = json.dumps(make_payload())
    first = send(source, body=body, event_id="evt_1")
    again = send(source, body=body, event_id="evt_1")
    assert (first.status_code, again.status_code) == (201, 200)
    assert again["Idempotent-Replayed"] == "true" and "Idempotent-Replayed" not in first
    assert again.json() == {**first.json(), "outcome": "replayed"}
    assert (Lead.objects.count(), InboundEvent.objects.count(), Assignment.objects.count()) == (1, 1, 1)
    assert list(Delivery.objects.order_by("pk").values_list("verdict", flat=True)) == ["accepted", "replayed"]


def test_the_same_event_from_two_sources_is_two_events():
    one, other = make_source(), make_source()
    body = json.dumps(make_payload())
    assert send(one, body=body, event_id="evt_1").status_code == 201
    assert send(other, body=body, event_id="evt_1").json()["outcome"] == "touched"


def test_the_same_id_with_another_body_is_answered_409_and_both_bodies_are_kept():
    source = make_source()
    first, second = json.dumps(make_payload()), json.dumps(make_payload())
    send(source, body=first, event_id="evt_1")
    response = send(source, body=second, event_id="evt_1")
    assert response.status_code == 409 and "Retry-After" not in response
    kept = {(delivery.verdict, bytes(delivery.body or b"")) for delivery in Delivery.objects.all()}
    assert kept == {("accepted", first.encode()), ("conflicting", second.encode())}
    assert Lead.objects.count() == 1


def test_a_new_event_of_a_known_open_lead_is_a_touch_and_takes_no_turn():
    source = make_source(team=make_team(reps=2))
    email = make_email()
    first = send(source, {"email": email})
    touch = send(source, {"email": email, "campaign": "autumn"})
    assert (touch.status_code, touch.json()) == (200, {**first.json(), "outcome": "touched"})
    assert Assignment.objects.count() == 1
    assert list(InboundEvent.objects.order_by("pk").values_list("outcome", flat=True)) == ["created", "touched"]


def test_two_genuine_events_about_one_person_are_both_kept_though_their_bodies_are_equal():
    source = make_source()
    body = json.dumps(make_payload())
    assert [send(source, body=body).status_code for _ in range(2)] == [201, 200]
    assert InboundEvent.objects.count() == 2 and Lead.objects.count() == 1


def test_events_that_differ_only_in_a_time_stamp_make_one_lead():
    source = make_source()
    payload = make_payload()
    one, two = (send(source, {**payload, "created_at": at}) for at in ("2026-11-02T09:00:00Z", "2026-11-02T09:00:24Z"))
    assert lead_named(one) == lead_named(two)
    assert Lead.objects.count() == 1


def test_a_touch_is_told_the_rep_who_has_the_lead_by_now():
    source = make_source(team=make_team(reps=0))
    email = make_email()
    assert send(source, {"email": email}).json()["rep"] is None
    assert send(source, {"email": email}).json()["rep"] is None


def test_every_answer_carries_a_request_id_and_the_senders_own_where_it_is_plain():
    source = make_source()
    assert send(source, headers={"X-Request-Id": "req-77"})["X-Request-Id"] == "req-77"
    assert Delivery.objects.get().request_id == "req-77"
    made = send(source, headers={"X-Request-Id": "x" * 65})["X-Request-Id"]
    assert len(made) == 32
    assert send(source, secret=new_secret())["X-Request-Id"]


# Refusals of the request as such


def test_an_unknown_source_is_answered_404():
    source = make_source()
    source.slug = "nobody"
    response = send(source)
    assert response.status_code == 404
    assert response["Content-Type"] == "application/problem+json"
    assert response.json()["status"] == 404


def test_a_switched_off_source_is_answered_410_to_who_can_sign_and_keeps_nothing():
    source = make_source(active=False)
    assert send(source).status_code == 410
    assert send(source, secret=new_secret()).status_code == 401
    assert not Delivery.objects.exists()


@pytest.mark.parametrize("method", ["get", "head", "put", "patch", "delete", "options"])
def test_any_method_but_post_is_answered_405_with_what_is_allowed(method):
    response = getattr(CLIENT, method)(f"/in/{make_source().slug}")
    assert (response.status_code, response["Allow"]) == (405, "POST")


@pytest.mark.parametrize(
    "body", [" ", "{", "not json", '{"email": NaN}', '{"email": -Infinity}', "{'email': 'a'}", "{}{}"]
)
def test_broken_json_is_answered_400(body):
    response = send(make_source(), body=body)
    assert response.status_code == 400, response.content
    assert response["Content-Type"] == "application/problem+json"
    assert not Delivery.objects.exists()


def test_a_body_that_is_no_utf8_is_answered_400_though_its_signature_is_right():
    source = make_source()
    body = '{"email": "jörg@acme.example"}'.encode("latin-1")
    now = str(int(time.time()))
    key = base64.b64decode(source.secret.removeprefix("whsec_"))
    signature = hmac.new(key, b".".join([b"evt_1", now.encode(), body]), hashlib.sha256).digest()
    response = CLIENT.post(
        f"/in/{source.slug}",
        data=body,
        content_type="application/json",
        headers={
            "webhook-id": "evt_1",
            "webhook-timestamp": now,
            "webhook-signature": f"v1,{base64.b64encode(signature).decode()}",
        },
    )
    assert response.status_code == 400


def test_a_byte_order_mark_before_the_json_does_no_harm():
    email = make_email()
    body = b"\xef\xbb\xbf" + json.dumps({"email": email}).encode()
    assert send(make_source(), body=body).status_code == 201
    assert Lead.objects.get().email == email


def test_an_empty_request_is_answered_415_for_it_says_no_type():
    assert send(make_source(), body="").status_code == 415


def test_a_field_named_twice_with_two_values_is_answered_400_and_neither_wins_in_silence():
    response = send(make_source(), body='{"email": "pat@acme.example", "email": "sam@acme.example"}')
    assert response.status_code == 400
    assert not Lead.objects.exists()


def test_a_field_named_twice_with_one_value_does_no_harm():
    assert send(make_source(), body='{"email": "pat@acme.example", "email": "pat@acme.example"}').status_code == 201


@pytest.mark.parametrize("deep", [60, 400, 900, 10_000, 100_000])
def test_json_nested_out_of_all_proportion_is_refused_and_brings_nothing_down(deep):
    response = send(make_source(), body=f'{{"email": "pat@acme.example", "x": {"[" * deep}{"]" * deep}}}')
    assert response.status_code in (400, 422), response.content
    assert not Delivery.objects.exists()


def test_json_nested_fifty_deep_is_taken():
    deep = normalise.DEEPEST - 1
    assert (
        send(make_source(), body=f'{{"email": "pat@acme.example", "x": {"[" * deep}{"]" * deep}}}').status_code == 201
    )


@pytest.mark.parametrize("body", ["[]", '[{"email": "pat@acme.example"}]', "7", '"pat@acme.example"', "null", "true"])
def test_json_that_is_no_object_is_answered_422(body):
    response = send(make_source(), body=body)
    assert response.status_code == 422 and response["Content-Type"] == "application/problem+json"


@pytest.mark.parametrize(
    "given", ["text/plain", "application/x-www-form-urlencoded", "", "application/jsonp", "text/json"]
)
def test_another_content_type_is_answered_415(given):
    assert send(make_source(), content_type=given).status_code == 415


@pytest.mark.parametrize("given", ["application/json; charset=utf-8", "Application/JSON", "application/json;charset=x"])
def test_json_with_parameters_or_capitals_is_json(given):
    assert send(make_source(), content_type=given).status_code == 201


def test_a_body_one_byte_too_large_is_answered_413_and_one_of_the_full_size_is_taken():
    source = make_source()
    empty = json.dumps({"email": make_email(), "note": ""})
    with override_settings(INBOUND_MAX_BYTES=2_000):
        full = empty.replace('""', f'"{"x" * (2_000 - len(empty))}"')
        assert send(source, body=full).status_code == 201
        assert send(source, body=full + " ").status_code == 413


@pytest.mark.parametrize("length", ["abc", "1e3", "²", "--1"])
def test_a_content_length_that_is_no_number_is_answered_400(length):
    source = make_source()
    body = json.dumps(make_payload())
    signed = headers_for(body, secret=source.secret)
    response = CLIENT.post(
        f"/in/{source.slug}", data=body, content_type="application/json", headers=signed, CONTENT_LENGTH=length
    )
    assert response.status_code == 400


# Signatures


def test_a_wrong_secret_is_answered_401_and_nothing_is_kept():
    response = send(make_source(), secret=new_secret())
    assert response.status_code == 401
    assert not Delivery.objects.exists() and not Lead.objects.exists()


def test_a_body_changed_on_its_way_is_answered_401():
    source = make_source()
    signed = headers_for('{"email": "pat@acme.example"}', secret=source.secret)
    assert send(source, body='{"email": "sam@acme.example"}', headers=signed).status_code == 401


def test_an_event_id_changed_on_its_way_is_answered_401():
    assert send(make_source(), headers={"webhook-id": "evt_other"}).status_code == 401


@pytest.mark.parametrize("name", ["webhook-id", "webhook-timestamp", "webhook-signature"])
def test_a_missing_signature_header_is_answered_401(name):
    assert send(make_source(), headers={name: ""}).status_code == 401


@pytest.mark.parametrize("minutes", [-6, 6])
def test_a_stale_or_future_time_stamp_is_answered_401(minutes):
    assert send(make_source(), at=datetime.now(UTC) + timedelta(minutes=minutes)).status_code == 401


@pytest.mark.parametrize("given", ["yesterday", "nan", "inf", "1e400", "-1", "9" * 400, "2026-11-29T10:00:00Z"])
def test_a_time_stamp_that_is_none_is_answered_401(given):
    assert send(make_source(), headers={"webhook-timestamp": given}).status_code == 401


@pytest.mark.parametrize(
    "given", ["v1", "v1,", "v1,%%%", "v1,é", ",", "v2,AAAA", "v1,a,b", "x" * 5_000, "v1," + "A" * 43 + "=", " "]
)
def test_a_signature_that_is_none_is_answered_401(given):
    assert send(make_source(), headers={"webhook-signature": given}).status_code == 401


def test_both_live_secrets_are_taken_while_senders_change_over():
    old, new = new_secret(), new_secret()
    source = make_source(secret=new, previous_secret=old)
    assert [send(source, secret=secret).status_code for secret in (new, old)] == [201, 201]
    source.previous_secret = ""
    source.save()
    assert [send(source, secret=secret).status_code for secret in (new, old)] == [201, 401]


@pytest.mark.parametrize("secret", ["whsec_", "whsec_ ", "=", "whsec_é"])
def test_a_source_whose_secret_is_spoilt_takes_nothing_and_does_not_crash(secret):
    source = make_source(secret=secret)
    assert send(source, secret=new_secret()).status_code == 401


def test_one_good_signature_among_several_is_enough_wherever_it_stands():
    source = make_source()
    body, at = json.dumps(make_payload()), datetime.now(UTC)
    good = headers_for(body, secret=source.secret, event_id="evt_1", at=at)["webhook-signature"]
    other = headers_for(body, secret=new_secret(), event_id="evt_1", at=at)["webhook-signature"]
    answers = [
        send(source, body=body, event_id="evt_1", at=at, headers={"webhook-signature": many}).status_code
        for many in (f"{other} {good}", f"{good} {other}", f"v1a,c2ln {good}", f"v1,abc {good}", f"junk  {good}")
    ]
    assert answers == [201, 200, 200, 200, 200]


def test_a_refused_signature_says_nothing_of_why():
    source = make_source()
    stale = send(source, at=datetime.now(UTC) - timedelta(hours=1))
    wrong = send(source, secret=new_secret())
    missing = send(source, headers={"webhook-id": ""})
    assert stale.content == wrong.content == missing.content


@pytest.mark.parametrize("event_id", ["x" * 201, "x" * 300, "evt\x00", "evt\t1", "evt\x7f1"])
def test_an_event_id_that_is_too_long_or_not_printable_is_answered_400(event_id):
    assert send(make_source(), event_id=event_id).status_code == 400
    assert not Delivery.objects.exists()


def test_an_event_id_of_full_length_with_quotes_and_dots_is_taken_as_it_is():
    event_id = "';drop table.%s{}\\" + "x" * 182
    assert send(make_source(), event_id=event_id).status_code == 201
    assert InboundEvent.objects.get().event_id == event_id


def test_a_line_break_in_an_event_id_puts_no_header_into_the_answer():
    response = send(make_source(), event_id="evt\r\nX-Evil: 1")
    assert response.status_code == 400 and "X-Evil" not in response


# What the lead says


@pytest.mark.parametrize(
    "payload", [{}, {"email": ""}, {"email": None}, {"email": "   ", "phone": ""}, {"name": "Pat"}]
)
def test_a_lead_without_any_address_is_answered_422(payload):
    assert paths(send(make_source(), payload)) == ["email"]


@pytest.mark.parametrize(
    "email",
    [
        "pat",
        "pat@",
        "@acme.example",
        "pat@acme",
        "pat acme.example",
        "pat@@acme.example",
        "pat@acme..example",
        ".pat@acme.example",
        "pat@acme.example, sam@acme.example",
        "Pat <pat@acme.example>",
        "mailto:pat@acme.example?x",
        "pat\u00a0n@acme.example",
        "pa\u200bt@acme.example",
        "pat@acme.example\nBcc: all@acme.example",
        "“pat”@acme.example",
        "pat@ac‘me.example",
        '"pat novak"@acme.example',
        "pat@[127.0.0.1]",
        "x" * 65 + "@acme.example",
        "x" * 60 + "@" + "y" * 60 + ".example" * 40,
        "pat@" + "x" * 64 + ".example",
        "x" * 200_000 + "@acme.example",
        "\u202epat@acme.example",
    ],
)
def test_a_malformed_address_is_answered_422_with_its_path_and_without_its_value(email):
    response = send(make_source(), {"email": email})
    assert paths(response) == ["email"]
    said = response.content.decode().replace('"path"', "")
    assert email not in said and "acme" not in said
    assert not Lead.objects.exists() and not Delivery.objects.exists()


@pytest.mark.parametrize("value", [5, 1.5, True, [], ["pat@acme.example"], {"value": "pat@acme.example"}])
@pytest.mark.parametrize("field", ["email", "phone", "first_name", "last_name", "company", "country"])
def test_a_field_of_a_wrong_type_is_answered_422_with_its_path(field, value):
    assert field in paths(send(make_source(), {**make_payload(), field: value}))


def test_all_that_is_wrong_is_told_at_once():
    payload = {"email": "pat", "first_name": 7, "company": "x" * 301}
    assert sorted(paths(send(make_source(), payload))) == ["company", "email", "first_name"]


@pytest.mark.parametrize("field, most", normalise.LENGTHS.items())
def test_a_very_long_name_is_answered_422_and_the_longest_allowed_is_kept_whole(field, most):
    source = make_source()
    assert paths(send(source, make_payload(**{field: "ñ" * (most + 1)}))) == [field]
    assert send(source, make_payload(**{field: "ñ" * most})).status_code == 201
    assert getattr(Lead.objects.get(), field) == "ñ" * most


@pytest.mark.parametrize(
    "payload, path",
    [
        ({"first_name": "Pa\x00t"}, "first_name"),
        ({"answers": [{"text": "a\x00"}]}, "answers[0].text"),
        ({"answers": {"a\x00b": 1}}, "answers"),
        ({"bad\x00key": 1}, ""),
        ({"first_name": "\ud800"}, "first_name"),
        ({"x": {"y": ["fine", "\udfff tail"]}}, "x.y[1]"),
        ({"email": "pat\x00@acme.example"}, "email"),
    ],
)
def test_nul_and_lone_surrogates_are_answered_422_wherever_they_hide(payload, path):
    assert path in paths(send(make_source(), {**make_payload(), **payload}))
    assert not Delivery.objects.exists()


def test_a_number_beyond_all_bounds_is_answered_422_and_not_sent_round_for_ever():
    response = send(make_source(), body='{"email": "pat@acme.example", "budget": {"max": 1e400}}')
    assert paths(response) == ["budget.max"]


def test_a_huge_whole_number_is_kept_to_the_last_digit_or_refused():
    source = make_source()
    digits = "9" * 4_000
    assert send(source, body=f'{{"email": "pat@acme.example", "budget": {digits}}}').status_code == 201
    assert str(Lead.objects.get().fields["budget"]) == digits
    assert send(source, body=f'{{"email": "sam@acme.example", "budget": {"9" * 100_000}}}').status_code == 400


def test_thousands_of_bad_fields_are_not_all_listed():
    response = send(make_source(), {**make_payload(), "x": ["\x00"] * 20_000})
    assert len(paths(response)) == normalise.PROBLEMS_MOST


def test_a_long_run_of_blanks_inside_a_name_takes_no_time():
    begun = time.monotonic()
    assert paths(send(make_source(), make_payload(first_name="a" + " " * 200_000 + "b"))) == ["first_name"]
    assert time.monotonic() - begun < 5


@pytest.mark.parametrize(
    "again",
    [
        "Pat.Novak@Acme.Example",
        "PAT.NOVAK@ACME.EXAMPLE",
        " pat.novak@acme.example\n",
        "\u00a0pat.novak@acme.example\u00a0",
        "\u200bpat.novak@acme.example\ufeff",
        "\u2060 pat.novak@acme.example \u00ad",
    ],
)
def test_another_spelling_of_an_address_is_the_same_lead(again):
    source = make_source()
    first = send(source, {"email": "pat.novak@acme.example"})
    second = send(source, {"email": again})
    assert (second.status_code, lead_named(second)) == (200, lead_named(first))


def test_an_international_domain_and_its_ascii_form_are_the_same_lead():
    source = make_source()
    first = send(source, {"email": "pat@bücher.example"})
    assert lead_named(send(source, {"email": "PAT@XN--BCHER-KVA.example"})) == lead_named(first)
    assert lead_named(send(source, {"email": "pat@BU\u0308CHER.example"})) == lead_named(first)


def test_a_domain_with_a_sharp_s_is_not_taken_for_one_with_ss():
    source = make_source()
    assert send(source, {"email": "pat@straße.example"}).status_code == 201
    assert send(source, {"email": "pat@strasse.example"}).status_code == 201
    assert Lead.objects.count() == 2


def test_a_phone_number_alone_makes_a_lead_and_its_other_forms_are_the_same_lead():
    source = make_source()
    first = send(source, {"phone": "+33 1 42 68 53 00"})
    assert first.status_code == 201
    for again in (
        "+33142685300",
        "+33 (0)1 42 68 53 00",
        "0033 1 42 68 53 00",
        "+33-1-42-68-53-00",
        "+33.1.42.68.53.00",
    ):
        answer = send(source, {"phone": again, "country": "FR"})
        assert (answer.status_code, lead_named(answer)) == (200, lead_named(first)), again
    assert lead_named(send(source, {"phone": "01 42 68 53 00", "country": "fr"})) == lead_named(first)
    assert (Lead.objects.get().email, Lead.objects.get().phone) == ("", "+33142685300")


@pytest.mark.parametrize(
    "phone", ["call me", "0142685300", "12", "+999 1234567", "+33", "9" * 300, "+33 1 42 68 53 00" * 30]
)
def test_a_phone_number_alone_that_cannot_be_read_is_answered_422(phone):
    assert paths(send(make_source(), {"phone": phone})) == ["phone"]


def test_a_phone_number_that_cannot_be_read_beside_a_good_address_is_kept_and_is_no_address():
    source = make_source()
    one = send(source, {"email": make_email(), "phone": "ask at the desk"})
    other = send(source, {"email": make_email(), "phone": "ask at the desk"})
    assert (one.status_code, other.status_code) == (201, 201)
    assert [lead.fields for lead in Lead.objects.all()] == [{"phone_as_given": "ask at the desk"}] * 2
    assert not LeadAddress.objects.filter(kind="phone").exists()


def test_fields_rota_does_not_know_are_kept_unchanged():
    extra = {"utm": {"source": "mail", "tags": ["a", {"b": None}]}, "employees": 12, "Ärger": "ja", "": "", "n": 1.5}
    assert send(make_source(), {"id": "evt_9", **make_payload(), **extra}).status_code == 201
    assert Lead.objects.get().fields == extra


def test_markup_in_a_name_is_text_like_any_other():
    name = "<script>alert('1')</script> & \"Co\" {{ 7 }} =1+1 ../.."
    assert send(make_source(), make_payload(first_name=name)).status_code == 201
    assert Lead.objects.get().first_name == name


@pytest.mark.parametrize("name", ["Jörg Groß", "李小龙", "👩‍👩‍👧 Family", "\u202eright to left", "Zoë\u0301", "ﬁ"])
def test_names_in_any_script_are_kept(name):
    assert send(make_source(), make_payload(last_name=name)).status_code == 201
    assert Lead.objects.get().last_name == normalise.tidy(name)


# Which lead it is


def test_two_addresses_of_two_open_leads_go_to_the_lead_of_the_email_and_the_phone_stays_where_it_was():
    source = make_source()
    email = make_email()
    by_email = send(source, {"email": email})
    by_phone = send(source, {"phone": "+33142685300"})
    both = send(source, {"email": email, "phone": "+33142685300"})
    assert (both.status_code, lead_named(both)) == (200, lead_named(by_email))
    assert str(LeadAddress.objects.get(kind="phone").lead.uid) == lead_named(by_phone)
    assert lead_named(send(source, {"phone": "+33142685300"})) == lead_named(by_phone)


def test_a_touch_adds_a_new_phone_number_by_which_the_lead_is_known_from_then_on():
    source = make_source()
    email = make_email()
    first = send(source, {"email": email})
    assert send(source, {"email": email, "phone": "+33142685300"}).json()["outcome"] == "touched"
    by_phone = send(source, {"phone": "+33142685300"})
    assert (by_phone.status_code, lead_named(by_phone)) == (200, lead_named(first))


def test_a_touch_never_changes_what_is_known_of_the_lead():
    source = make_source()
    payload = make_payload()
    send(source, payload)
    send(source, {**payload, "first_name": "Mallory", "company": "Other"})
    assert (Lead.objects.get().first_name, Lead.objects.get().company) == (payload["first_name"], payload["company"])


def test_the_address_of_a_closed_lead_comes_back_as_a_new_lead_linked_to_the_old_one():
    source = make_source(team=make_team(reps=2))
    email = make_email()
    old = send(source, {"email": email})
    with transaction.atomic():
        leads.close(lead_ids=[Lead.objects.get().pk])
    new = send(source, {"email": email})
    assert new.status_code == 201 and lead_named(new) != lead_named(old)
    assert str(Lead.objects.get(uid=lead_named(new)).previous.uid) == lead_named(old)


def test_a_replay_after_the_lead_was_closed_still_names_that_lead():
    source = make_source()
    body = json.dumps(make_payload())
    first = send(source, body=body, event_id="evt_1")
    with transaction.atomic():
        leads.close(lead_ids=[Lead.objects.get().pk])
    again = send(source, body=body, event_id="evt_1")
    assert (again.status_code, lead_named(again), again.json()["rep"]) == (200, lead_named(first), None)


def test_a_known_lead_cannot_be_closed_between_recognition_and_touch():
    source = make_source()
    email = make_email()
    first = send(source, {"email": email})
    refused = []

    def close_meanwhile(execute, sql, params, many, context):
        if "moved AS" in sql:
            with another_session() as other, pytest.raises(psycopg.errors.LockNotAvailable) as late:
                other.execute("SET lock_timeout = '50ms'")
                other.execute("SELECT FROM routing_leadaddress WHERE value = %s FOR NO KEY UPDATE", [email])
            refused.append(late)
        return execute(sql, params, many, context)

    with connection.execute_wrapper(close_meanwhile):
        response = send(source, {"email": email, "phone": "+33142685300"})
    assert refused and (response.status_code, lead_named(response)) == (200, lead_named(first))


def test_a_lead_of_an_account_is_known_by_its_domain_in_any_case():
    account = Account.objects.create(name="Acme")
    AccountDomain.objects.create(account=account, domain="acme.example")
    send(make_source(), {"email": "pat@ACME.example"})
    assert Lead.objects.get().account == account


# What must not get out


def test_neither_log_lines_nor_error_answers_contain_what_the_sender_said(caplog):
    caplog.set_level("DEBUG")
    source = make_source()
    secret_words = ["secret-word", "quiet.person"]
    answers = [
        send(source, {"email": "quiet.person@acme.example", "note": "secret-word"}, event_id="evt_1"),
        send(source, {"email": "quiet.person@acme.example", "note": "secret-word again"}, event_id="evt_1"),
        send(source, {"email": "quiet.person@acme.example", "note": "secret-word", "x": "\x00secret-word"}),
        send(source, {"email": "quiet.person", "first_name": ["secret-word"]}),
        send(source, {"phone": "quiet.person secret-word"}),
        send(source, body='{"email": "quiet.person", secret-word'),
        send(source, {"email": "quiet.person@acme.example"}, secret=new_secret()),
    ]
    assert [answer.status_code for answer in answers] == [201, 409, 422, 422, 422, 400, 401]
    said = caplog.text + "".join(answer.content.decode() for answer in answers)
    lines = [line for line in said.splitlines() if "django.db.backends" not in line]
    assert not [line for line in lines for word in secret_words if word in line]


def test_error_answers_are_problem_json_with_title_status_and_detail():
    problem = send(make_source(), {}).json()
    assert problem["status"] == 422 and problem["title"] and problem["detail"] and problem["errors"]


# When the database is in the way


def test_an_event_in_flight_elsewhere_is_answered_409_with_retry_after_and_then_goes_through():
    source = make_source()
    body = json.dumps(make_payload())
    with another_session() as other:
        other.execute(
            "INSERT INTO routing_inboundevent (source_id, event_id, digest, payload) VALUES (%s, 'evt_1', '', '{}')",
            [source.pk],
        )
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = '100ms'")
        answer = send(source, body=body, event_id="evt_1")
        assert (answer.status_code, answer["Retry-After"]) == (409, "1")
        other.rollback()
    assert send(source, body=body, event_id="evt_1").status_code == 201


def test_an_address_in_flight_elsewhere_is_answered_409_with_retry_after():
    source = make_source()
    with another_session() as other:
        other.execute("INSERT INTO routing_leadaddress (lead_id, kind, value) VALUES (0, 'email', 'pat@acme.example')")
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = '100ms'")
        answer = send(source, {"email": "pat@acme.example"})
        assert (answer.status_code, answer["Retry-After"]) == (409, "1")
        other.rollback()
    assert not Delivery.objects.exists()


def test_a_busy_turnstile_leaves_the_lead_waiting_and_is_answered_202():
    source = make_source()
    with another_session() as other:
        other.execute("SELECT pg_advisory_xact_lock(turnstile_key(%s))", [source.team_id])
        with override_settings(TURN_WAIT_MS=20):
            answer = send(source)
    assert answer.status_code == 202
    assert Lead.objects.waiting().count() == 1


def test_a_fault_in_the_turn_does_not_lose_the_lead():
    source = make_source()
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE routing_assignment ADD CONSTRAINT nobody CHECK (turn < 1) NOT VALID")
    try:
        answer = send(source)
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE routing_assignment DROP CONSTRAINT nobody")
    assert (answer.status_code, Lead.objects.waiting().count()) == (202, 1)


def test_postgres_gone_is_answered_503_with_retry_after():
    source = make_source()
    with connection.cursor() as cursor:
        cursor.execute("SET client_min_messages = 'error'")
        cursor.execute("SELECT pg_backend_pid()")
        pid = cursor.fetchone()[0]
    with another_session() as other:
        other.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])
    answer = send(source)
    connection.close()
    assert (answer.status_code, answer["Retry-After"]) == (503, "5")
    assert answer["Content-Type"] == "application/problem+json" and answer["X-Request-Id"]
    assert send(source).status_code == 201


def test_a_connection_lost_in_the_middle_is_answered_503_with_retry_after():
    source = make_source()

    def cut(execute, sql, params, many, context):
        if "routing_inboundevent" in sql:
            connection.connection.close()
        return execute(sql, params, many, context)

    with connection.execute_wrapper(cut):
        answer = send(source)
    connection.close()
    assert (answer.status_code, answer["Retry-After"]) == (503, "5")
    assert not Lead.objects.exists()


def test_postgres_not_listening_is_answered_503_with_retry_after():
    source = make_source()
    connection.close()
    right = {name: connection.settings_dict[name] for name in ("HOST", "PORT")}
    connection.settings_dict.update(HOST="127.0.0.1", PORT="1")
    try:
        answer = send(source)
    finally:
        connection.close()
        connection.settings_dict.update(right)
    assert (answer.status_code, answer["Retry-After"]) == (503, "5")


def test_an_unforeseen_id_of_a_source_does_no_harm():
    assert CLIENT.post(f"/in/{uuid.uuid4().hex * 40}", data="{}", content_type="application/json").status_code == 404
