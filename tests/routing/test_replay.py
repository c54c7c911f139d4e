"""Stored events go through once more when something was put right: what can land lands, and nothing doubles."""

import pytest

from routing.fetching import fetch_due
from routing.models import Assignment, Fetch, InboundEvent, InboundSource, Lead
from routing.replay import Replayed, replay
from tests.make import make_payload, make_source
from tests.races.crowd import at_once, faults
from tests.routing.providers import contact_event, make_source_of, post, provider
from tests.routing.senders import send

pytestmark = pytest.mark.django_db(transaction=True)


def form(number=1, **data):
    return {"triggerType": "form_submission", "payload": {"id": f"sub{number}", "data": data}}


def replay_all():
    return replay(event_ids=list(InboundEvent.objects.values_list("pk", flat=True)))


def test_an_event_refused_for_its_field_names_lands_once_the_mapping_is_right():
    source = make_source_of("webflow")
    post(source, form(**{"Wohin antworten?": "pat@acme.example", "Budget": "10k"}))
    assert replay_all() == Replayed(refused=1)
    InboundSource.objects.update(mapping={"email": ["Wohin antworten?"]})

    assert replay_all() == Replayed(landed=1)

    lead = Lead.objects.get()
    assert (lead.email, lead.status, lead.fields["Budget"]) == ("pat@acme.example", "assigned", "10k")
    event = InboundEvent.objects.get()
    assert (event.outcome, event.because, event.lead) == ("created", "", lead)


def test_an_event_that_has_its_lead_is_left_alone_however_often_it_is_replayed():
    send(make_source())
    assert [replay_all() for _ in range(2)] == [Replayed(had_a_lead=1)] * 2
    assert Lead.objects.count() == Assignment.objects.count() == InboundEvent.objects.count() == 1


def test_a_standard_webhook_refused_lands_too():
    source = make_source()
    assert send(source, {"mail": "pat@acme.example"}).status_code == 422
    InboundSource.objects.update(mapping={"email": ["mail"]})
    assert replay_all() == Replayed(landed=1)


def test_a_replayed_event_of_a_known_lead_touches_it():
    source = make_source_of("webflow")
    post(source, form(1, email="pat@acme.example"))
    post(source, form(2, mail_to="pat@acme.example"))
    InboundSource.objects.update(mapping={"email": ["mail_to", "email"]})
    assert replay_all() == Replayed(landed=1, had_a_lead=1)
    assert Lead.objects.count() == 1 and InboundEvent.objects.filter(outcome="touched").count() == 1


def test_an_ignored_event_stays_ignored_and_one_that_cannot_be_read_stays_refused():
    source = make_source_of("hubspot")
    post(source, [contact_event(1, subscriptionType="contact.deletion"), {"a": 1}, 7])
    assert replay_all() == Replayed(ignored=1, refused=2)


def test_a_fetch_that_failed_is_asked_for_again_with_all_its_attempts():
    with provider() as api:
        api.planned["42001"] = [(404, b"", {})] * 3
        source = make_source_of("hubspot", api_url=api.url, api_token="the-token")
        post(source, [contact_event(1)])
        for _ in range(3):
            fetch_due()
            Fetch.objects.filter(due_at__isnull=False).update(due_at="2026-01-01T00:00:00Z")
        assert InboundEvent.objects.get().outcome == "failed"
        api.records["42001"] = {"email": "pat@acme.example"}

        assert replay_all() == Replayed(fetching=1)

        event = InboundEvent.objects.select_related("fetch").get()
        assert (event.outcome, event.because, event.fetch.attempts) == ("fetching", "", 0)
        assert fetch_due().landed == 1


def test_what_was_fetched_and_refused_lands_without_being_fetched_again():
    with provider() as api:
        api.records["42001"] = {"work_mail": "pat@acme.example"}
        post(make_source_of("hubspot", api_url=api.url, api_token="the-token"), [contact_event(1)])
        assert fetch_due().refused == 1
        InboundSource.objects.update(mapping={"email": ["work_mail"]})
        assert replay_all() == Replayed(landed=1) and len(api.asked) == 1


def test_ten_people_who_replay_the_same_event_at_once_make_one_lead():
    source = make_source_of("webflow")
    post(source, form(mail_to="pat@acme.example"))
    InboundSource.objects.update(mapping={"email": ["mail_to"]})
    event = InboundEvent.objects.get()
    answers = at_once(10, lambda _: replay(event_ids=[event.pk]))
    assert not faults(answers)
    assert sum(done.landed for done in answers) == 1 and sum(done.had_a_lead for done in answers) == 9
    assert Lead.objects.count() == 1 and Assignment.objects.filter(ended_at=None).count() == 1


def test_a_replay_and_a_better_delivery_of_the_same_event_at_once_make_one_lead():
    source = make_source()
    assert send(source, {"mail": "pat@acme.example"}, event_id="evt_1").status_code == 422
    InboundSource.objects.update(mapping={"email": ["mail", "email"]})
    event, better = InboundEvent.objects.get(), make_payload(email="pat@acme.example")

    def work(number):
        return replay(event_ids=[event.pk]) if number % 2 else send(source, better, event_id="evt_1").status_code

    answers = at_once(8, work)
    assert not faults(answers)
    assert Lead.objects.count() == 1 and InboundEvent.objects.count() == 1
