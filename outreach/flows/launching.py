"""Launch a campaign: check what it says against everybody it goes to, freeze the list, enrol each person once.

Everything is looked at before anything is written. Launching again does nothing; the same list with the same content in
another campaign is refused, unless a person says why.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from django.db import transaction
from django.db.models import QuerySet

from crmsync.nudge import ask
from outreach.errors import (
    BadAddress,
    BadTemplate,
    ChangedMeanwhile,
    LaunchRefused,
    SameListAndContent,
    WrongState,
)
from outreach.flows.preparing import holes, lead_values, reps_of
from outreach.flows.sent_before import NOTHING, Before, sent_before
from outreach.flows.zones import known_to_the_server, zone_of
from outreach.mail.addresses import wire_address
from outreach.mail.links import unsubscribe_url
from outreach.mail.templating import Text, compile_text, lookup, values_of
from outreach.models import Campaign, Step, Suppression
from outreach.moves import campaigns
from outreach.moves.campaigns import Person
from routing.models import Lead

PART = 1_000
"""Leads read at a time."""


@dataclass(frozen=True)
class Launched:
    """How many were enrolled, why others were not, and what puts off or ends early the mails of how many of those who
    were. `again`: it was launched before, and nothing was done.
    """

    enrolled: int
    skipped: dict[str, int] = field(default_factory=dict)
    but: dict[str, int] = field(default_factory=dict)
    again: bool = False


@dataclass(frozen=True)
class Audience:
    """The people of a list who can be mailed, what other campaigns sent them before, and how many cannot be mailed.

    Whoever got the first step's content from another campaign would be stopped at the gate. They are enrolled only
    where a person said why they get it `again`.
    """

    people: list[Person]
    before: dict[str, Before]
    unmailable: dict[str, int]

    def enrolled(self, *, again: bool) -> list[Person]:
        return [one for one in self.people if again or not self.before.get(one.key, NOTHING).first]

    def skipped(self, *, again: bool) -> dict[str, int]:
        """How many are not enrolled, by reason."""
        had = Counter(found.first for found in self.before.values() if found.first and not again)
        return self.unmailable | {f"got the same content from {name}": many for name, many in sorted(had.items())}

    def but(self, *, again: bool) -> dict[str, int]:
        """How many of those enrolled do not get every mail when it is due, by reason."""
        found: Counter[str] = Counter()
        for one in self.enrolled(again=again):
            before = self.before.get(one.key, NOTHING)
            if before.quiet:
                found["quiet period after a mail of another campaign, at first"] += 1
            if before.next and not again:
                found[f"a later mail has the same content as one they got from {before.next}: it ends there"] += 1
            elif before.soon and not again:
                found[f"the same content is due to them from {before.soon}: they get it once"] += 1
        return dict(sorted(found.items()))


@dataclass(frozen=True)
class Plan:
    """What a launch would do: whom it is for, and the fingerprints of list and content."""

    audience: Audience
    step_digests: dict[int, str]
    audience_digest: str
    content_digest: str

    @property
    def launched_before(self) -> Campaign | None:
        """The campaign in which this list got this content, if there is one: a second needs a reason."""
        same = {"audience_digest": self.audience_digest, "content_digest": self.content_digest}
        return Campaign.objects.filter(**same, override_reason="").exclude(status=Campaign.Status.DRAFT).first()


def plan(*, campaign: Campaign, leads: "QuerySet[Lead] | Sequence[int]") -> Plan:
    """Look at everything and write nothing. Raises LaunchRefused, and WrongState for a campaign without steps."""
    steps = list(campaign.steps.order_by("order"))
    if not steps:
        raise WrongState("The campaign has no steps.")
    digests = digests_of(steps)
    found = audience(leads=leads, campaign=campaign, texts=compile_steps(steps), digests=list(digests.values()))
    if not found.people:
        raise LaunchRefused({"leads that can be mailed": 0, **found.unmailable})
    everybody = digest_of(*sorted(one.key for one in found.people))
    return Plan(found, digests, everybody, digest_of(*list(digests.values())))


def launch(
    *,
    campaign_id: int,
    leads: "QuerySet[Lead] | Sequence[int]",
    by: str,
    override_reason: str = "",
    as_shown: str = "",
) -> Launched:
    """Launch a draft for these leads: a filtered queryset or a list of ids, frozen now. Opens a transaction.

    Leads without an address, with one that nothing can be sent to, with one that was suppressed or that an earlier lead
    of the list has too, or whose value would break a subject line, are left out and counted; so is, without an
    `override_reason`, who got the same content from another campaign. Raises LaunchRefused with every problem of the
    content: templates that do not parse, names that do not exist, values that some leads lack; SameListAndContent, also
    where everybody got it; WrongState for a campaign without steps; ChangedMeanwhile where list or content is not, or
    is no longer, what was looked at (`as_shown`: the fingerprint of both that a person has confirmed).
    """
    campaign = Campaign.objects.get(pk=campaign_id)
    if campaign.status != Campaign.Status.DRAFT:
        return Launched(0, again=True)
    planned = plan(campaign=campaign, leads=leads)
    if as_shown and as_shown != digest_of(planned.audience_digest, planned.content_digest):
        raise ChangedMeanwhile
    again = bool(override_reason or campaign.override_reason)
    people = planned.audience.enrolled(again=again)
    if not people:
        raise SameListAndContent
    with transaction.atomic(durable=True):
        enrolled = campaigns.launch(
            campaign_id=campaign_id,
            people=people,
            by=by,
            audience_digest=planned.audience_digest,
            content_digest=planned.content_digest,
            step_digests=planned.step_digests,
            override_reason=override_reason,
        )
        # The move holds the campaign, as does whoever edits a draft: what the steps say now is what will be sent.
        same_steps = digests_of(campaign.steps.order_by("order")) == planned.step_digests
        same_window = Campaign.objects.filter(pk=campaign_id, window_in=campaign.window_in).exists()
        if enrolled is not None and not (same_steps and same_window):
            raise ChangedMeanwhile
    if enrolled is None:
        return Launched(0, again=True)
    ask("outreach.tasks.send_due", queue="outreach")
    return Launched(enrolled, planned.audience.skipped(again=again), planned.audience.but(again=again))


def enrol_more(*, campaign_id: int, leads: "QuerySet[Lead] | Sequence[int]") -> Launched:
    """Enrol further leads in a launched campaign; those enrolled already are not touched. Opens a transaction.

    Raises WrongState for a draft or a finished campaign, LaunchRefused as `launch` does.
    """
    campaign = Campaign.objects.get(pk=campaign_id)
    steps, again = list(campaign.steps.order_by("order")), bool(campaign.override_reason)
    digests = [step.digest for step in steps]
    found = audience(leads=leads, campaign=campaign, texts=compile_steps(steps), digests=digests)
    people, skipped = found.enrolled(again=again), found.skipped(again=again)
    with transaction.atomic(durable=True):
        # The lock proves that the campaign is not finished meanwhile, and makes two that enrol take turns.
        locked = Campaign.objects.select_for_update(no_key=True).get(pk=campaign_id)
        if locked.status not in (*Campaign.PAUSABLE, Campaign.Status.PAUSED):
            raise WrongState(f"It is {locked.get_status_display().lower()}.")
        enrolled = campaigns.enrol(campaign_id=campaign_id, people=people)
    if enrolled < len(people):
        skipped["enrolled before"] = len(people) - enrolled
    return Launched(enrolled, skipped)


def compile_steps(steps: Sequence[Step]) -> list[tuple[Text, Text]]:
    """The templates of all steps. Raises LaunchRefused with everything that is wrong in any of them."""
    texts, problems = [], {}
    for step in steps:
        try:
            texts.append((compile_text(step.subject), compile_text(step.body)))
        except BadTemplate as fault:
            problems[f"step {step.order}"] = str(fault)
    if problems:
        raise LaunchRefused(problems)
    return texts


def audience(
    *,
    leads: "QuerySet[Lead] | Sequence[int]",
    campaign: Campaign,
    texts: Sequence[tuple[Text, Text]],
    digests: Sequence[str],
) -> Audience:
    """Who can be mailed, each address once, and how many cannot, by reason; texts and digests are those of the steps.

    Raises LaunchRefused where somebody who can lacks a value that the content needs.
    """
    people: dict[str, Person] = {}
    skipped: Counter[str] = Counter()
    missing: Counter[str] = Counter()
    in_subjects = {name for subject, _ in texts for name in subject.needed | subject.optional}
    by_lead = campaign.window_in == Campaign.WindowIn.LEAD
    everything = [text for pair in texts for text in pair]
    for part in in_parts(leads):
        reps = reps_of([lead.pk for lead in part])
        addressed = [(lead, *key_of(lead.email)) for lead in part]
        suppressed = suppressed_keys([key for _, key, _ in addressed if key])
        for lead, key, problem in addressed:
            values = values_of(
                lead=lead_values(lead),
                rep=reps.get(lead.pk),
                campaign=campaign.name,
                unsubscribe_url=unsubscribe_url(recipient_id=0),
            )
            if problem or key in suppressed or key in people:
                skipped[problem or ("suppressed" if key in suppressed else "address twice in the list")] += 1
            elif any(not str(lookup(values, name) or "").isprintable() for name in in_subjects):
                skipped["a value would break the subject line"] += 1
            else:
                missing.update(holes(values, *everything))
                people[key] = Person(lead.pk, lead.email, key, zone_of(lead.country) if by_lead else None)
    if missing:
        raise LaunchRefused({f"leads without {name}": many for name, many in sorted(missing.items())})
    before = sent_before(campaign_id=campaign.pk, digests=digests, keys=list(people))
    return Audience(with_known_zones(people.values()), before, dict(skipped))


def with_known_zones(people: Iterable[Person]) -> list[Person]:
    """The people, none of them in a zone that the gate could not reckon with."""
    people = list(people)
    known = known_to_the_server({one.zone for one in people if one.zone})
    return [one if one.zone is None or one.zone in known else replace(one, zone=None) for one in people]


def key_of(email: str) -> tuple[str, str]:
    """The key of an address, or nothing and why not."""
    if not email:
        return "", "no e-mail address"
    try:
        return wire_address(email).key, ""
    except BadAddress:
        return "", "no mail can be sent to the address"


def suppressed_keys(keys: Sequence[str]) -> set[str]:
    """Those of the addresses that want no mail now. The gate asks again."""
    current = Suppression.objects.filter(recipient__key__in=keys, lifted_at=None)
    return set(current.values_list("recipient__key", flat=True))


def in_parts(leads: "QuerySet[Lead] | Sequence[int]") -> Iterator[list[Lead]]:
    """The leads in the order of their ids, some at a time. The list is fixed by the first read."""
    ids = sorted(leads.values_list("pk", flat=True) if isinstance(leads, QuerySet) else set(leads))
    for start in range(0, len(ids), PART):
        part = ids[start : start + PART]
        yield list(Lead.objects.filter(pk__in=part).order_by("pk"))


def digests_of(steps: Iterable[Step]) -> dict[int, str]:
    """The fingerprint of what each step says, in the order of the steps."""
    return {step.pk: digest_of(step.subject, step.body) for step in steps}


def digest_of(*texts: str) -> str:
    """One fingerprint of all the texts, in their order."""
    return hashlib.sha256(json.dumps(texts, ensure_ascii=False).encode()).hexdigest()
