"""Send a burst of leads to a running Rota, wait until the CRM has them, and count what really happened.

Everything is counted from the tables and from the CRM itself, nothing from what was hoped for.
"""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import Count, Q
from django_q.models import OrmQ

from config.demo.burst import Answer, send
from config.demo.leads import Event, distinct, percentiles
from config.demo.mail import Mailed, mail_leads
from crmsync.gateway import connect
from crmsync.models import OutboxMessage
from crmsync.nudge import COALESCED, ask, nudge
from routing.models import Assignment, InboundSource, Lead, Membership

CONNECTIONS = 30
TWICE = 3
PATIENCE_S = 60


@dataclass
class Result:
    """What was counted, in the tables and in the CRM itself. Times are reported; `ok` depends on none of them."""

    leads: int
    assigned: int
    waiting: int
    double_assigned: int
    spread: int
    webhook_ms: dict[str, float | None]
    crm_lag_ms: dict[str, float | None]
    crm_records: int
    crm_wrong_owner: int
    replays_ignored: int
    touched: int
    refused: int
    mailed: int | None
    mailed_twice: int | None
    mail_workers: dict[str, int]
    failures: list[str]
    ok: bool = False

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def run(*, url: str, source: InboundSource, events: Sequence[Event], over_s: float) -> Result:
    """Send each event, the first three twice, and return the figures once the outbox is empty or a minute has
    passed.
    """
    _wake_the_queues()
    sent = [*events, *events[:TWICE]]
    answers, failures = send(
        url=f"{url.rstrip('/')}/in/{source.slug}",
        secret=source.secret,
        events=sent,
        connections=CONNECTIONS,
        over_s=over_s,
    )
    created = {UUID(answer.body["lead"]): answer for answer in answers if answer.status in (201, 202)}
    leads = Lead.objects.filter(uid__in=created)
    _wait_for_the_crm(leads_of=[str(uid) for uid in created])
    assigned = Assignment.objects.filter(lead__in=leads, ended_at=None).values("lead").distinct().count()
    twice = leads.annotate(times=Count("assignments", filter=Q(assignments__ended_at=None))).filter(times__gt=1)
    records, wrong, lags = _in_the_crm(created)
    mails = mail_leads(list(created))  # after everything that is timed
    result = Result(
        leads=distinct(event.lead for event in events),
        assigned=assigned,
        waiting=leads.filter(status=Lead.Status.WAITING).count(),
        double_assigned=twice.count(),
        spread=_spread(source, created),
        webhook_ms=percentiles([answer.ms for answer in answers]),
        crm_lag_ms=percentiles(lags),
        crm_records=records,
        crm_wrong_owner=wrong,
        replays_ignored=sum(answer.body.get("outcome") == "replayed" for answer in answers),
        touched=sum(answer.body.get("outcome") == "touched" for answer in answers),
        refused=sum(answer.status == 422 for answer in answers),
        mailed=mails.mailed if mails else None,
        mailed_twice=mails.mailed_twice if mails else None,
        mail_workers=mails.workers if mails else {},
        failures=failures
        + (mails.failures if mails else [])
        + [f"{answer.event_id}: {answer.status}" for answer in answers if answer.status >= 429],
    )
    result.ok = (
        not result.failures
        and result.leads == result.assigned == result.crm_records
        and result.waiting == result.double_assigned == result.crm_wrong_owner == 0
        and result.spread <= 1
        and _mailed_once(mails)
        and result.replays_ignored == min(TWICE, len(events)) - _refused_twice(events, answers)
    )
    return result


def _mailed_once(mails: Mailed | None) -> bool:
    """Everybody who can be mailed got one mail; nothing is asked where mail would leave this machine."""
    return mails is None or (mails.mailed == mails.wanted and mails.mailed_twice == 0)


def _wake_the_queues() -> None:
    """Wait until every queue has done a task that does nothing: a cluster that still starts would be measured as
    slow.
    """
    names = ["default", *settings.Q_CLUSTER["ALT_CLUSTERS"]]
    for name in names:
        if name in COALESCED:
            nudge(name)
        else:
            ask("config.tasks.beat", queue=name)
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until and OrmQ.objects.filter(key__in=names).exists():
        time.sleep(0.1)


def _refused_twice(events: Sequence[Event], answers: Sequence[Answer]) -> int:
    """How many of the events sent twice were no lead at all: those are refused both times."""
    refused = {answer.event_id for answer in answers if answer.status == 422}
    return sum(event.id in refused for event in events[:TWICE])


def _wait_for_the_crm(*, leads_of: Sequence[str]) -> None:
    """Wait until every assigned one of these leads has left the outbox, or patience ends."""
    until = time.monotonic() + PATIENCE_S
    of_ours = OutboxMessage.objects.filter(record__object="Lead", record__external_id__in=leads_of)
    waiting = Lead.objects.filter(uid__in=leads_of, status=Lead.Status.WAITING)
    while time.monotonic() < until and (of_ours.open().exists() or waiting.exists()):
        time.sleep(0.05)


def _spread(source: InboundSource, created: dict[UUID, Answer]) -> int:
    """Most minus fewest leads of this burst over the team's active members."""
    members = Membership.objects.filter(team_id=source.team_id, active=True, rep__retired_at=None)
    counts = Counter(dict.fromkeys(members.values_list("pk", flat=True), 0))
    counts.update(
        Assignment.objects.filter(lead__uid__in=created, ended_at=None).values_list("membership_id", flat=True)
    )
    return max(counts.values()) - min(counts.values()) if counts else 0


def _in_the_crm(created: dict[UUID, Answer]) -> tuple[int, int, list[float]]:
    """Ask the CRM itself: how many records it has of these leads, how many with another owner than Rota's rep, each
    lag.

    A lag runs from the receipt of the 2xx answer to the record's creation as the CRM dates it, in milliseconds.
    """
    key = settings.CRM_EXTERNAL_ID_FIELD
    org = connect()
    records: list[dict[str, Any]] = []
    wanted = list(created)
    for start in range(0, len(wanted), 200):
        uids = ", ".join(f"'{uid}'" for uid in wanted[start : start + 200])
        records += org.query(f"SELECT {key}, OwnerId, CreatedDate FROM Lead WHERE {key} IN ({uids})")
    owners = {
        str(uid): owner
        for uid, owner in Assignment.objects.filter(lead__uid__in=created, ended_at=None).values_list(
            "lead__uid", "membership__rep__crm_user_id"
        )
    }
    wrong = sum(record["OwnerId"][:15] != owners.get(record[key], "")[:15] for record in records)
    lags = [
        (datetime.fromisoformat(record["CreatedDate"]).timestamp() - created[UUID(record[key])].at) * 1000
        for record in records
    ]
    return len(records), wrong, lags
