"""A sender that is asked to stop in the middle of a campaign: the rest stays, and the campaign runs on."""

import signal
from typing import Any

import pytest

from outreach.flows.launching import launch
from outreach.models import Campaign, Message
from outreach.moves.campaigns import finish_done
from tests.drills.test_outreach_kills import start_sender, take_over, wait_for
from tests.outreach.make import make_campaign, make_leads, switched_on
from tests.outreach.relays import Stall, scripted

pytestmark = pytest.mark.django_db(transaction=True)


def test_sigterm_in_the_middle_of_a_campaign_finishes_nothing_early_and_loses_nobody(settings: Any) -> None:
    switched_on()
    campaign = make_campaign()
    launch(campaign_id=campaign.pk, leads=[lead.pk for lead in make_leads(5)], by="test")
    stall = Stall()
    with scripted({"dot": ["250 ok", "250 ok", stall]}) as relay:
        process = start_sender(relay)
        try:
            wait_for(stall.reached.is_set, process)
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=30)
        finally:
            process.kill()
        stall.go.set()
        assert finish_done() == 0 and Campaign.objects.get().status == "running"
        take_over(settings, relay)
        assert sorted(Message.objects.values_list("status", flat=True)) == ["in_doubt", "sent", "sent", "sent", "sent"]
        assert len(set(relay.seen)) == len(relay.seen) == 5
    assert finish_done() == 0, "what is in doubt holds it open"
