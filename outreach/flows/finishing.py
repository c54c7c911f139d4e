"""End a campaign before its time: everybody is taken out, and what may be on its way still gets its outcome."""

from dataclasses import dataclass

from django.db import transaction

from outreach.models import Campaign
from outreach.moves import campaigns


@dataclass(frozen=True)
class Ended:
    """How many people were taken out, and whether it is finished: doubt, or a mail on its way, holds it open."""

    taken_out: int
    finished: bool


def end_campaign(*, campaign_id: int, by: str) -> Ended:
    """End a launched campaign, in small transactions. Calling it again does the rest, or nothing.

    A paused one goes on, with nobody in it, so that the reaper finishes it once nothing is in doubt.
    """
    taken_out = 0
    while True:
        with transaction.atomic(durable=True):
            some = campaigns.take_out_some(campaign_id=campaign_id, by=by)
        taken_out += some
        if not some:
            break
    campaigns.resume(campaign_id=campaign_id)
    campaigns.finish_done()
    finished = Campaign.objects.filter(pk=campaign_id, status=Campaign.Status.FINISHED).exists()
    return Ended(taken_out, finished)
