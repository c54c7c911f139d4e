"""Fetch the leads behind events that came as ids only, and let them land like any other.

Nothing is open in the database while the API is asked. A call that fails is repeated later: after 30 s, 1, 2, 4 min and
so on to an hour, half of it by chance; too many calls and a refused token put the source's other fetches off as well.
What fails to the end stays in the admin with its reason, and a person has it asked again.
"""

import logging
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db import DatabaseError, transaction

from crmsync.nudge import ask
from routing import fetches, remote
from routing.arrivals import in_words
from routing.errors import Busy, InvalidLead
from routing.events import storable
from routing.intake import land
from routing.kinds import KINDS
from routing.kinds.kind import Api, Kind
from routing.mapping import TARGETS, map_fields
from routing.models import Fetch, InboundEvent

logger = logging.getLogger(__name__)
Trouble = Fetch.Trouble

BUDGET_S = 25
"""How long one task begins new calls; with the last call it stays below q2's timeout of 50 s."""
BATCH = 10
FIRST_S, CAP_S = 30, 3600
LIMITED_S = 60
BUSY_S = 5
MISSING_TRIES = 3
"""A record may be told of before it can be read: 404 is believed after so many times."""


@dataclass
class Fetched:
    """Leads landed, events put back for later, given up, and refused though they were fetched."""

    landed: int = 0
    later: int = 0
    failed: int = 0
    refused: int = 0


@dataclass(frozen=True)
class Refusal:
    """Why there is no lead: one of Fetch.Trouble, in words, and how long the API asked us to wait (s)."""

    trouble: str
    said: str
    wait_s: int = 0


def fetch_due(*, budget_s: float = BUDGET_S) -> Fetched:
    """Fetch what is due until nothing is left or the budget is spent; then ask for the next run."""
    done = Fetched()
    until = time.monotonic() + budget_s
    lease_s = BATCH * settings.FETCH_TIMEOUT_S + 60
    while time.monotonic() < until:
        with transaction.atomic(durable=True):
            held = fetches.claim_due(most=BATCH, lease_s=lease_s)
        if not held.events:
            return done
        put_off: dict[int, Refusal] = {}
        for event in InboundEvent.objects.filter(pk__in=held.events).select_related("fetch", "source").order_by("pk"):
            if event.source_id in put_off:  # its API is not asked again at once: a token is refused to all
                refusal = put_off[event.source_id]
                _settle(event, held, refusal, done, charged=refusal.trouble == Trouble.TOKEN)
            elif time.monotonic() >= until:
                _settle(event, held, Refusal(event.fetch.trouble, event.fetch.said), done, charged=False)
            else:
                found = _found(event)
                if not isinstance(found, Refusal):
                    _keep(event, held, found, done)
                    continue
                _settle(event, held, found, done, charged=found.trouble != Trouble.LIMITED)
                if found.trouble in (Trouble.TOKEN, Trouble.LIMITED):
                    put_off[event.source_id] = found
    ask("routing.tasks.fetch")
    return done


def _found(event: InboundEvent) -> Mapping[str, Any] | Refusal:
    kind = KINDS.get(event.source.kind)
    if kind is None or kind.api is None:
        return Refusal(Trouble.GONE, "Its source is of a kind that has nothing to fetch.")
    return asked(event, kind, kind.api)


def _settle(event: InboundEvent, held: fetches.Held, refusal: Refusal, done: Fetched, *, charged: bool) -> None:
    """Put the event back for later, or give it up after its last attempt."""
    attempts = event.fetch.attempts + int(charged)
    tries = MISSING_TRIES if refusal.trouble == Trouble.GONE else settings.FETCH_ATTEMPTS_MOST
    values: dict[str, Any] = {"event": event.pk, "claim": held.claim, "trouble": refusal.trouble, "said": refusal.said}
    if charged and attempts >= tries:
        with transaction.atomic(durable=True):
            fetches.give_up(**values)
        done.failed += 1
        logger.warning("fetch given up event=%s trouble=%s", event.pk, refusal.trouble)
        return
    wait_s = delay_s(attempts, dice=random.random()) if charged else BUSY_S
    with transaction.atomic(durable=True):
        fetches.put_back(**values, wait_s=max(wait_s, refusal.wait_s), charged=charged)
    done.later += 1
    logger.info("fetch put back event=%s trouble=%s attempts=%s", event.pk, refusal.trouble, attempts)


def _keep(event: InboundEvent, held: fetches.Held, found: Mapping[str, Any], done: Fetched) -> None:
    """Store the answer first, so that it is not asked for again whatever becomes of the lead; then let it land."""
    with transaction.atomic(durable=True):
        ours = fetches.answered(event=event.pk, claim=held.claim, answer=storable(dict(found)))
    if ours:
        land_fetched(event, KINDS[event.source.kind], found, done)


def asked(event: InboundEvent, kind: Kind, api: Api) -> Mapping[str, Any] | Refusal:
    """What the API says of the lead behind an event, by its own names; or why it says nothing."""
    source, name = event.source, kind.label
    if not source.api_token:
        return Refusal(Trouble.TOKEN, f"There is no API token. Enter one on the page of {source}.")
    question = api.ask(event.fetch.remote_id, source.api_token, wanted_names(kind, source.mapping))
    try:
        answer = remote.get(
            (source.api_url or api.url).rstrip("/") + question.path,
            params=question.params,
            headers=question.headers,
            deadline_s=settings.FETCH_TIMEOUT_S,
        )
    except remote.NoAnswer as fault:
        return Refusal(Trouble.LATER, f"{name}: {fault}.")
    if answer.status == 200:
        try:
            return api.read(answer.body)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError):
            return Refusal(Trouble.LATER, f"{name} answered with something that cannot be read.")
    return refusal_of(answer, api, name)


def refusal_of(answer: remote.Answer, api: Api, name: str) -> Refusal:
    """What an answer other than 200 means: what its body says it does, where it says so, else its status."""
    meant = api.refused(answer.body)
    status, wait_s = answer.status, answer.retry_after_s
    if meant == Trouble.TOKEN or (not meant and status in (401, 403)):
        return Refusal(Trouble.TOKEN, f"{name} refused the token ({status}). Enter a new one on the source's page.")
    if meant == Trouble.LIMITED or (not meant and status == 429):
        return Refusal(Trouble.LIMITED, f"{name} has had too many calls ({status}).", wait_s or LIMITED_S)
    if meant == Trouble.GONE or (not meant and status in (404, 410)):
        return Refusal(Trouble.GONE, f"{name} does not have it ({status}): deleted, or not for this token to see.")
    return Refusal(Trouble.LATER, f"{name} answered {status}.", wait_s)


def land_fetched(event: InboundEvent, kind: Kind, found: Mapping[str, Any], done: Fetched) -> None:
    """Make a lead of what was fetched. Where none can be made of it the event is refused, for a person to replay."""
    payload = map_fields(found, usual=kind.usual, mapping=event.source.mapping).payload
    try:
        land(source=event.source, event=event.pk, payload=payload)
        done.landed += 1
    except InvalidLead as refusal:
        with transaction.atomic(durable=True):
            fetches.refused(event=event.pk, because=in_words(refusal))
        done.refused += 1
    except (Busy, DatabaseError) as fault:
        # The answer is kept; the sweep of what was fetched and has no lead takes it up.
        logger.warning("fetched lead waits event=%s fault=%s", event.pk, type(fault).__name__)
        done.later += 1


def land_left_over(*, most: int = 100) -> int:
    """Let those land that were fetched and have no lead: their worker died, or the address was busy. How many did."""
    done = Fetched()
    left = InboundEvent.objects.filter(outcome=InboundEvent.Outcome.FETCHING, fetch__due_at=None)
    for event in left.filter(fetch__answer__isnull=False).select_related("fetch", "source").order_by("pk")[:most]:
        if kind := KINDS.get(event.source.kind):
            land_fetched(event, kind, event.fetch.answer or {}, done)
    return done.landed


def wanted_names(kind: Kind, mapping: Mapping[str, Sequence[str]]) -> list[str]:
    """The sender's own names that this source maps, for APIs that tell only what they are asked for."""
    return [name.partition(".")[0] for ours in TARGETS for name in mapping.get(ours, ())]


def delay_s(failures: int, *, dice: float) -> float:
    """How long after so many failures: doubled each time up to the cap, half of it fixed, half by `dice` (0 to 1)."""
    whole = min(CAP_S, FIRST_S * 2 ** min(max(failures, 1) - 1, 20))
    return whole / 2 + whole / 2 * dice
