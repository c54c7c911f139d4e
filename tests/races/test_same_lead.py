"""The same event, or the same person, arriving many times at once makes one lead, and everybody hears of that one."""

from collections import Counter

import pytest
from django.db import connection, transaction

from routing import leads
from routing.errors import Busy, EventConflict
from routing.models import Delivery, InboundEvent, Lead, LeadAddress
from routing.sweep import sweep_team
from tests.make import make_email, make_source, make_team
from tests.races.controls import until_seen
from tests.races.crowd import at_once, beside, faults, scalar, second_connection, take_in, until, waiting_for_a_lock
from tests.races.replay import nothing_lost_nothing_twice, replay

pytestmark = pytest.mark.django_db(transaction=True)

PHONE = "+33 1 70 18 99 0{}"


@pytest.fixture
def source():
    return make_source(team=make_team(reps=3))


def test_control_looking_first_and_inserting_then_makes_the_same_event_twice():
    """A table like Rota's, without the constraint, and the check in the program."""

    def attempt():
        with connection.cursor() as cursor:
            cursor.execute("DROP TABLE IF EXISTS control_event")
            cursor.execute("CREATE TABLE control_event (event_id text)")

        def work(number):
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute("SELECT 1 FROM control_event WHERE event_id = 'evt'")
                if cursor.fetchone() is None:
                    cursor.execute("INSERT INTO control_event VALUES ('evt')")

        at_once(10, work)
        return {"deliveries": 10, "events": scalar("SELECT count(*) FROM control_event")}

    until_seen(attempt, lambda seen: seen["events"] > 1, "look, then insert (10 clients)", rounds=50)


def test_ten_deliveries_of_one_event_at_once_make_one_lead(source):
    email = make_email()
    answers = at_once(10, lambda _: take_in(source, event_id="evt_1", email=email))
    assert not faults(answers)
    assert Counter(answer.outcome == "replayed" for answer in answers) == {False: 1, True: 9}
    assert len({answer.lead for answer in answers}) == 1
    assert Lead.objects.count() == InboundEvent.objects.count() == 1
    verdicts = Counter(Delivery.objects.values_list("verdict", flat=True))
    assert verdicts == {"accepted": 1, "replayed": 9}
    sweep_team(team_id=source.team_id)
    assert replay(source.team).turns == 1


def test_many_events_delivered_three_times_each_in_any_order_make_one_lead_each(source):
    emails = [make_email() for _ in range(20)]

    def work(number):
        return [take_in(source, event_id=f"evt_{n % 20}", email=emails[n % 20]) for n in range(number, number + 20)]

    answers = at_once(3, work)
    assert not faults(answers)
    assert Lead.objects.count() == 20
    assert Counter(answer.outcome == "replayed" for each in answers for answer in each) == {False: 20, True: 40}
    sweep_team(team_id=source.team_id)
    assert replay(source.team).turns == 20
    nothing_lost_nothing_twice()


def test_the_same_event_id_with_another_body_is_refused_and_both_are_kept(source):
    answers = at_once(8, lambda _: take_in(source, event_id="evt_1"))
    refused = faults(answers)
    assert len(refused) == 7 and all(isinstance(fault, EventConflict) for fault in refused)
    assert Lead.objects.count() == 1
    assert Counter(Delivery.objects.values_list("verdict", flat=True)) == {"accepted": 1, "conflicting": 7}


def test_ten_events_of_one_address_at_once_make_one_lead_and_nine_touches(source):
    email = make_email()
    answers = at_once(10, lambda number: take_in(source, email=email.upper() if number % 2 else email))
    assert not faults(answers)
    assert Counter(answer.outcome == "touched" for answer in answers) == {False: 1, True: 9}
    assert len({answer.lead for answer in answers}) == 1 and Lead.objects.count() == 1
    assert InboundEvent.objects.filter(lead=Lead.objects.get()).count() == 10


def test_people_who_share_one_of_two_addresses_never_deadlock_and_never_double(source):
    """Each event has an e-mail address and a phone number out of a few, so that they overlap in all ways."""
    emails = [make_email() for _ in range(4)]

    def work(number):
        return [
            take_in(source, email=emails[(number + turn) % 4], phone=PHONE.format((number * 3 + turn * 5) % 4))
            for turn in range(4)
        ]

    answers = at_once(20, work)
    assert not faults(answers)
    assert 1 <= Lead.objects.count() <= 4
    held = LeadAddress.objects.filter(open=True)
    assert held.count() == len(set(held.values_list("kind", "value"))) == 8
    assert set(held.values_list("lead_id", flat=True)) <= set(Lead.objects.values_list("pk", flat=True))
    sweep_team(team_id=source.team_id)
    nothing_lost_nothing_twice()


def test_a_delivery_in_flight_is_waited_for_and_then_asked_to_come_again(source):
    with second_connection() as other, other.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute(
            "INSERT INTO routing_inboundevent (source_id, event_id, digest, payload) VALUES (%s, 'evt_1', '', '{}')",
            [source.pk],
        )

        def work(number):
            with connection.cursor() as mine:
                mine.execute("SET lock_timeout = '100ms'")
            return take_in(source, event_id="evt_1")

        answers = at_once(3, work)
        cursor.execute("ROLLBACK")
    assert all(isinstance(answer, Busy) for answer in answers)
    assert take_in(source, event_id="evt_1").outcome == "assigned"


def test_an_address_closed_and_written_to_at_once_never_has_two_open_leads(source):
    email = make_email()

    def work(number):
        if number % 4:
            return [take_in(source, email=email, phone=PHONE.format(number % 4)) for _ in range(6)]
        for _ in range(6):
            close_all()
        return []

    answers = at_once(16, work)
    assert not faults(answers)
    assert Lead.objects.filter(status__in=Lead.OPEN, email=email).count() <= 1
    close_all()
    again = [take_in(source, email=email), *(take_in(source, phone=PHONE.format(n), email="") for n in (1, 2, 3))]
    assert {answer.outcome for answer in again} == {"assigned"}, "no address stayed behind with a closed lead"
    sweep_team(team_id=source.team_id)
    replay(source.team)
    nothing_lost_nothing_twice()


def close_all():
    with transaction.atomic():
        leads.close(lead_ids=list(Lead.objects.filter(status__in=Lead.OPEN).values_list("pk", flat=True)))


def test_a_lead_cannot_be_closed_between_recognising_and_touching_it(source):
    """The closing begins after the insert met the known address and before the touch; a second address is new."""
    email = make_email()
    first = take_in(source, email=email)
    closing = []

    def close_meanwhile(execute, sql, params, many, context):
        result = execute(sql, params, many, context)
        if "INSERT INTO routing_lead " in sql:
            closing.append(beside(close_all))
            closing[0].__enter__()
            until(lambda: waiting_for_a_lock("transactionid"))
        return result

    with connection.execute_wrapper(close_meanwhile):
        second = take_in(source, email=email, phone=PHONE.format(1))
    closing[0].__exit__(None, None, None)
    assert (second.outcome, second.lead) == ("touched", first.lead)
    assert not LeadAddress.objects.filter(open=True).exists(), "the new address was let go with the others"
    assert take_in(source, email="", phone=PHONE.format(1)).outcome == "assigned"


def test_an_address_given_to_a_lead_that_was_just_closed_is_free(source):
    """A touch does not lock the lead, so that a closing may miss an address it adds; here it has missed one."""
    first = take_in(source, email=make_email(), phone=PHONE.format(1))
    close_all()
    LeadAddress.objects.filter(kind="phone").update(open=True)
    again = at_once(5, lambda _: take_in(source, email=make_email(), phone=PHONE.format(1)))
    assert not faults(again)
    assert Counter(answer.outcome == "touched" for answer in again) == {False: 1, True: 4}
    assert first.lead not in {answer.lead for answer in again}
    assert len({answer.lead for answer in again}) == 1
