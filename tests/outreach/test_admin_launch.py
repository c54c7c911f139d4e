"""The launch page: whom it is for, by filter, list or file, and what it says before somebody confirms."""

from pathlib import Path
from typing import Any

import pytest
from django.core.cache import cache
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from outreach.errors import ChangedMeanwhile
from outreach.flows import launching
from outreach.models import Campaign, Enrolment
from routing.models import Lead
from tests.make import make_source, make_team
from tests.outreach.make import at_gate, hold, make_campaign, make_leads, make_step, switched_on
from tests.outreach.test_admin_campaigns import choose, own, press
from tests.outreach.test_audiences import known_leads
from tests.routing.files_of_leads import imported, table
from tests.staff import logged_in, said

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _fresh(settings: Any, tmp_path: Path) -> None:
    cache.clear()
    settings.IMPORT_DIR = str(tmp_path)


@pytest.fixture
def staff() -> Client:
    return logged_in()


def file_of(*rows: str) -> SimpleUploadedFile:
    return SimpleUploadedFile("list.csv", "\n".join(rows).encode(), "text/csv")


def carried(shown: Any) -> dict[str, Any]:
    """What the page that asks sends once more."""
    return dict(shown.context["carried"])


def test_the_count_says_who_got_the_same_content_from_which_campaign_and_a_reason_lets_them_in(staff: Client) -> None:
    leads = [lead.pk for lead in make_leads(5)]
    first = make_campaign(name="Spring")
    launching.launch(campaign_id=first.pk, leads=leads[:3], by="Pat")
    switched_on()
    held = hold(first)
    for message in held.messages:
        at_gate(held, message)
    again, third = (make_campaign(steps=0) for _ in range(2))
    for campaign in (again, third):
        make_step(campaign, body=first.steps.get().body)
    given = {"listed": " ".join(map(str, leads))}

    shown = choose(staff, again, **given)
    page = shown.content.decode()
    assert "<strong>2</strong> of 5" in page
    assert "3 left out: got the same content from Spring" in page
    assert "Reason to mail 3 the same content once more" in page
    answer = press(staff, shown, again, **given)
    assert said(answer) == ["Launched: enrolled 2 leads. Skipped 3 got the same content from Spring."]

    given = {"listed": " ".join(map(str, leads[:4]))}
    press(staff, choose(staff, third, **given), third, reason="Wrong sender", **given)
    assert (third.enrolments.count(), Campaign.objects.get(pk=third.pk).override_reason) == (4, "Wrong sender")


def test_the_count_says_how_many_leads_have_a_time_zone_of_their_own(staff: Client) -> None:
    leads, campaign = make_leads(3), make_campaign(zone="Europe/Paris", window_in="lead")
    Lead.objects.filter(pk=leads[0].pk).update(country="Japan")
    given = {"team": leads[0].team_id}
    shown = choose(staff, campaign, **given)
    assert "1 of them has a time zone of their own" in shown.content.decode()
    assert "for the others it is Europe/Paris" in shown.content.decode()
    assert "time zone of their own" not in choose(staff, make_campaign(), **given).content.decode()


def test_whoever_turns_the_window_to_the_leads_zone_during_the_launch_looks_again(monkeypatch: Any) -> None:
    campaign, leads = make_campaign(), make_leads(1)
    real = launching.audience

    def slow(**given: Any) -> Any:
        Campaign.objects.update(window_in="lead")
        return real(**given)

    monkeypatch.setattr(launching, "audience", slow)
    with pytest.raises(ChangedMeanwhile):
        launching.launch(campaign_id=campaign.pk, leads=[lead.pk for lead in leads], by="Pat")
    assert not Enrolment.objects.exists()


def test_an_import_is_one_more_part_of_the_filter(staff: Client) -> None:
    source, campaign = make_source(team=make_team(reps=1)), make_campaign()
    row = imported(table(("a@acme.example", "A"), ("b@acme.example", "B"), ("", "C")), source=source)
    make_leads(2)

    shown = choose(staff, campaign, imported=row.pk)
    assert "<strong>2</strong> of 2" in shown.content.decode()
    press(staff, shown, campaign, **carried(shown))

    assert set(campaign.enrolments.values_list("lead_id", flat=True)) == set(
        Lead.objects.filter(rows__of=row).values_list("pk", flat=True)
    )
    assert "leads.csv, 20" in staff.get(own("launch", make_campaign())).content.decode()


def test_a_file_is_counted_and_then_launched_as_it_was_shown_without_being_sent_again(staff: Client) -> None:
    leads, campaign = known_leads(3), make_campaign()
    rows = [f"{lead.email},Ann" for lead in leads[:2]]

    shown = choose(staff, campaign, file=file_of("E-mail,Name", *rows, "nobody@acme.example,Bo", ",Cy"))

    page = shown.content.decode()
    assert "<strong>2</strong> of 2" in page
    assert "<code>nobody@acme.example</code>: 1 left out" in page and "1 row without an e-mail address" in page
    assert len(shown.content) < 20_000 and not Enrolment.objects.exists()
    assert said(press(staff, shown, campaign, **carried(shown))) == ["Launched: enrolled 2 leads."]
    assert sorted(campaign.enrolments.values_list("lead_id", flat=True)) == [lead.pk for lead in leads[:2]]


def test_a_lead_of_the_file_that_comes_in_after_the_count_is_not_enrolled_unseen(staff: Client) -> None:
    known_leads(1)
    campaign, (lead,) = make_campaign(), known_leads(1)
    shown = choose(staff, campaign, file=file_of("email", lead.email, "late@acme.example"))
    late = make_leads(1)[0]
    Lead.objects.filter(pk=late.pk).update(email="late@acme.example")
    late.addresses.create(kind="email", value="late@acme.example")

    answer = press(staff, shown, campaign, **carried(shown))

    assert "Look at it again." in said(answer)[0] and "<strong>2</strong> of 2" in answer.content.decode()
    assert not Enrolment.objects.exists()


def test_a_file_with_a_broken_line_or_beside_a_pasted_list_is_refused_on_the_form(staff: Client) -> None:
    campaign, (lead,) = make_campaign(), known_leads(1)

    broken = choose(staff, campaign, file=file_of("email,name", f"{lead.email},Ann,3"))
    assert "Line 2: has 3 cells where the header has 2." in broken.content.decode()

    both = choose(staff, campaign, file=file_of("email", lead.email), listed=lead.email)
    assert "one of them" in both.content.decode()
    assert both.context["planned"] is None


def test_whoever_goes_back_chooses_anew_and_a_file_that_is_gone_is_asked_for_again(
    staff: Client, tmp_path: Path
) -> None:
    campaign, (lead,) = make_campaign(), known_leads(1)
    shown = choose(staff, campaign, file=file_of("email", lead.email))

    back = choose(staff, campaign, **carried(shown), back="1")
    assert carried(shown)["kept"] not in back.content.decode()

    for kept in tmp_path.glob("*.csv"):
        kept.unlink()
    gone = press(staff, shown, campaign, **carried(shown))
    assert "Choose it again." in gone.content.decode()
    assert "Enter a valid value." in choose(staff, campaign, kept="../../etc/passwd").context["form"].errors["kept"]
    assert not Enrolment.objects.exists()
