"""One batch delivered twice, or ten times, at the same moment makes nothing twice."""

from collections import Counter

import pytest
from django.db import connection, transaction

from routing.fetching import fetch_due
from routing.models import Assignment, Delivery, Fetch, InboundEvent, Lead
from tests.make import make_email, make_payload, make_team
from tests.races.controls import until_seen
from tests.races.crowd import at_once, faults, scalar
from tests.routing.providers import contact_event, make_source_of, post, provider

pytestmark = pytest.mark.django_db(transaction=True)


def outcomes(answers):
    assert {answer.status_code for answer in answers} == {200}, [answer.content for answer in answers]
    return Counter(event["outcome"] for answer in answers for event in answer.json()["events"])


def test_control_looking_which_events_are_new_and_inserting_those_makes_some_of_a_batch_twice():
    """A table like Rota's without the constraint, and the check in the program."""

    def attempt():
        with connection.cursor() as cursor:
            cursor.execute("DROP TABLE IF EXISTS control_batch")
            cursor.execute("CREATE TABLE control_batch (event_id text)")

        def work(_):
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute("SELECT event_id FROM control_batch")
                known = {event_id for (event_id,) in cursor.fetchall()}
                new = [f"e{number}" for number in range(50) if f"e{number}" not in known]
                cursor.executemany("INSERT INTO control_batch VALUES (%s)", [[event_id] for event_id in new])

        at_once(2, work)
        return {"deliveries": 2, "events": scalar("SELECT count(*) FROM control_batch")}

    until_seen(attempt, lambda seen: seen["events"] > 50, "look, then insert (2 batches of 50)", rounds=50)


@pytest.mark.parametrize("times", [2, 10])
def test_a_batch_of_ids_delivered_at_the_same_moment_is_stored_and_fetched_once(times):
    with provider() as api:
        source = make_source_of("hubspot", team=make_team(reps=3), api_url=api.url, api_token="the-token")
        batch = [contact_event(number) for number in range(50)]
        api.records = {str(event["objectId"]): {"email": f"p{event['objectId']}@acme.example"} for event in batch}
        answers = at_once(times, lambda number: post(source, batch if number % 2 else batch[::-1]))
        assert not faults(answers)
        assert outcomes(answers) == {"fetching": 50, "known": 50 * (times - 1)}
        assert InboundEvent.objects.count() == Fetch.objects.count() == 50
        assert Counter(Delivery.objects.values_list("verdict", flat=True)) == {"accepted": 1, "replayed": times - 1}
        at_once(3, lambda _: fetch_due())
    assert len(api.asked) == 50
    assert Lead.objects.count() == Assignment.objects.filter(ended_at=None).count() == 50


def test_batches_that_overlap_in_any_order_store_each_event_once_and_never_deadlock():
    source = make_source_of("hubspot")
    events = [contact_event(number) for number in range(40)]
    answers = at_once(12, lambda n: post(source, (events[n:] + events[:n])[:30] if n % 2 else events[::-1][n : n + 30]))
    assert not faults(answers)
    assert outcomes(answers)["fetching"] == InboundEvent.objects.count() == 40


def test_a_batch_of_whole_leads_delivered_twice_at_once_makes_each_lead_once():
    source = make_source_of("generic", team=make_team(reps=3))
    batch = [make_payload(email=make_email(), event_id=f"e{number}") for number in range(10)]
    answers = at_once(4, lambda _: post(source, batch))
    assert not faults(answers)
    told = outcomes(answers)
    assert told["replayed"] == 30 and told["assigned"] + told["waiting"] == 10
    assert Lead.objects.count() == InboundEvent.objects.count() == 10
    assert Assignment.objects.values("lead").distinct().count() == Assignment.objects.count()


def test_one_submission_three_times_within_milliseconds_is_one_lead_and_three_200():
    source = make_source_of("webflow")
    said = {"triggerType": "form_submission", "payload": {"id": "s1", "data": {"email": "pat@acme.example"}}}
    answers = at_once(3, lambda _: post(source, said))
    assert not faults(answers)
    told = outcomes(answers)
    assert told["replayed"] == 2 and told["assigned"] + told["waiting"] == 1
    assert Lead.objects.count() == 1
