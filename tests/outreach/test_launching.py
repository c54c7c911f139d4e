"""Launching: a frozen list, everybody once, and nothing sent that would have a hole in it."""

import threading
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from outreach.errors import LaunchRefused, SameListAndContent, WrongState
from outreach.flows.launching import Launched, enrol_more, launch
from outreach.flows.sent_before import SENT_BEFORE, sent_before
from outreach.models import Campaign, Enrolment, Message, Recipient, SendAttempt, Suppression
from outreach.moves.campaigns import finish_done, pause, resume, start_due
from outreach.moves.claims import claim_batch
from outreach.moves.gate import Begun
from routing.models import Lead
from tests.outreach.make import at_gate, hold, make_campaign, make_leads, make_running, make_step, switched_on

pytestmark = pytest.mark.django_db(transaction=True)


def go(campaign: Campaign, leads: Any, **more: Any) -> Launched:
    return launch(campaign_id=campaign.pk, leads=leads, by="Pat", **more)


def ids(leads: list[Lead]) -> list[int]:
    return [lead.pk for lead in leads]


def test_a_launch_freezes_the_leads_of_a_filter_and_plans_their_first_mail() -> None:
    leads = make_leads(3)
    campaign = make_campaign(steps=2)
    assert go(campaign, Lead.objects.filter(first_name="Ann")).enrolled == 3
    make_leads(2)
    campaign.refresh_from_db()
    assert (campaign.status, campaign.launched_by) == ("running", "Pat")
    assert sorted(campaign.enrolments.values_list("lead_id", flat=True)) == ids(leads)
    assert Message.objects.filter(step__order=1, status="due").count() == Message.objects.count() == 3


def test_launching_twice_and_enrolling_twice_adds_nobody_twice() -> None:
    leads = make_leads(3)
    campaign = make_campaign()
    go(campaign, ids(leads))
    assert go(campaign, ids(leads)).again
    more = make_leads(1)
    assert enrol_more(campaign_id=campaign.pk, leads=ids(leads + more)).enrolled == 1
    assert enrol_more(campaign_id=campaign.pk, leads=ids(leads + more)) == Launched(0, {"enrolled before": 4})
    assert Enrolment.objects.count() == Message.objects.count() == 4


def test_one_address_gets_one_mail_whatever_number_of_leads_has_it() -> None:
    leads = make_leads(2)
    Lead.objects.filter(pk=leads[1].pk).update(email=leads[0].email.upper())
    launched = go(make_campaign(), ids(leads))
    assert launched == Launched(1, {"address twice in the list": 1})


def test_who_cannot_be_mailed_is_left_out_and_counted() -> None:
    leads = make_leads(5)
    Lead.objects.filter(pk=leads[0].pk).update(email="", phone="+33123456789")
    Lead.objects.filter(pk=leads[1].pk).update(email="not an address")
    Lead.objects.filter(pk=leads[2].pk).update(first_name="Ann\r\nBcc: x@ex.example")
    recipient = Recipient.objects.create(key=leads[3].email)
    Suppression.objects.create(recipient=recipient, reason="asked")
    campaign = make_campaign(steps=0)
    make_step(campaign, subject="Hi {{ lead.first_name }}")
    launched = go(campaign, ids(leads))
    assert launched.enrolled == 1
    assert launched.skipped == {
        "no e-mail address": 1,
        "no mail can be sent to the address": 1,
        "a value would break the subject line": 1,
        "suppressed": 1,
    }


def test_missing_values_and_unknown_names_are_refused_with_counts_before_anything_is_written() -> None:
    leads = make_leads(3)
    Lead.objects.filter(pk=leads[0].pk).update(first_name="")
    campaign = make_campaign(steps=0)
    step = make_step(campaign, body="Dear {{ lead.first_name }} of {{ lead.company }}")
    with pytest.raises(LaunchRefused) as refusal:
        go(campaign, ids(leads))
    assert refusal.value.problems == {"leads without lead.company": 3, "leads without lead.first_name": 1}
    step.body = "Dear {{ lead.nickname }}"
    step.save()
    with pytest.raises(LaunchRefused, match=r"step 1: .*lead.nickname"):
        go(campaign, ids(leads))
    assert not Enrolment.objects.exists() and Campaign.objects.get().status == "draft"


def test_a_campaign_without_steps_or_without_anybody_is_refused() -> None:
    with pytest.raises(WrongState):
        go(make_campaign(steps=0), ids(make_leads(1)))
    with pytest.raises(LaunchRefused):
        go(make_campaign(), [])


def same_again(first: Campaign) -> Campaign:
    copy = make_campaign(steps=0, name="The same in another tab")
    for step in first.steps.all():
        make_step(copy, order=step.order, subject=step.subject, body=step.body)
    return copy


def test_the_same_list_and_content_again_is_refused_unless_somebody_says_why() -> None:
    leads = ids(make_leads(3))
    first = make_campaign()
    go(first, leads)
    second = same_again(first)
    with pytest.raises(SameListAndContent):
        go(second, list(reversed(leads)))
    assert not second.enrolments.exists()
    assert go(second, leads, override_reason="the first had the wrong sender").enrolled == 3
    assert go(same_again(first), leads[:2]).enrolled == 2  # another list; the gate looks at each address


def sent_to_all(campaign: Campaign) -> None:
    switched_on()
    held = hold(campaign)
    for message in held.messages:
        assert isinstance(at_gate(held, message), Begun)


def test_who_got_the_same_content_from_another_campaign_is_left_out_with_its_name() -> None:
    leads = ids(make_leads(5))
    first = make_campaign(name="Spring")
    go(first, leads[:3])
    sent_to_all(first)

    second = same_again(first)
    launched = go(second, leads)

    assert (launched.enrolled, launched.skipped) == (2, {"got the same content from Spring": 3})
    gates = hold(second)
    assert [isinstance(at_gate(gates, message), Begun) for message in gates.messages] == [True, True]
    assert enrol_more(campaign_id=second.pk, leads=leads).skipped["got the same content from Spring"] == 3


def test_a_reason_enrols_also_those_who_got_the_same_content_before() -> None:
    leads = ids(make_leads(3))
    first = make_campaign()
    go(first, leads[:2])
    sent_to_all(first)

    launched = go(same_again(first), leads, override_reason="the first had the wrong sender")

    assert (launched.enrolled, launched.skipped) == (3, {})
    assert launched.but == {"quiet period after a mail of another campaign, at first": 2}


def test_a_list_of_which_everybody_got_the_content_is_refused_as_the_same_whatever_was_sent_meanwhile() -> None:
    leads = ids(make_leads(3))
    first = make_campaign()
    go(first, leads)
    sent_to_all(first)
    for again in (leads, leads[:2]):
        with pytest.raises(SameListAndContent):
            go(same_again(first), again)
    assert Enrolment.objects.count() == 3


def test_a_launch_counts_who_waits_for_the_quiet_period_and_who_does_not_by_then(settings: Any) -> None:
    leads = ids(make_leads(3))
    first = make_campaign()
    go(first, leads[:2])
    sent_to_all(first)
    waits = {"quiet period after a mail of another campaign, at first": 2}
    assert go(make_campaign(), leads).but == waits

    SendAttempt.objects.update(begun_at=timezone.now() - timedelta(hours=settings.QUIET_PERIOD_H - 1))
    assert go(make_campaign(), leads).but == waits
    late = make_campaign(starts_at=timezone.now() + timedelta(hours=2))
    assert go(late, leads).but == {}


def test_a_launch_counts_whose_sequence_ends_early_and_who_is_still_to_get_the_content() -> None:
    leads = ids(make_leads(4))
    first, second = make_campaign(name="Spring"), make_campaign(name="Summer")
    go(first, leads[:2])
    sent_to_all(first)
    go(second, leads[2:3])
    campaign = make_campaign()
    for order, step in enumerate((first.steps.get(), second.steps.get()), start=2):
        make_step(campaign, order=order, subject=step.subject, body=step.body)

    launched = go(campaign, leads)

    assert launched.enrolled == 4
    assert launched.but == {
        "a later mail has the same content as one they got from Spring: it ends there": 2,
        "quiet period after a mail of another campaign, at first": 2,
        "the same content is due to them from Summer: they get it once": 1,
    }


def test_what_was_sent_before_is_asked_in_one_statement_by_index_whatever_the_size_of_the_list() -> None:
    leads, first = ids(make_leads(5)), make_campaign()
    go(first, leads[:3])
    sent_to_all(first)
    keys = list(Recipient.objects.values_list("key", flat=True))
    digests = list(first.steps.values_list("digest", flat=True))
    campaign = make_campaign()
    with CaptureQueriesContext(connection) as asked:
        found = sent_before(campaign_id=campaign.pk, digests=digests, keys=[*keys, *(f"{n}@x" for n in range(5_000))])
    assert len(asked) == 1 and {key: one.first for key, one in found.items()} == dict.fromkeys(keys, first.name)

    with connection.cursor() as cursor:
        cursor.execute("SET enable_seqscan = off")
        values: dict[str, Any] = {"campaign": campaign.pk, "first": digests[0], "later": [], "digests": digests}
        cursor.execute(f"EXPLAIN {SENT_BEFORE}", values | {"keys": keys, "quiet": 1})
        plan = "\n".join(line for (line,) in cursor.fetchall())
        cursor.execute("RESET enable_seqscan")
    assert "Seq Scan" not in plan, plan


def test_two_agents_who_launch_the_same_list_at_once_launch_it_once() -> None:
    leads = ids(make_leads(5))
    first = make_campaign()
    second = same_again(first)
    barrier, results = threading.Barrier(2), []

    def agent(campaign: Campaign) -> None:
        try:
            barrier.wait()
            results.append(go(campaign, leads).enrolled)
        except SameListAndContent:
            results.append(0)
        finally:
            connection.close()

    threads = [threading.Thread(target=agent, args=(campaign,)) for campaign in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [0, 5]
    assert Enrolment.objects.count() == 5


def test_one_campaign_launched_by_two_at_once_enrols_everybody_once() -> None:
    leads = ids(make_leads(5))
    campaign = make_campaign()
    barrier, results = threading.Barrier(2), []

    def agent() -> None:
        barrier.wait()
        results.append(go(campaign, leads).enrolled)
        connection.close()

    threads = [threading.Thread(target=agent) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [0, 5]


def test_a_scheduled_campaign_starts_when_its_time_has_come() -> None:
    switched_on()
    campaign = make_campaign(starts_at=timezone.now() + timedelta(hours=1))
    go(campaign, ids(make_leads(1)))
    campaign.refresh_from_db()
    assert campaign.status == "scheduled" and start_due() == 0
    assert claim_batch(campaign_id=campaign.pk, worker="w", size=5, lease_s=60) is None
    Campaign.objects.update(starts_at=timezone.now())
    Message.objects.update(due_at=timezone.now())
    assert start_due() == 1
    assert claim_batch(campaign_id=campaign.pk, worker="w", size=5, lease_s=60) is not None


def test_pause_and_resume_say_whether_they_did_anything() -> None:
    campaign = make_running()
    assert pause(campaign_id=campaign.pk) and not pause(campaign_id=campaign.pk)
    assert claim_batch(campaign_id=campaign.pk, worker="w", size=5, lease_s=60) is None
    assert resume(campaign_id=campaign.pk) and not resume(campaign_id=campaign.pk)


def test_a_campaign_with_a_mail_in_doubt_is_not_finished() -> None:
    campaign = make_running()
    Enrolment.objects.update(ended_at=timezone.now(), end_reason="replied")
    Message.objects.update(status="in_doubt")
    assert finish_done() == 0
    Message.objects.update(status="cancelled", reason="replied")
    assert finish_done() == 1
    with pytest.raises(WrongState):
        enrol_more(campaign_id=campaign.pk, leads=ids(make_leads(1)))


def test_a_list_of_thousands_is_enrolled_in_one_transaction() -> None:
    leads = make_leads(2_500)
    assert go(make_campaign(), ids(leads)).enrolled == 2_500
    with transaction.atomic():
        assert Message.objects.count() == 2_500
