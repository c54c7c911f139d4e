"""Sources and their secrets in the admin, and the facts nobody can touch there."""

import pytest
from django.core.cache import cache
from django.test import Client
from django.urls import reverse

from routing.models import InboundSource
from tests.make import make_member, make_source, make_team
from tests.staff import confirm, hands_on, listed, logged_in, page_of, said

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _nothing_remembered() -> None:
    cache.clear()


@pytest.fixture
def staff() -> Client:
    return logged_in()


@pytest.mark.parametrize("model", ["lead", "assignment", "inboundevent", "delivery"])
def test_facts_cannot_be_added_changed_or_deleted(staff, model):
    assert staff.get(reverse(f"admin:routing_{model}_add")).status_code == 403
    assert "delete_selected" not in staff.get(listed(f"routing_{model}")).content.decode()


@pytest.mark.parametrize("model", ["team", "rep", "membership", "inboundsource"])
def test_what_was_used_is_retired_and_not_deleted(staff, model):
    member = make_member(team=make_team())
    make_source(team=member.team)
    row = {"team": member.team, "rep": member.rep, "membership": member}.get(model) or InboundSource.objects.get()

    assert staff.post(reverse(f"admin:routing_{model}_delete", args=[row.pk]), {"post": "yes"}).status_code == 403


def test_a_new_source_gets_an_address_and_a_secret(staff):
    team = make_team()

    hands_on(
        staff,
        reverse("admin:routing_inboundsource_add"),
        {"name": "Web", "slug": "web", "team": team.pk, "active": "on"},
    )

    source = InboundSource.objects.get()
    page = staff.get(page_of("routing_inboundsource", source.pk)).content.decode()
    assert source.secret.startswith("whsec_")
    assert "http://testserver/in/web" in page
    assert source.secret in page


def test_who_may_only_look_at_a_source_does_not_see_its_secret():
    source = make_source()
    looker = logged_in(may=("view_inboundsource",))

    page = looker.get(page_of("routing_inboundsource", source.pk)).content.decode()

    assert source.secret not in page
    assert "/in/" in page


def test_rotating_keeps_the_old_secret_good_until_it_is_dropped(staff):
    source = make_source()

    rotated = confirm(staff, "routing_inboundsource", "rotate_secret", source.pk)
    after = InboundSource.objects.get()
    dropped = confirm(staff, "routing_inboundsource", "drop_previous_secret", source.pk)

    assert (said(rotated), said(dropped)) == (["Rotated 1."], ["Dropped 1."])
    assert after.previous_secret == source.secret
    assert after.secret != source.secret
    assert InboundSource.objects.get().previous_secret == ""


def test_saving_a_source_leaves_its_secrets_alone(staff):
    source = make_source()
    given = {"name": "Other", "slug": source.slug, "team": source.team_id}

    hands_on(staff, page_of("routing_inboundsource", source.pk), given)

    changed = InboundSource.objects.get()
    assert (changed.name, changed.active, changed.secret) == ("Other", False, source.secret)
