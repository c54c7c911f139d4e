"""A source of any kind in the admin: its secret and token, where its fields stand, and what its last event makes."""

from datetime import timedelta

import pytest
from django.core.cache import cache
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from routing.kinds import KINDS
from routing.models import Fetch, InboundEvent, InboundSource
from tests.make import make_source, make_team
from tests.routing.providers import contact_event, make_source_of, post
from tests.staff import confirm, hands_on, listed, logged_in, page_of, said

pytestmark = pytest.mark.django_db(transaction=True)

ADD = "admin:routing_inboundsource_add"


@pytest.fixture(autouse=True)
def _nothing_remembered() -> None:
    cache.clear()


@pytest.fixture
def staff() -> Client:
    return logged_in()


def given(source: InboundSource, **more: object) -> dict[str, object]:
    """What the form of a source sends as it stands."""
    switches = {name: "on" for name in ("active", "sticky_owner", "account_owner") if getattr(source, name)}
    hours = source.expects_within_h or ""
    return {
        "name": source.name,
        "slug": source.slug,
        "team": source.team_id,
        "expects_within_h": hours,
        **switches,
        **{f"map_{ours}": "\n".join(names) for ours, names in source.mapping.items()},
        **more,
    }


def page(client: Client, source: InboundSource) -> str:
    return client.get(page_of("routing_inboundsource", source.pk)).content.decode()


def new(client: Client, kind: str, **more: object):
    fields = {"name": "New", "slug": "new", "team": make_team().pk, "active": "on", "kind": kind, **more}
    return client.post(reverse(ADD), fields, follow=True)


def test_a_source_whose_sender_makes_the_secret_wants_it_and_keeps_it(staff):
    refused = new(staff, "hubspot")
    assert "The client secret of the HubSpot app" in str(refused.context["errors"])
    new(staff, "hubspot", new_secret="their-secret", new_api_token="their-token")
    source = InboundSource.objects.get()
    assert (source.kind, source.secret, source.api_token) == ("hubspot", "their-secret", "their-token")


def test_a_source_of_a_kind_with_a_handshake_gets_a_verify_token(staff):
    new(staff, "meta", new_secret="app-secret")
    source = InboundSource.objects.get()
    assert len(source.verify_token) == 24 and source.verify_token in page(staff, source)


@pytest.mark.parametrize("kind", ["standard", "generic", "typeform", "calendly", "segment"])
def test_for_the_other_kinds_rota_makes_the_secret(staff, kind):
    new(staff, kind)
    assert InboundSource.objects.get().secret.startswith("whsec_")


def test_a_secret_for_standard_webhooks_must_be_one(staff):
    assert "whsec_" in str(new(staff, "standard", new_secret="short").context["errors"])


def test_a_new_secret_is_taken_beside_the_one_until_now(staff):
    source = make_source_of("meta")
    hands_on(staff, page_of("routing_inboundsource", source.pk), given(source, new_secret="the-next"))
    after = InboundSource.objects.get()
    assert (after.secret, after.previous_secret) == ("the-next", source.secret)


def test_rotating_leaves_sources_alone_whose_sender_makes_the_secret(staff):
    ours, theirs = make_source(), make_source_of("webflow")
    rotated = confirm(staff, "routing_inboundsource", "rotate_secret", ours.pk, theirs.pk)
    assert said(rotated) == ["Rotated 1. Skipped 1 whose sender makes the secret."]
    assert InboundSource.objects.get(pk=theirs.pk).secret == theirs.secret


def test_who_may_only_look_sees_neither_secret_nor_verify_token():
    source = make_source_of("meta", verify_token="our-verify-token", api_token="their-token")
    shown = page(logged_in(may=("view_inboundsource",)), source)
    assert "our-verify-token" not in shown and source.secret not in shown and "their-token" not in shown


def test_a_token_is_never_shown_and_an_empty_box_keeps_it(staff):
    source = make_source_of("hubspot", api_token="their-token")
    hands_on(staff, page_of("routing_inboundsource", source.pk), given(source, name="HubSpot"))
    assert InboundSource.objects.get().api_token == "their-token"
    assert "their-token" not in page(staff, source) and "There is one" in page(staff, source)


def test_a_new_token_is_tried_on_what_the_old_one_was_refused(staff):
    source = make_source_of("hubspot", api_token="dead")
    post(source, [contact_event(1)])
    Fetch.objects.update(due_at=None, trouble="token", said="HubSpot refused the token (401).")
    InboundEvent.objects.update(outcome="failed", because="HubSpot refused the token (401).")
    saved = hands_on(staff, page_of("routing_inboundsource", source.pk), given(source, new_api_token="fresh"))
    assert said(saved)[0] == "The new token is tried on 1 event."
    assert InboundEvent.objects.get().outcome == "fetching" and InboundSource.objects.get().api_token == "fresh"


def test_an_api_address_that_is_not_https_is_refused(staff):
    source = make_source_of("hubspot")
    fields = given(source, api_url="http://api.example")
    answer = staff.post(page_of("routing_inboundsource", source.pk), fields)
    assert "should begin with https" in str(answer.context["errors"])


def test_fields_are_mapped_one_name_a_line_and_saving_keeps_them(staff):
    source = make_source_of("webflow")
    url = page_of("routing_inboundsource", source.pk)
    hands_on(staff, url, given(source, map_email=" Wohin?  \n\nMail", map_company="org.name"))
    mapped = InboundSource.objects.get()
    assert mapped.mapping == {"email": ["Wohin?", "Mail"], "company": ["org.name"]}
    hands_on(staff, url, given(mapped, name="Other"))
    assert InboundSource.objects.get().mapping == mapped.mapping
    hands_on(staff, url, given(mapped, map_email="", map_company=""))
    assert InboundSource.objects.get().mapping == {}


def test_too_many_names_are_refused(staff):
    source = make_source()
    fields = given(source, map_email="\n".join(f"n{number}" for number in range(21)))
    assert "20 names" in str(staff.post(page_of("routing_inboundsource", source.pk), fields).context["errors"])


def test_the_page_shows_what_the_last_event_makes_and_what_is_wrong_with_it(staff):
    source = make_source_of("webflow")
    data = {"Wohin?": "pat@acme.example", "First Name": "Pat", "Budget": {"from": 5}}
    post(source, {"triggerType": "form_submission", "payload": {"id": "s1", "data": data}})
    shown = page(staff, source)
    assert "No lead: email is missing" in shown and "Budget.from" in shown
    InboundSource.objects.update(mapping={"email": ["Wohin?"]})
    shown = page(staff, source)
    assert "No lead" not in shown and 'class="state ok">email<' in shown and 'class="state ok">first name<' in shown


def test_who_may_not_see_events_sees_no_preview():
    source = make_source_of("calendly")
    post(source, {"event": "invitee.created", "payload": {"uri": "u", "email": "pat@acme.example", "name": "P"}})
    assert "pat@acme.example" not in page(logged_in(may=("view_inboundsource",)), source)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_its_page_and_says_how_to_connect_it(staff, kind):
    source = make_source_of(kind, verify_token="ours")
    shown = page(staff, source)
    assert KINDS[kind].how[:20] in shown and KINDS[kind].label in shown


def test_a_kind_is_chosen_once(staff):
    source = make_source_of("meta")
    hands_on(staff, page_of("routing_inboundsource", source.pk), given(source, kind="generic"))
    assert InboundSource.objects.get().kind == "meta"


def test_an_expectation_is_watched_from_when_it_was_set_and_a_silent_source_is_seen_everywhere(staff):
    source = make_source()
    InboundSource.objects.update(watched_from="2026-01-01T00:00:00Z")
    hands_on(staff, page_of("routing_inboundsource", source.pk), given(source, expects_within_h=3))
    row = InboundSource.objects.get()
    assert row.expects_within_h == 3 and (timezone.now() - row.watched_from).total_seconds() < 60
    InboundSource.objects.update(silent_since=timezone.now() - timedelta(hours=5))
    cache.clear()
    home = staff.get("/admin/").content.decode()
    assert "Nothing comes from" in home and source.name in home
    assert "silent for 5 h" in staff.get(listed("routing_inboundsource")).content.decode()
    assert "Nothing came since" in page(staff, source)


# Events


def test_refused_events_are_counted_on_home_and_replayed_from_the_list(staff):
    source = make_source_of("webflow")
    for number in (1, 2):
        data = {"Wohin?": f"pat{number}@acme.example"}
        post(source, {"triggerType": "form_submission", "payload": {"id": f"s{number}", "data": data}})
    assert "Events without a lead" in staff.get("/admin/").content.decode()
    shown = staff.get(listed("routing_inboundevent") + "?outcome=stuck").content.decode()
    assert shown.count("email is missing") == 2
    InboundSource.objects.update(mapping={"email": ["Wohin?"]})
    ids = list(InboundEvent.objects.values_list("pk", flat=True))
    assert said(confirm(staff, "routing_inboundevent", "replay_selected", *ids)) == ["Landed 2."]
    again = confirm(staff, "routing_inboundevent", "replay_selected", *ids)
    assert said(again) == ["Landed 0. Of the others 2 had theirs."]


def test_an_events_page_shows_the_fetch_and_offers_another_try(staff):
    source = make_source_of("hubspot")
    post(source, [contact_event(1)])
    Fetch.objects.update(due_at=None, attempts=3, trouble="gone", said="HubSpot does not have it (404).")
    InboundEvent.objects.update(outcome="failed", because="HubSpot does not have it (404).")
    event = InboundEvent.objects.get()
    shown = staff.get(page_of("routing_inboundevent", event.pk)).content.decode()
    assert "42001: 3 tries" in shown and "Replay" in shown
    told = confirm(staff, "routing_inboundevent", "replay_selected", event.pk)
    assert said(told) == ["Landed 0. Of the others 1 are asked for again."]


def test_who_may_only_look_at_events_replays_none():
    post(make_source_of("hubspot"), [contact_event(1)])
    looker = logged_in(may=("view_inboundevent",))
    event = InboundEvent.objects.get()
    confirm(looker, "routing_inboundevent", "replay_selected", event.pk)
    assert InboundEvent.objects.get().outcome == "fetching"
    assert "Replay" not in looker.get(page_of("routing_inboundevent", event.pk)).content.decode()


def test_a_delivery_of_several_events_says_how_many_and_a_pruned_one_that_it_is_too_old(staff):
    source = make_source_of("hubspot")
    post(source, [contact_event(1), contact_event(2)])
    assert "2 events" in staff.get(listed("routing_delivery")).content.decode()
    delivery = source.deliveries.get()
    type(delivery).objects.update(body=None, pruned_at=timezone.now())
    assert "Forgotten: it is too old." in staff.get(page_of("routing_delivery", delivery.pk)).content.decode()
