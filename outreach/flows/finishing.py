"""End a campaign before its time: everybody is taken out, and what may be on its way still gets its outcome."""

from dataclasses import dataclass

from django.db import transaction

from outreach.models import Campaign, Enrolment
from outreach.moves import campaigns


@dataclass(frozen=True)
class Ended:
    """How many were taken out, how many somebody was at work on, and whether it is finished: doubt holds it open."""

    taken_out: int
    left: int
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
    left = Enrolment.objects.filter(campaign_id=campaign_id, ended_at=None).count()
    return Ended(taken_out, left, finished)
