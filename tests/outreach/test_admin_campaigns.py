"""Campaigns by form: a draft and its mails, the preview, the launch that asks, and stopping."""

from datetime import timedelta
from typing import Any

import pytest
from django.core.cache import cache
from django.db import connection, transaction
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from outreach.errors import ChangedMeanwhile, WrongState
from outreach.flows import launching
from outreach.models import Campaign, Enrolment, Message, Recipient, Step, Suppression
from outreach.moves import campaigns
from routing.models import Lead, LeadAddress
from tests.crmsync.sandbox_org import SandboxOrg
from tests.outreach.make import at_gate, hold, make_campaign, make_leads, make_running, make_step
from tests.staff import ask, confirm, hands_on, listed, logged_in, page_of, said

pytestmark = pytest.mark.django_db(transaction=True)
CAMPAIGN = "outreach_campaign"


@pytest.fixture(autouse=True)
def _nothing_remembered() -> None:
    cache.clear()


@pytest.fixture
def staff() -> Client:
    return logged_in()


def form_of(*steps: dict[str, Any], initial: int = 0, **fields: Any) -> dict[str, Any]:
    given: dict[str, Any] = {
        "name": "Spring",
        "from_name": "Pat",
        "from_address": "pat@rota.example",
        "zone": "Europe/Paris",
    }
    given |= {"window_in": "campaign", **fields}
    given |= {"steps-TOTAL_FORMS": len(steps), "steps-INITIAL_FORMS": initial}
    for number, step in enumerate(steps):
        step = {"order": number + 1, "days": 0, "hours": 0, "subject": "Hi", "body": "Hello", **step}
        given |= {f"steps-{number}-{name}": value for name, value in step.items()}
    return given


def own(name: str, campaign: Campaign) -> str:
    return reverse(f"admin:outreach_campaign_{name}", args=[campaign.pk])


def choose(staff: Client, campaign: Campaign, **given: Any) -> Any:
    return staff.post(own("launch", campaign), given)


def press(staff: Client, shown: Any, campaign: Campaign, *, reason: str = "", **given: Any) -> Any:
    given |= {"confirmed": "yes", "as_shown": shown.context["as_shown"], "reason": reason}
    return staff.post(own("launch", campaign), given, follow=True)


def test_a_draft_is_written_with_its_mails_and_changed_again(staff: Client) -> None:
    later = {"days": 3, "hours": 2, "subject": "Still {{ lead.company|default:'there' }}?"}
    hands_on(
        staff, reverse("admin:outreach_campaign_add"), form_of({}, later, window_from="09:00", window_until="17:00")
    )

    campaign = Campaign.objects.get()
    assert [step.delay for step in campaign.steps.order_by("order")] == [timedelta(0), timedelta(days=3, hours=2)]

    first, second = campaign.steps.order_by("order")
    changed = form_of(
        {"id": first.pk, "body": "Bye"}, {"id": second.pk, **later}, initial=2, daily_pace=10, window_in="lead"
    )
    hands_on(staff, page_of(CAMPAIGN, campaign.pk), changed)

    campaign.refresh_from_db()
    assert (campaign.daily_pace, campaign.window_in, campaign.steps.get(order=1).body) == (10, "lead", "Bye")
    assert campaign.steps.get(order=2).delay == timedelta(days=3, hours=2)


@pytest.mark.parametrize(
    ("step", "fields", "says"),
    [
        ({"body": "{% now 'Y' %}"}, {}, "The template cannot be used."),
        ({"subject": "{{ settings.SECRET_KEY }}"}, {}, "There is no settings.SECRET_KEY."),
        ({}, {"window_from": "09:00"}, "both ends"),
        ({}, {"zone": "Paris"}, "not a time zone"),
    ],
)
def test_what_could_not_be_sent_is_refused_when_written(staff: Client, step: Any, fields: Any, says: str) -> None:
    answer = staff.post(reverse("admin:outreach_campaign_add"), form_of(step, **fields))

    assert says in answer.content.decode().replace("&#x27;", "'")
    assert not Campaign.objects.exists()


def test_what_was_launched_is_frozen_on_its_page_and_under_an_open_form(staff: Client) -> None:
    campaign = make_running()
    page = staff.get(page_of(CAMPAIGN, campaign.pk)).content.decode()
    assert "Progress" in page
    assert 'name="steps-0-body"' not in page
    assert staff.post(page_of(CAMPAIGN, campaign.pk), form_of({}, name="Other")).status_code == 403

    with pytest.raises(WrongState), transaction.atomic():
        campaigns.hold_draft(campaign_id=campaign.pk)


@pytest.mark.parametrize("day", ["9999-12-31", "9999-12-30", "0001-01-01"])
def test_the_launch_page_takes_every_day_of_the_calendar(staff: Client, day: str) -> None:
    campaign = make_campaign()
    make_leads(2)
    url = reverse("admin:outreach_campaign_launch", args=[campaign.pk])
    assert staff.post(url, {"until": day, "everybody": "on"}).status_code == 200
    assert staff.post(url, {"since": day}).status_code == 200


def test_a_form_sent_just_after_the_launch_changes_nothing_and_says_so(
    staff: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign, leads = make_campaign(), make_leads(1)
    hold_draft = campaigns.hold_draft

    def late(*, campaign_id: int) -> None:
        Campaign.objects.filter(pk=campaign_id).update(
            status="running", launched_at=leads[0].created_at, audience_digest="a", content_digest="c"
        )
        hold_draft(campaign_id=campaign_id)

    monkeypatch.setattr(campaigns, "hold_draft", late)
    given = form_of({"id": campaign.steps.get().pk, "body": "Sneaked in"}, initial=1)
    answer = staff.post(page_of(CAMPAIGN, campaign.pk), given, follow=True)

    assert "It was launched meanwhile" in said(answer)[0]
    assert campaign.steps.get().body != "Sneaked in"


def test_a_mail_that_is_edited_during_the_launch_is_never_sent_unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    campaign, leads = make_campaign(), make_leads(2)
    real = launching.audience

    def slow(**given: Any) -> Any:
        Step.objects.update(body="Something else")
        return real(**given)

    monkeypatch.setattr(launching, "audience", slow)
    with pytest.raises(ChangedMeanwhile):
        launching.launch(campaign_id=campaign.pk, leads=[lead.pk for lead in leads], by="Pat")
    assert not Enrolment.objects.exists()
    assert Campaign.objects.get().status == "draft"


def test_the_preview_is_the_mail_with_its_way_out_and_names_what_a_lead_lacks(staff: Client) -> None:
    (lead,) = make_leads(1)
    campaign = make_campaign()
    make_step(campaign, order=2, body="{{ lead.company }}")

    page = staff.get(own("preview", campaign), {"lead": f"#{lead.pk}"}).content.decode()

    assert "Hello Ann" in page
    assert "/unsubscribe/" in page
    assert "This lead has no lead.company" in page


def test_a_launch_shows_how_many_and_then_enrols_exactly_those(staff: Client) -> None:
    leads = make_leads(3)
    Suppression.objects.create(recipient=Recipient.objects.create(key=leads[0].email), reason="asked")
    campaign = make_campaign()
    given = {"team": leads[0].team_id}

    shown = choose(staff, campaign, **given)
    assert "<strong>2</strong> of 3" in shown.content.decode()
    assert not Enrolment.objects.exists()

    answer = press(staff, shown, campaign, **given)
    assert said(answer) == ["Launched: enrolled 2 leads. Skipped 1 suppressed."]
    campaign.refresh_from_db()
    assert (campaign.status, campaign.launched_by, Enrolment.objects.count()) == ("running", "robin", 2)
    assert said(press(staff, shown, campaign, **given)) == ["It was launched before. Nothing was done."]


def test_leads_that_arrive_after_the_count_are_not_enrolled_unseen(staff: Client) -> None:
    leads, campaign = make_leads(1), make_campaign()
    given = {"team": leads[0].team_id}
    shown = choose(staff, campaign, **given)
    Lead.objects.create(team_id=leads[0].team_id, email="late@acme.example", first_name="Late")

    answer = press(staff, shown, campaign, **given)

    assert "Look at it again." in said(answer)[0]
    assert "<strong>2</strong> of 2" in answer.content.decode()
    assert not Enrolment.objects.exists()


def test_a_pasted_list_of_numbers_and_addresses_says_whom_it_does_not_know(staff: Client) -> None:
    leads, campaign = make_leads(3), make_campaign()
    LeadAddress.objects.create(lead=leads[1], kind="email", value=leads[1].email)
    text = f"#{leads[0].pk}, {leads[1].email.upper()}\nnobody@acme.example; 999999999"

    shown = choose(staff, campaign, listed=text)

    assert "<strong>2</strong> of 2" in shown.content.decode()
    assert shown.context["unknown"] == ("nobody@acme.example", "999999999")


def test_an_empty_filter_and_a_value_that_leads_lack_are_refused_with_the_reason(staff: Client) -> None:
    leads, campaign = make_leads(2), make_campaign()
    assert "not taken for everybody" in choose(staff, campaign, team="").content.decode()

    make_step(campaign, order=2, body="{{ lead.company }}")
    page = choose(staff, campaign, team=leads[0].team_id)

    assert "leads without lead.company: 2" in page.content.decode()
    assert page.context["planned"] is None


def test_the_same_list_and_content_again_wants_a_reason(staff: Client) -> None:
    leads = make_leads(2)
    first, again = make_campaign(steps=0), make_campaign(steps=0)
    for campaign in (first, again):
        make_step(campaign)
    given = {"team": leads[0].team_id}
    press(staff, choose(staff, first, **given), first, **given)

    shown = choose(staff, again, **given)
    assert first.name in shown.content.decode()
    refused = press(staff, shown, again, **given)
    assert said(refused)[0].startswith("The same list was already launched with the same content.")
    assert Enrolment.objects.filter(campaign=again).count() == 0

    press(staff, shown, again, reason="The first had no effect", **given)
    again.refresh_from_db()
    assert (again.status, again.override_reason) == ("running", "The first had no effect")


def test_pause_and_resume_ask_first_and_bite(staff: Client) -> None:
    campaign = make_running()
    held = hold(campaign)
    assert "will be" not in ask(staff, CAMPAIGN, "pause_selected", campaign.pk).context["question"].says

    assert said(confirm(staff, CAMPAIGN, "pause_selected", campaign.pk)) == ["Paused 1."]
    assert at_gate(held).reason == "campaign is not running"  # type: ignore[union-attr]
    assert said(confirm(staff, CAMPAIGN, "resume_selected", campaign.pk)) == ["Resumed 1."]
    campaign.refresh_from_db()
    assert campaign.status == "running"


def test_logging_in_the_crm_is_chosen_in_the_draft_and_turned_on_and_off_later(staff: Client, org: SandboxOrg) -> None:
    hands_on(staff, reverse("admin:outreach_campaign_add"), form_of({}, logs_activities="on"))
    assert Campaign.objects.get().logs_activities

    campaign = make_running()
    assert "log_selected" in staff.get(page_of(CAMPAIGN, campaign.pk)).content.decode()
    assert said(confirm(staff, CAMPAIGN, "log_selected", campaign.pk)) == ["Logging 1."]
    campaign.refresh_from_db()
    assert campaign.logs_activities
    assert said(confirm(staff, CAMPAIGN, "log_selected", campaign.pk)) == ["Logging 0. Skipped 1 logged already."]
    assert said(confirm(staff, CAMPAIGN, "stop_logging_selected", campaign.pk)) == ["Stopped logging 1."]


def test_whoever_chooses_logging_is_told_at_once_that_the_org_would_refuse_tasks(
    staff: Client, org: SandboxOrg, settings: Any
) -> None:
    settings.CRM_EXTERNAL_ID_FIELD = "Other_Id__c"
    refuses = "Mails cannot be logged in the CRM as it is: Task has no field Other_Id__c"
    answer = hands_on(staff, reverse("admin:outreach_campaign_add"), form_of({}, logs_activities="on"))
    assert any(refuses in text for text in said(answer))
    campaign = make_running()
    assert refuses in said(confirm(staff, CAMPAIGN, "log_selected", campaign.pk))[0]
    settings.CRM_URL = ""
    confirm(staff, CAMPAIGN, "stop_logging_selected", campaign.pk)
    assert "The org was not asked" in said(confirm(staff, CAMPAIGN, "log_selected", campaign.pk))[0]


def test_finishing_takes_everybody_out_and_leaves_what_is_on_its_way(staff: Client) -> None:
    campaign = make_running(leads=3, steps=2)
    held = hold(campaign, size=2)
    at_gate(held)

    answer = confirm(staff, CAMPAIGN, "finish_selected", campaign.pk)

    assert said(answer)[0].startswith("Finished 0. Took out 3 leads. 1 will be finished")
    assert sorted(Message.objects.values_list("status", flat=True)) == ["begun", "cancelled", "cancelled"]
    assert not Enrolment.objects.filter(ended_at=None).exists()


def test_a_campaign_in_which_nothing_is_on_its_way_is_finished_at_once_even_paused(staff: Client) -> None:
    campaign = make_running(leads=2)
    confirm(staff, CAMPAIGN, "pause_selected", campaign.pk)

    assert said(confirm(staff, CAMPAIGN, "finish_selected", campaign.pk)) == ["Finished 1. Took out 2 leads."]
    campaign.refresh_from_db()
    assert campaign.status == "finished"


@pytest.mark.parametrize("paused", [False, True])
def test_a_campaign_that_waits_for_its_day_is_finished_at_once(staff: Client, paused: bool) -> None:
    campaign = make_running(leads=2, starts_at=timezone.now() + timedelta(days=30))
    assert campaign.status == "scheduled"
    if paused:
        confirm(staff, CAMPAIGN, "pause_selected", campaign.pk)

    assert said(confirm(staff, CAMPAIGN, "finish_selected", campaign.pk)) == ["Finished 1. Took out 2 leads."]
    campaign.refresh_from_db()
    assert campaign.status == "finished"


def test_finishing_waits_for_nobody_and_says_who_stayed_in(staff: Client) -> None:
    campaign = make_running(leads=3)
    busy = campaign.enrolments.order_by("pk")[1]
    holder = connection.copy()
    holder.set_autocommit(False)
    try:
        with holder.cursor() as cursor:
            cursor.execute("SELECT FROM outreach_enrolment WHERE id = %s FOR NO KEY UPDATE", [busy.pk])
        answer = confirm(staff, CAMPAIGN, "finish_selected", campaign.pk)
    finally:
        holder.rollback()
        holder.close()

    assert "Took out 2 leads." in said(answer)[0]
    assert "1 lead just then being mailed stayed in: finish again." in said(answer)[0]
    assert said(confirm(staff, CAMPAIGN, "finish_selected", campaign.pk)) == ["Finished 1. Took out 1 lead."]


def test_who_may_only_look_neither_launches_nor_pauses() -> None:
    campaign, reader = make_campaign(), logged_in("reader", may=("view_campaign",))

    assert reader.get(own("launch", campaign)).status_code == 403
    assert reader.get(own("preview", campaign)).status_code == 200
    assert reader.get(page_of(CAMPAIGN, campaign.pk)).status_code == 200
    assert "pause_selected" not in reader.get(listed(CAMPAIGN)).content.decode()
