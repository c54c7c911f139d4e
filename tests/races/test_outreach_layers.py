"""Three layers keep two workers from mailing the same person: job lock, claim, gate. The gate alone is enough.

The layers are switched off here, by workers of this test that leave them out; the product has no such switch. The
negative control leaves out all three, and the harness sees the doubles.
"""

import threading
from collections import Counter
from typing import Any

import pytest
from django.db import connection, transaction

from outreach.flows.launching import launch
from outreach.models import Campaign, Claim, Message, OutreachEvent, SendAttempt, Suppression
from outreach.moves import job_lock
from outreach.moves.campaigns import pause
from outreach.moves.claims import Held, claim_batch
from outreach.moves.gate import Begun, Refused
from outreach.moves.settling import settle
from outreach.moves.suppression import suppress
from tests.outreach.make import ACCEPTED, at_gate, hold, make_campaign, make_message, make_running
from tests.races.test_outreach_claims import at_once

pytestmark = pytest.mark.django_db(transaction=True)

WORKERS, LEADS = 4, 12


class Relay:
    """Counts what is handed over."""

    def __init__(self) -> None:
        self.lock, self.taken = threading.Lock(), Counter[int]()

    def take(self, message: int) -> None:
        with self.lock:
            self.taken[message] += 1


def one_worker(number: int, *, campaign: Campaign, relay: Relay, with_job_lock: bool, shared: Held | None) -> None:
    """A sender that may leave out the job lock, and may work on a claim that others take for theirs as well."""
    token = job_lock.take(name="job", worker=f"w{number}", lease_s=60) if with_job_lock else None
    if with_job_lock and token is None:
        return
    while True:
        held = shared or claim_batch(campaign_id=campaign.pk, worker=f"w{number}", size=3, lease_s=60)
        if held is None:
            return
        for message in held.messages:
            gate = at_gate(held, message, worker=f"w{number}")
            if isinstance(gate, Begun):
                relay.take(message)
                settle(attempt_id=gate.attempt, outcome=ACCEPTED, worker=f"w{number}", token=held.token)
        if shared:
            return


def test_negative_control_without_any_layer_people_are_mailed_twice() -> None:
    campaign, relay = make_running(leads=LEADS), Relay()
    all_read = threading.Barrier(WORKERS)

    def naive(number: int) -> None:
        due = list(Message.objects.due().filter(campaign=campaign).values_list("pk", flat=True))
        all_read.wait()
        for message in due:
            relay.take(message)

    at_once(WORKERS, naive)
    assert max(relay.taken.values()) == WORKERS


@pytest.mark.parametrize("job_lock_on", [True, False], ids=["job lock on", "job lock off"])
@pytest.mark.parametrize("claims_on", [True, False], ids=["claims on", "claims off"])
def test_with_job_lock_and_claims_switched_off_in_turn_and_together_nobody_is_mailed_twice(
    job_lock_on: bool, claims_on: bool
) -> None:
    campaign, relay = make_running(leads=LEADS), Relay()
    shared = None if claims_on else hold(campaign)
    at_once(
        WORKERS,
        lambda n: one_worker(n, campaign=campaign, relay=relay, with_job_lock=job_lock_on, shared=shared),
    )
    assert len(relay.taken) == LEADS and set(relay.taken.values()) == {1}
    assert set(Message.objects.values_list("status", flat=True)) == {"sent"}
    if not claims_on and not job_lock_on:
        assert OutreachEvent.objects.filter(kind="turned_away").count() == (WORKERS - 1) * LEADS


def test_a_claim_stolen_without_asking_still_passes_the_gate_once() -> None:
    campaign = make_running()
    first = hold(campaign)
    Message.objects.update(status="due", claim=None)  # a claim that does not look who holds the row
    second = hold(campaign, worker="w2")
    gates = at_once(2, lambda n: at_gate((first, second)[n], first.messages[0]))
    assert sorted(isinstance(gate, Begun) for gate in gates) == [False, True]
    assert Claim.objects.count() == 2 and SendAttempt.objects.get().claim_id == second.claim


def test_an_unsubscribe_that_was_committed_before_the_gate_means_no_mail_i11() -> None:
    for _ in range(12):
        message = make_message()
        held = hold(message.campaign)
        done: dict[str, Any] = {}

        def race(number: int, message: Message = message, held: Held = held, done: dict[str, Any] = done) -> None:
            if number:
                with transaction.atomic():
                    suppress(recipient_id=message.recipient_id, reason=Suppression.Reason.ASKED, worker="test")
            else:
                done["gate"] = at_gate(held)

        at_once(2, race)
        attempt = SendAttempt.objects.filter(message=message).first()
        suppression = Suppression.objects.get(recipient_id=message.recipient_id)
        assert isinstance(done["gate"], Begun) == (attempt is not None)
        if attempt is None:
            message.refresh_from_db()
            assert message.status == "suppressed"
        else:  # the gate came first: our insert waited for it
            message.refresh_from_db()
            assert message.status == "begun" and suppression.lifted_at is None


def test_a_suppression_waits_for_an_open_gate_and_a_gate_for_an_open_suppression() -> None:
    message = make_message()
    held = hold(message.campaign)
    suppressed, gates = threading.Event(), []

    def gate() -> None:
        suppressed.wait()
        gates.append(at_gate(held))
        connection.close()

    thread = threading.Thread(target=gate)
    thread.start()
    with transaction.atomic():
        suppress(recipient_id=message.recipient_id, reason=Suppression.Reason.ASKED, worker="test")
        suppressed.set()
        thread.join(0.3)
        assert thread.is_alive() and not gates  # it waits for our commit, and then sees what we wrote
    thread.join()
    assert isinstance(gates[0], Refused)
    assert not SendAttempt.objects.exists()


def test_a_pause_committed_before_the_gate_means_no_mail() -> None:
    for _ in range(8):
        campaign = make_running(leads=4)
        held = hold(campaign)
        paused = threading.Event()

        def race(
            number: int, campaign: Campaign = campaign, held: Held = held, paused: threading.Event = paused
        ) -> list[bool]:
            if number:
                pause(campaign_id=campaign.pk)
                paused.set()
                return []
            return [isinstance(at_gate(held, m), Begun) for m in held.messages if paused.is_set()]

        assert not any(passed for result in at_once(2, race) for passed in result)


def test_two_campaigns_at_the_gate_for_one_address_at_once_mail_it_once() -> None:
    for _ in range(8):
        first = make_running()
        second = make_campaign()
        launch(campaign_id=second.pk, leads=[first.enrolments.get().lead_id], by="another")
        held = [hold(first), hold(second)]
        gates = at_once(2, lambda n, held=held: at_gate(held[n]))  # type: ignore[misc]
        assert sorted(isinstance(gate, Begun) for gate in gates) == [False, True]
        assert [gate.reason for gate in gates if isinstance(gate, Refused)] == ["quiet period"]
