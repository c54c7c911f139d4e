"""The home page says what waits, what is late, what failed, and who got how much of what was due."""

import re
from datetime import timedelta
from decimal import Decimal

import pytest
from django.core.cache import cache
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone
from django.utils.html import strip_tags

from config.home import Row, numbers
from crmsync import outbox
from crmsync.desk.words import short
from crmsync.models import Attempt, Claim, FailureKind, OrgState, OutboxMessage
from outreach.models import Campaign, Enrolment, Message, Recipient, SendingState
from routing import members, turns
from routing.by_hand import assign_now
from routing.models import Lead, Membership, Team
from routing.models.team import SCALE
from tests.make import make_lead, make_member, make_rep, make_team
from tests.outreach.make import make_campaign, make_step
from tests.staff import logged_in

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _nothing_remembered() -> None:
    cache.clear()


def rows_of(team: Team) -> list[Row]:
    return next(table.rows for table in numbers().teams if table.team == team)


def make_message(name: str, **fields: object) -> OutboxMessage:
    with transaction.atomic():
        pk = outbox.enqueue(object="Contact", external_id=name, fields={"last_name": name})
    OutboxMessage.objects.filter(pk=pk).update(**fields)
    return OutboxMessage.objects.get(pk=pk)


def make_dead(name: str, kind: FailureKind) -> OutboxMessage:
    return make_message(name, status="dead", settled_at=timezone.now(), failure_kind=kind)


def test_an_empty_rota_says_so_in_every_number():
    seen = numbers()

    assert (seen.waiting, seen.set_aside, seen.lock_failures, seen.dead_letters) == ("0", "0", "0", "0")
    assert (seen.oldest_waiting, seen.overdue, seen.pauses, seen.teams) == ("", [], [], [])


def test_waiting_leads_are_counted_and_the_oldest_is_dated():
    team = make_team()
    make_lead(team=team, created_at=timezone.now() - timedelta(minutes=4, seconds=5))
    make_lead(team=team)
    aside = make_lead(team=team)
    turns.set_aside(lead_id=aside.pk, because="its turn failed")

    seen = numbers()

    assert (seen.waiting, seen.oldest_waiting, seen.set_aside) == ("2", "4 min", "1")
    assert (seen.last_hour, seen.last_day) == ("3", "3")
    assert seen.teams[0].waiting == "2"


def test_leads_of_yesterday_are_not_of_the_last_hour():
    team = make_team()
    make_lead(team=team, created_at=timezone.now() - timedelta(hours=5))
    make_lead(team=team, created_at=timezone.now() - timedelta(days=2))

    seen = numbers()

    assert (seen.last_hour, seen.last_day) == ("0", "1")


@pytest.mark.parametrize(("seconds", "late"), [(5, False), (45, True)])
def test_an_interactive_message_is_late_after_half_a_minute(seconds, late):
    make_message("ada", due_at=timezone.now() - timedelta(seconds=seconds))
    make_message("later", due_at=timezone.now() + timedelta(hours=1))

    (oldest,) = numbers().overdue

    assert (oldest.label, oldest.late, oldest.age.split(".")[0]) == ("Interactive", late, str(seconds))


def make_mass(*, seconds):
    with transaction.atomic():
        pk = outbox.enqueue(object="Contact", external_id="m", fields={"title": "x"}, priority=outbox.Priority.MASS)
    OutboxMessage.objects.filter(pk=pk).update(due_at=timezone.now() - timedelta(seconds=seconds))
    return OutboxMessage.objects.get(pk=pk)


def test_mass_rows_that_are_due_while_nothing_moves_are_shown_as_standing_still():
    make_mass(seconds=120)
    (oldest,) = numbers().overdue
    assert (oldest.late, oldest.words) == (False, "standing still")
    assert numbers().late
    page = logged_in().get(reverse("admin:index")).content.decode()
    assert '<small class="bad">standing still · mass update</small>' in page


@pytest.mark.parametrize("because", ["new", "moves", "paused", "stopped"])
def test_mass_rows_that_wait_for_a_reason_do_not_stand_still(because):
    row, now = make_mass(seconds=5 if because == "new" else 120), timezone.now()
    if because == "moves":
        claim = Claim.objects.create(worker="w", lease_until=now + timedelta(minutes=1))
        Attempt.objects.create(message=row, claim=claim, number=1, begun_at=now, ended_at=now, outcome="delivered")
    if because == "paused":
        pause_org(mass_paused_until=now + timedelta(hours=1), mass_paused_reason="calls run low")
    if because == "stopped":
        pause_org(stopped_at=now, stopped_by="ops", stopped_reason="release")
    assert [due.words for due in numbers().overdue] == ["in time"]


def test_lock_failures_are_counted_apart_from_other_dead_letters():
    make_dead("locked", FailureKind.CONTENTION)
    make_dead("refused", FailureKind.PERMANENT)
    make_dead("unknown", FailureKind.UNKNOWN)

    seen = numbers()

    assert (seen.lock_failures, seen.dead_letters) == ("1", "2")


def pause_org(**state):
    OrgState.objects.update_or_create(pk=1, defaults=state)


def notices(client=None):
    """What the page says above its numbers, in plain words."""
    page = (client or logged_in()).get(reverse("admin:index")).content.decode()
    return [" ".join(strip_tags(found).split()) for found in re.findall(r'<p class="notice[^"]*">(.*?)</p>', page)]


def test_every_pause_is_shown_with_its_reason_and_its_end():
    now = timezone.now()
    later = {name: now + timedelta(days=day) for day, name in enumerate(("all", "mass", "bulk"), start=2)}
    pause_org(
        stopped_at=now - timedelta(days=1), stopped_by="robin", stopped_reason="Release",
        paused_until=later["all"], paused_reason="Login refused",
        mass_paused_until=later["mass"], mass_paused_reason="<b>Low",
        bulk_paused_until=later["bulk"], bulk_paused_reason="Quota",
    )  # fmt: skip
    assert notices() == [
        f"Writing to the CRM was stopped by robin {short(now - timedelta(days=1))}, until somebody resumes: Release",
        f"Writing to the CRM is paused until {short(later['all'])}: Login refused",
        f"Mass updates wait until {short(later['mass'])}: &lt;b&gt;Low",
        f"No bulk jobs are begun until {short(later['bulk'])}: Quota",
    ]


def test_of_a_lesser_pause_the_page_says_what_goes_on_meanwhile():
    later = timezone.now() + timedelta(days=2)
    pause_org(
        mass_paused_until=later, mass_paused_reason="Low", bulk_paused_until=later, bulk_paused_reason="Quota"
    )  # fmt: skip
    assert notices() == [
        f"Mass updates wait until {short(later)}; what people wait for is sent: Low",
        f"No bulk jobs are begun until {short(later)}; mass updates go by smaller calls: Quota",
    ]


def test_a_pause_whose_time_has_passed_is_shown_only_where_the_org_has_still_to_take_a_request():
    past = timezone.now() - timedelta(seconds=1)
    pause_org(
        paused_until=past, paused_reason="Login refused", mass_paused_until=past, mass_paused_reason="Low",
        bulk_paused_until=past, bulk_paused_reason="Quota",
    )  # fmt: skip
    assert notices() == ["Writing to the CRM is paused until the next change has been tried: Login refused"]


def test_nothing_is_said_of_pauses_while_all_is_sent():
    client = logged_in()
    assert notices(client) == []
    pause_org(failures=0)
    assert notices(client) == []


def test_due_is_what_was_received_and_what_is_still_owed():
    team = make_team(weights=(2, 1))
    leads = [make_lead(team=team) for _ in range(7)]
    assign_now(lead_ids=[lead.pk for lead in leads])

    two, one = sorted(rows_of(team), key=lambda row: -row.seat.weight)

    assert two.received + one.received == 7
    assert two.due == pytest.approx(7 * 2 / 3)
    assert one.due == pytest.approx(7 / 3)
    assert {row.seat.last_turn for row in (two, one)} >= {7}


def test_received_counts_today_and_all_days_before():
    team = make_team(reps=1)
    first, second = (make_lead(team=team) for _ in range(2))
    assign_now(lead_ids=[first.pk, second.pk])
    first.assignments.update(assigned_at=timezone.now() - timedelta(days=3))

    assert rows_of(team)[0].received == 2


def test_the_bar_begins_in_the_middle_and_goes_left_for_who_is_behind():
    team = make_team(reps=2)
    ahead, behind = Membership.objects.filter(team=team).order_by("pk")
    Membership.objects.filter(pk=ahead.pk).update(lag=-SCALE // 2)
    Membership.objects.filter(pk=behind.pk).update(lag=5 * SCALE)

    by_member = {row.seat.membership_id: row for row in rows_of(team)}

    assert (by_member[ahead.pk].start, by_member[ahead.pk].width) == (61, 15)
    assert (by_member[behind.pk].start, by_member[behind.pk].width) == (1, 60)
    assert by_member[ahead.pk].words == "0.50 ahead"


def test_each_reason_to_be_absent_is_named_as_the_turn_names_it():
    team = make_team(outside_hours="wait")
    off, capped, out, gone, there = (make_member(team=team) for _ in range(5))
    now = timezone.now()
    with transaction.atomic():
        for member in (capped, out, gone, there):
            members.set_shifts(rep=member.rep, ranges=[(now - timedelta(hours=1), now + timedelta(hours=1))])
        members.set_shifts(rep=off.rep, ranges=[(now + timedelta(hours=3), now + timedelta(hours=9))])
        members.set_caps(rep=capped.rep, day_cap=0, week_cap=None, open_cap=None, zone="UTC")
        members.set_active(memberships=Membership.objects.filter(pk=out.pk), active=False)
        members.retire_reps(reps=type(gone.rep).objects.filter(pk=gone.rep_id))

    seats = {row.seat.membership_id: row.seat for row in rows_of(team)}

    reasons = {member.pk: seats[member.pk].why_not for member in (off, capped, out, gone, there)}
    assert list(reasons.values()) == ["off hours", "day cap", "takes no part", "retired", ""]
    assert seats[off.pk].back_at == pytest.approx(now + timedelta(hours=3), abs=timedelta(seconds=1))
    assert make_turn_and_see_who_is_skipped(team) == {str(off.pk): "off hours", str(capped.pk): "day cap"} | {
        str(gone.pk): "retired"
    }


def make_turn_and_see_who_is_skipped(team: Team) -> dict[str, str]:
    lead = make_lead(team=team)
    assign_now(lead_ids=[lead.pk])
    skipped: dict[str, str] = lead.assignments.get().roster.skipped
    return skipped


def test_the_fragment_is_for_staff_only(client):
    answer = client.get(reverse("admin:numbers"))

    assert answer.status_code == 302
    assert "/login/" in answer["Location"]


def test_the_page_asks_the_same_number_of_questions_for_three_teams_as_for_one():
    client = logged_in()
    make_team(reps=2)
    client.get(reverse("admin:numbers"))
    cache.clear()
    with CaptureQueriesContext(connection) as one:
        client.get(reverse("admin:numbers"))
    for _ in range(2):
        make_team(reps=5)
    make_rep()
    cache.clear()
    with CaptureQueriesContext(connection) as three:
        client.get(reverse("admin:numbers"))

    assert len(three) - len(one) <= 2, "only the waiting leads are counted team by team"
    assert len(three) < 25


def test_a_lead_given_to_nobody_changes_no_share():
    team = make_team(reps=2)
    make_lead(team=team)

    assert Lead.objects.waiting().count() == 1
    assert [Decimal(str(row.due)) for row in rows_of(team)] == [0, 0]


def test_campaign_mail_is_on_the_page_once_there_is_a_campaign(settings):
    settings.EMAIL_HOST = "relay.example"
    assert numbers().mail is None
    campaign = make_campaign()
    quiet = numbers().mail
    assert quiet is not None
    assert (quiet.due, quiet.oldest_due, quiet.in_doubt, quiet.off) == ("0", "", "0", "")

    lead = make_lead(team=make_team(), first_name="Ann")
    enrolled = Enrolment.objects.create(
        campaign=campaign, lead=lead, recipient=Recipient.objects.create(key=lead.email), address=lead.email
    )
    past = timezone.now() - timedelta(minutes=4, seconds=5)
    given = {"campaign": campaign, "enrolment": enrolled, "recipient": enrolled.recipient, "due_at": past}
    Message.objects.create(step=campaign.steps.get(), **given)
    Message.objects.create(step=make_step(campaign, order=2), status="in_doubt", **given)
    SendingState.objects.update_or_create(pk=1, defaults={"off_because": "Wrong price (Robin)"})
    assert numbers().mail.due == "0", "it is a draft"
    Campaign.objects.update(status="running", launched_at=past, audience_digest="a", content_digest="c")

    mail = numbers().mail
    assert (mail.due, mail.oldest_due, mail.in_doubt, mail.off) == ("1", "4 min", "1", "Wrong price (Robin)")
    page = logged_in().get(reverse("admin:index")).content.decode()
    assert "Wrong price (Robin)" in page
    assert page.index("<h2>Sources</h2>") < page.index("<h2>Outreach</h2>") < page.index("<h2>CRM</h2>")
