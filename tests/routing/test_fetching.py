"""Leads behind ids: fetched once from a real HTTP server that behaves like HubSpot and Meta, or kept with why not."""

import time
from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.db import transaction
from django.utils import timezone

from routing import fetches, fetching, remote
from routing.models import Assignment, Fetch, InboundEvent, Lead
from routing.sources import enter_api_token
from routing.tasks import fetch
from tests.make import make_team
from tests.races.crowd import at_once, faults
from tests.routing.providers import Provider, contact_event, leadgen, make_source_of, post, provider

pytestmark = pytest.mark.django_db(transaction=True)

PAT = {"email": "pat@acme.example", "firstname": "Pat", "lastname": "Novák", "company": "Acme", "jobtitle": "CTO"}
META_PAT = {"email": "pat@acme.example", "full_name": "Pat Novák", "phone_number": "+33170189900", "budget": "10k"}


@pytest.fixture
def api() -> Iterator[Provider]:
    with provider() as server:
        yield server


def source_of(kind: str, api: Provider, **fields: object):
    return make_source_of(kind, api_url=api.url, api_token="the-token", **fields)


def due_now() -> None:
    """Let the time go by until every fetch that waits is due again."""
    Fetch.objects.filter(due_at__isnull=False).update(due_at=timezone.now() - timedelta(seconds=1))


def the_event() -> InboundEvent:
    return InboundEvent.objects.select_related("fetch").get()


def waits_s() -> float:
    due_at = the_event().fetch.due_at
    assert due_at is not None
    return (due_at - timezone.now()).total_seconds()


def test_a_hubspot_contact_is_fetched_with_the_token_and_lands_with_a_rep(api):
    source = source_of("hubspot", api, mapping={"country": ["hs_country_region_code"]})
    api.records["42001"] = PAT | {"hs_country_region_code": "FR"}
    post(source, [contact_event(1)])

    assert fetch() == {"landed": 1, "later": 0, "failed": 0, "refused": 0, "left_over": 0}

    lead = Lead.objects.get()
    assert (lead.email, lead.first_name, lead.last_name, lead.company) == tuple(PAT.values())[:4]
    assert lead.country == "FR" and lead.fields["jobtitle"] == "CTO" and lead.status == "assigned"
    event = the_event()
    assert (event.outcome, event.lead, event.fetch.due_at, event.fetch.attempts) == ("created", lead, None, 1)
    _, query, headers = api.asked[0]
    assert headers["Authorization"] == "Bearer the-token"
    wanted = query["properties"][0].split(",")
    assert wanted[0] == "hs_country_region_code" and {"email", "firstname", "phone"} <= set(wanted)


def test_a_meta_lead_is_fetched_and_its_answers_are_found_by_their_usual_names(api):
    api.records["555666777"] = META_PAT
    post(source_of("meta", api), leadgen("555666777"))
    fetch()
    lead = Lead.objects.get()
    assert (lead.email, lead.first_name, lead.last_name) == ("pat@acme.example", "Pat", "Novák")
    assert lead.phone == "+33170189900" and lead.fields["budget"] == "10k"


def test_a_second_event_of_the_contact_touches_the_lead(api):
    api.records["9"] = PAT
    post(source_of("hubspot", api), [contact_event(1, contact=9), contact_event(2, contact=9)])
    fetch()
    assert sorted(InboundEvent.objects.values_list("outcome", flat=True)) == ["created", "touched"]
    assert Lead.objects.count() == Assignment.objects.count() == 1


def test_a_hundred_ids_are_fetched_each_once(api):
    for number in range(100):
        api.records[str(42_000 + number)] = {"email": f"pat{number}@acme.example"}
    post(source_of("hubspot", api, team=make_team(reps=4)), [contact_event(number) for number in range(100)])
    assert fetch()["landed"] == 100
    assert Lead.objects.count() == 100 and len(api.asked) == 100


@pytest.mark.parametrize("status", [500, 502, 503, 504, 302, 418, 204])
def test_an_answer_that_is_none_is_asked_for_again_later_and_then_lands(api, status):
    api.records["42001"] = PAT
    api.planned["42001"] = [(status, b"", {"Location": "http://127.0.0.1:1/"})]
    post(source_of("hubspot", api), [contact_event(1)])
    assert fetch()["later"] == 1 and not Lead.objects.exists()
    event = the_event()
    assert (event.outcome, event.fetch.trouble, event.fetch.attempts) == ("fetching", "later", 1)
    assert str(status) in event.fetch.said and 10 < waits_s() <= 30
    assert fetch()["landed"] == 0, "it is not due yet"
    due_now()
    assert fetch()["landed"] == 1


def test_waits_double_up_to_an_hour_and_half_of_them_is_chance():
    waits = [fetching.delay_s(failures, dice=1) for failures in range(1, 10)]
    assert waits == [30, 60, 120, 240, 480, 960, 1920, 3600, 3600]
    assert fetching.delay_s(3, dice=0) == 60


def test_too_many_calls_waits_as_long_as_the_api_says_and_charges_nobody(api):
    api.records |= {"42001": PAT, "42002": {"email": "sam@acme.example"}}
    api.planned["42001"] = [(429, {"status": "error", "policyName": "TEN_SECONDLY_ROLLING"}, {"Retry-After": "120"})]
    post(source_of("hubspot", api), [contact_event(1), contact_event(2)])
    fetch()
    assert len(api.asked) == 1, "the other one of this source is not even asked for"
    for row in Fetch.objects.all():
        assert (row.trouble, row.attempts) == ("limited", 0) and row.due_at is not None
        assert 110 < (row.due_at - timezone.now()).total_seconds() <= 120
    due_now()
    assert fetch()["landed"] == 2


def test_a_limited_source_keeps_no_other_source_waiting(api):
    with provider() as other:
        other.records["1"] = META_PAT
        api.planned["42001"] = [(429, b"", {})]
        post(source_of("hubspot", api), [contact_event(1)])
        post(source_of("meta", other), leadgen("1"))
        assert fetch()["landed"] == 1


@pytest.mark.parametrize(
    "kind, answer",
    [
        ("hubspot", (401, {"category": "INVALID_AUTHENTICATION"}, {})),
        ("hubspot", (403, {"category": "MISSING_SCOPES"}, {})),
        ("meta", (400, {"error": {"code": 190, "type": "OAuthException", "error_subcode": 463}}, {})),
    ],
)
def test_a_refused_token_is_told_fails_in_the_end_and_a_new_one_brings_everything_back(api, settings, kind, answer):
    settings.FETCH_ATTEMPTS_MOST = 2
    source = source_of(kind, api)
    ids = ["42001", "42002"]
    api.records |= {ids[0]: PAT, ids[1]: {"email": "sam@acme.example"}}
    api.planned = {record: [answer] * 5 for record in ids}
    post(source, [contact_event(1), contact_event(2)] if kind == "hubspot" else leadgen(*ids))
    fetch()
    assert len(api.asked) == 1 and set(Fetch.objects.values_list("trouble", flat=True)) == {"token"}
    due_now()
    assert fetch()["failed"] == 2
    for event in InboundEvent.objects.all():
        assert event.outcome == "failed" and "refused the token" in event.because
    api.planned.clear()
    with transaction.atomic():
        assert enter_api_token(source_id=source.pk, token="the-token") == 2
    assert fetch()["landed"] == 2


def test_without_a_token_nothing_is_asked_and_the_reason_says_what_to_do(api):
    post(make_source_of("hubspot", api_url=api.url, name="HubSpot EU"), [contact_event(1)])
    fetch()
    assert not api.asked and the_event().fetch.said == "There is no API token. Enter one on the page of HubSpot EU."


@pytest.mark.parametrize(
    "kind, answer",
    [
        ("hubspot", (404, {"status": "error"}, {})),
        ("meta", (400, {"error": {"code": 100, "error_subcode": 33}}, {})),
    ],
)
def test_a_record_that_is_not_there_is_believed_the_third_time(api, kind, answer):
    api.planned = {"42001": [answer] * 9}
    post(source_of(kind, api), [contact_event(1)] if kind == "hubspot" else leadgen("42001"))
    for _ in range(5):
        fetch()
        due_now()
    event = the_event()
    assert len(api.asked) == 3 and event.outcome == "failed" and "does not have it" in event.because


def test_a_record_that_comes_late_lands(api):
    post(source_of("hubspot", api), [contact_event(1)])
    fetch()
    api.records["42001"] = PAT
    due_now()
    assert fetch()["landed"] == 1


@pytest.mark.parametrize("error", [{"code": 4}, {"code": 80005}, {"code": 17}])
def test_meta_says_too_many_calls_with_a_400(api, error):
    api.planned["1"] = [(400, {"error": error}, {})]
    post(source_of("meta", api), leadgen("1"))
    fetch()
    assert (the_event().fetch.trouble, the_event().fetch.attempts) == ("limited", 0)


def test_an_api_that_never_answers_costs_its_deadline_and_is_asked_again(api, settings):
    settings.FETCH_TIMEOUT_S = 1
    api.planned["42001"] = [("hang", 5, {})]
    post(source_of("hubspot", api), [contact_event(1)])
    began = time.monotonic()
    fetch()
    assert time.monotonic() - began < 3
    assert (the_event().fetch.trouble, the_event().fetch.said) == ("later", "HubSpot: it did not answer in time.")


def test_an_api_that_is_not_there_is_asked_again(api):
    source = source_of("hubspot", api)
    type(source).objects.update(api_url="http://127.0.0.1:9")
    post(source, [contact_event(1)])
    fetch()
    assert the_event().fetch.said.startswith("HubSpot: it could not be reached")


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"properties": 7}', b"{}", b"x" * (remote.MOST_BYTES + 1)])
def test_an_answer_that_cannot_be_read_is_asked_for_again_and_given_up_in_the_end(api, settings, body):
    settings.FETCH_ATTEMPTS_MOST = 2
    api.planned["42001"] = [(200, body, {})] * 3
    post(source_of("hubspot", api), [contact_event(1)])
    for _ in range(3):
        fetch()
        due_now()
    assert len(api.asked) == 2 and the_event().outcome == "failed"


def test_a_contact_without_an_address_is_refused_with_the_reason_and_not_asked_for_again(api):
    api.records["42001"] = {"firstname": "Pat"}
    post(source_of("hubspot", api), [contact_event(1)])
    assert fetch()["refused"] == 1
    event = the_event()
    assert event.outcome == "refused" and event.because.startswith("email is missing")
    assert event.fetch.answer == {"firstname": "Pat"} and event.fetch.due_at is None


def test_two_workers_never_fetch_the_same_event(api):
    for number in range(30):
        api.records[str(42_000 + number)] = {"email": f"pat{number}@acme.example"}
    post(source_of("hubspot", api), [contact_event(number) for number in range(30)])
    answers = at_once(4, lambda _: fetching.fetch_due())
    assert not faults(answers)
    assert sum(done.landed for done in answers) == 30
    assert len(api.asked) == len({record for record, _, _ in api.asked}) == 30


def test_a_worker_that_died_costs_one_lease_and_a_late_one_settles_nothing(api):
    api.records["42001"] = PAT
    post(source_of("hubspot", api), [contact_event(1)])
    with transaction.atomic():
        dead = fetches.claim_due(most=10, lease_s=60)
    assert fetch()["landed"] == 0
    due_now()
    assert fetch()["landed"] == 1
    values = {"event": dead.events[0], "claim": dead.claim}
    with transaction.atomic():
        assert not fetches.answered(**values, answer={})
        assert not fetches.give_up(**values, trouble="later", said="too late")
        assert not fetches.put_back(**values, wait_s=1, trouble="later", said="too late", charged=True)
    assert the_event().outcome == "created"


def test_a_worker_that_died_between_the_answer_and_the_lead_is_made_good_without_asking_again(api):
    post(source_of("hubspot", api), [contact_event(1)])
    with transaction.atomic():
        held = fetches.claim_due(most=10, lease_s=60)
        assert fetches.answered(event=held.events[0], claim=held.claim, answer=PAT)
    assert fetch()["left_over"] == 1
    assert Lead.objects.count() == 1 and not api.asked


def test_the_log_says_neither_token_nor_address(api, caplog):
    api.records["42001"] = PAT
    api.planned["42001"] = [(500, {"email": "pat@acme.example"}, {})]
    post(source_of("hubspot", api), [contact_event(1)])
    fetch()
    due_now()
    fetch()
    assert "the-token" not in caplog.text and "acme.example" not in caplog.text


@pytest.mark.parametrize(
    "url, safe",
    [
        ("https://api.hubapi.com", True),
        ("http://127.0.0.1:8000", True),
        ("http://api.hubapi.com", False),
        ("ftp://127.0.0.1", False),
        ("https://", False),
        ("http://[", False),
    ],
)
def test_a_token_goes_to_https_or_to_this_machine_only(url, safe):
    assert remote.is_safe(url) is safe
    if not safe:
        with pytest.raises(remote.NoAnswer):
            remote.get(url, params={}, headers={}, deadline_s=1)


def test_a_trickling_answer_is_cut_off(api):
    import socket
    import threading

    listener = socket.create_server(("127.0.0.1", 0))
    done = threading.Event()

    def trickle() -> None:
        client, _ = listener.accept()
        with client:
            client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
            for _ in range(100):
                if done.wait(0.1):
                    return
                try:
                    client.sendall(b"x")
                except OSError:
                    return

    thread = threading.Thread(target=trickle)
    thread.start()
    began = time.monotonic()
    try:
        with pytest.raises(remote.NoAnswer):
            remote.get(f"http://127.0.0.1:{listener.getsockname()[1]}", params={}, headers={}, deadline_s=1)
        assert time.monotonic() - began < 3
    finally:
        done.set()
        thread.join()
        listener.close()


@pytest.mark.parametrize("text, seconds", [("120", 120), ("", 0), ("soon", 0), ("99999999", 21_600), ("-5", 0)])
def test_retry_after_is_read_in_seconds_and_bounded(text, seconds):
    assert remote.retry_after_s(text) == seconds
    assert 0 < remote.retry_after_s("Fri, 01 Jan 2100 00:00:00 GMT") <= 21_600
