"""Launch, pause, resume and finish campaigns; enrol leads, each once."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError, connection, transaction
from django.db.models import Exists, OuterRef
from django.db.models.functions import Now

from outreach.errors import SameListAndContent, WrongState
from outreach.models import Campaign, Claim, Enrolment, Message, Step


@dataclass(frozen=True)
class Person:
    """A lead as it is enrolled: its address as given, the key by which addresses are compared, and the time zone of its
    own in which it is mailed, if any.
    """

    lead: int
    address: str
    key: str
    zone: str | None = None


def launch(
    *,
    campaign_id: int,
    people: Sequence[Person],
    by: str,
    audience_digest: str,
    content_digest: str,
    step_digests: dict[int, str],
    override_reason: str = "",
) -> int | None:
    """Freeze audience and content and enrol everybody; None where it was launched before. Call inside a transaction.

    The lock proves that the campaign is still a draft; a second launch waits for the first and then does nothing.
    Raises SameListAndContent where `campaign_same_list_and_content_once` knows another such campaign.
    """
    campaign = Campaign.objects.select_for_update(no_key=True).get(pk=campaign_id)
    if campaign.status != Campaign.Status.DRAFT:
        return None
    later = Campaign.objects.filter(pk=campaign_id, starts_at__gt=Now()).exists()
    try:
        with transaction.atomic(durable=False):  # a savepoint: the clash is answered, not the end of it
            Campaign.objects.filter(pk=campaign_id, status=Campaign.Status.DRAFT).update(
                status=Campaign.Status.SCHEDULED if later else Campaign.Status.RUNNING,
                launched_at=Now(),
                launched_by=by,
                audience_digest=audience_digest,
                content_digest=content_digest,
                override_reason=override_reason or campaign.override_reason,
            )
    except IntegrityError as clash:
        if "campaign_same_list_and_content_once" not in str(clash):
            raise
        raise SameListAndContent from clash
    for step_id, digest in step_digests.items():
        Step.objects.filter(pk=step_id).update(digest=digest)
    return enrol(campaign_id=campaign_id, people=people)


def enrol(*, campaign_id: int, people: Sequence[Person]) -> int:
    """Enrol those who are not enrolled yet, and plan their first mail; return how many. Call inside a transaction.

    Rows go in in the order of their unique keys, so that two that enrol the same people wait, and never deadlock.
    """
    ordered = sorted(people, key=lambda person: (person.key, person.lead))
    values: dict[str, Any] = {
        "campaign": campaign_id,
        "leads": [person.lead for person in ordered],
        "addresses": [person.address for person in ordered],
        "keys": [person.key for person in ordered],
        "zones": [person.zone for person in ordered],
    }
    with connection.cursor() as cursor:
        cursor.execute(ADD_RECIPIENTS, values)
        cursor.execute(ENROL, values)
        (enrolled,) = cursor.fetchone()
    return int(enrolled)


def hold_draft(*, campaign_id: int) -> None:
    """Keep a draft a draft until the end of this transaction, in which it is edited. Call inside a transaction.

    The lock proves that no launch freezes it meanwhile; a launch waits for it. Raises WrongState once it is launched.
    """
    if Campaign.objects.select_for_update(no_key=True).get(pk=campaign_id).status != Campaign.Status.DRAFT:
        raise WrongState("It was launched meanwhile: what it says and whom it goes to is frozen.")


def take_out_some(*, campaign_id: int, by: str, most: int = 1_000) -> int:
    """End up to `most` sequences of a launched campaign and cancel what is not begun of them; return how many.

    Call inside a transaction. Whoever is at work on a sequence at this moment keeps it: the next call finds it, and the
    gate turns away whatever else comes of a sequence that was ended.
    """
    with connection.cursor() as cursor:
        cursor.execute(TAKE_OUT, {"campaign": campaign_id, "by": by, "most": most})
        (ended,) = cursor.fetchone()
    return int(ended)


def pause(*, campaign_id: int) -> bool:
    """Stop a campaign: what is claimed is turned away at the gate. False where it was not running or scheduled."""
    found = Campaign.objects.filter(pk=campaign_id, status__in=Campaign.PAUSABLE)
    return found.update(status=Campaign.Status.PAUSED) == 1


def resume(*, campaign_id: int) -> bool:
    """Go on with a paused campaign; False where it is not paused."""
    paused = Campaign.objects.filter(pk=campaign_id, status=Campaign.Status.PAUSED)
    if paused.filter(starts_at__gt=Now()).update(status=Campaign.Status.SCHEDULED):
        return True
    return paused.update(status=Campaign.Status.RUNNING) == 1


def log_activities(*, campaign_id: int, on: bool) -> bool:
    """Have a campaign's mails logged in the CRM from now on, or no longer; False where that is so already."""
    return Campaign.objects.filter(pk=campaign_id, logs_activities=not on).update(logs_activities=on) == 1


def start_due() -> int:
    """Start the scheduled campaigns whose time has come; return how many."""
    scheduled = Campaign.objects.filter(status=Campaign.Status.SCHEDULED, starts_at__lte=Now())
    return scheduled.update(status=Campaign.Status.RUNNING)


def finish_done() -> int:
    """Finish the campaigns in which nobody is left and nothing is due, held or in doubt; return how many.

    Also those that have not started yet: their leads are enrolled at the launch, nobody joins later.
    """
    of_campaign = {"campaign": OuterRef("pk")}
    left = (
        Enrolment.objects.filter(**of_campaign, ended_at=None),
        Message.objects.filter(**of_campaign, status=Message.Status.DUE),
        Message.objects.filter(**of_campaign, status=Message.Status.IN_DOUBT),
        Claim.objects.live().filter(**of_campaign),
    )
    done = Campaign.objects.filter(status__in=Campaign.PAUSABLE).filter(*(~Exists(rows) for rows in left))
    return done.update(status=Campaign.Status.FINISHED)


ADD_RECIPIENTS = """
    INSERT INTO outreach_recipient (key) SELECT DISTINCT key FROM unnest(%(keys)s::text[]) AS key ORDER BY key
    ON CONFLICT (key) DO NOTHING
"""
ENROL = """
    WITH enrolled AS (
        INSERT INTO outreach_enrolment (campaign_id, lead_id, recipient_id, address, zone)
        SELECT %(campaign)s, person.lead, recipient.id, person.address, person.zone
          FROM unnest(%(leads)s::bigint[], %(addresses)s::text[], %(keys)s::text[], %(zones)s::text[]) WITH ORDINALITY
               AS person(lead, address, key, zone, place)
          JOIN outreach_recipient recipient ON recipient.key = person.key
         ORDER BY person.place
        ON CONFLICT DO NOTHING
        RETURNING id, recipient_id),
    first AS (
        SELECT id, delay FROM outreach_step WHERE campaign_id = %(campaign)s ORDER BY "order" LIMIT 1),
    planned AS (
        INSERT INTO outreach_message (campaign_id, enrolment_id, step_id, recipient_id, due_at)
        SELECT %(campaign)s, enrolled.id, first.id, enrolled.recipient_id,
               greatest(campaign.starts_at, statement_timestamp()) + first.delay
          FROM enrolled, first, outreach_campaign campaign WHERE campaign.id = %(campaign)s
         ORDER BY enrolled.id)
    SELECT count(*) FROM enrolled
"""

TAKE_OUT = """
    WITH people AS MATERIALIZED (
        SELECT id FROM outreach_enrolment WHERE campaign_id = %(campaign)s AND ended_at IS NULL
         ORDER BY id LIMIT %(most)s FOR NO KEY UPDATE SKIP LOCKED),
    open AS MATERIALIZED (
        SELECT message.id, status, claim_id FROM outreach_message message JOIN people ON people.id = enrolment_id
         WHERE status IN ('due', 'claimed') ORDER BY message.id FOR NO KEY UPDATE OF message SKIP LOCKED),
    stopped AS (
        UPDATE outreach_message SET status = 'cancelled', claim_id = NULL, reason = 'the campaign was ended' FROM open
         WHERE outreach_message.id = open.id),
    told AS (
        INSERT INTO outreach_outreachevent (kind, layer, worker, message_id, claim_id, before, after, reason)
        SELECT 'stopped', 'person', %(by)s, id, claim_id, status, 'cancelled', 'the campaign was ended' FROM open),
    ended AS (
        UPDATE outreach_enrolment SET ended_at = clock_timestamp(), end_reason = 'cancelled' FROM people
         WHERE outreach_enrolment.id = people.id
        RETURNING outreach_enrolment.id)
    SELECT count(*) FROM ended
"""
