"""Take in what is reported of a mail, each report once: settle a doubt, suppress the address, stop the sequence."""

from dataclasses import dataclass
from typing import Any

from django.db import connection, transaction
from django.db.models import Case, Value, When

from outreach.mail.outcome import Outcome
from outreach.mail.reports import Report
from outreach.models import Enrolment, Message, ProviderEvent, Recipient, SendAttempt, Suppression
from outreach.moves.events import Layer
from outreach.moves.settling import settle_locked
from outreach.moves.suppression import stop_messages, suppress

Kind = ProviderEvent.Kind
Status = SendAttempt.Status
ABOUT = (Status.IN_DOUBT, Status.BEGUN, Status.ACCEPTED, Status.DISPROVED)
"""Which of several tries of a mail a report is about, the first before all."""
SUPPRESS = {
    Kind.BOUNCED: Suppression.Reason.BOUNCED,
    Kind.COMPLAINED: Suppression.Reason.COMPLAINED,
    Kind.UNSUBSCRIBED: Suppression.Reason.UNSUBSCRIBED,
}
STOP = {Kind.REPLIED: Enrolment.EndReason.REPLIED, Kind.CONVERTED: Enrolment.EndReason.CONVERTED}
KNOWN = "known"


@dataclass(frozen=True)
class Evidence:
    """A mail in doubt of which a report was received after it was begun."""

    attempt: int
    kind: str
    source: str


def take_in(report: Report) -> str:
    """Keep a report and do what follows from it at once; say what that was, or "known". Opens a transaction.

    The unique index proves that a report told twice acts once; the second waits for the first one's commit. Locks
    message and recipient in the gate's order. A report is about the try in doubt where there is one, for at most one
    try of a step and address can have gone out; else about one that may have gone, else about one of which a person
    said that it did not.
    """
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(KEEP, vars(report) | {"kind": report.kind.value})
        row = cursor.fetchone()
        if row is None:
            return KNOWN
        attempt = attempt_of(report.mail_id)
        effects = [_settle(attempt, report)] if attempt is not None else []
        recipient_id = attempt.recipient_id if attempt is not None else recipient_of(report)
        if recipient_id is not None:
            effects.append(_stop(report, recipient_id, attempt))
        effect = ", ".join(filter(None, effects))
        ProviderEvent.objects.filter(pk=row[0]).update(attempt=attempt, recipient_id=recipient_id, effect=effect)
    return effect


def attempt_of(mail_id: str) -> SendAttempt | None:
    """Which of the tries with this Message-ID a report is about, the newest of its kind; see take_in."""
    if not mail_id:
        return None
    rank = Case(
        *(When(status=status, then=Value(place)) for place, status in enumerate(ABOUT)), default=Value(len(ABOUT))
    )
    return SendAttempt.objects.filter(mail_id=mail_id).order_by(rank, "-pk").first()


def recipient_of(report: Report) -> int | None:
    """Who has the reported address; one that wants no mail is written down though nobody wrote to it yet."""
    if not report.address:
        return None
    if report.kind in SUPPRESS:
        Recipient.objects.bulk_create([Recipient(key=report.address)], ignore_conflicts=True)
    return Recipient.objects.filter(key=report.address).values_list("pk", flat=True).first()


def outcome_of_report(kind: str, source: str) -> Outcome | None:
    """What a report proves of a mail in doubt, if anything."""
    if kind in ProviderEvent.IT_WENT:
        return Outcome("accepted", "dot", None, f"{kind}, says {source}")
    if kind in ProviderEvent.IT_DID_NOT:
        return Outcome("refused", "dot", None, f"{kind}, says {source}", "content")
    return None


def evidence(*, most: int = 1_000) -> list[Evidence]:
    """Mails in doubt of which something was reported after they were begun, the oldest first."""
    values: dict[str, Any] = {"most": most}
    values["kinds"] = [kind.value for kind in (*ProviderEvent.IT_WENT, *ProviderEvent.IT_DID_NOT)]
    with connection.cursor() as cursor:
        cursor.execute(EVIDENCE, values)
        return [Evidence(*row) for row in cursor.fetchall()]


def _settle(attempt: SendAttempt, report: Report) -> str:
    outcome = outcome_of_report(report.kind, report.source)
    tried = _tried(attempt, outcome) if outcome is not None else None
    if outcome is None or tried is None:
        return ""
    Message.objects.select_for_update(no_key=True).get(pk=attempt.message_id)
    settled = settle_locked(attempt_id=tried, outcome=outcome, worker=report.source, layer=Layer.SETTLE)
    return f"settled: {outcome.verdict}" if settled else ""


def _tried(attempt: SendAttempt, outcome: Outcome) -> int | None:
    """The try that an outcome settles, if any: one in doubt, or, if it went, one of which a person said it did not.

    Where the latter's message has begun again meanwhile, the settlement changes nothing and leaves an event.
    """
    if attempt.status == Status.IN_DOUBT:
        return attempt.pk
    if outcome.verdict == "accepted" and attempt.status in (Status.BEGUN, Status.DISPROVED):
        overruled = attempt.message.tries.filter(status=Status.DISPROVED)
        return overruled.order_by("-pk").values_list("pk", flat=True).first()
    return None


def _stop(report: Report, recipient_id: int, attempt: SendAttempt | None) -> str:
    if (reason := SUPPRESS.get(report.kind)) is not None:
        detail = f"reported by {report.source}: {report.detail}".strip(": ")
        suppress(recipient_id=recipient_id, reason=reason, detail=detail, worker=report.source, layer=Layer.SETTLE)
        return "suppressed"
    if (end := STOP.get(report.kind)) is not None:
        Recipient.objects.select_for_update(no_key=True).get(pk=recipient_id)
        only = attempt.message.enrolment_id if attempt is not None else None
        stop_messages(
            recipient_id=recipient_id,
            enrolment_id=only,
            after="cancelled",
            reason=end.value,
            end=end.value,
            worker=report.source,
            layer=Layer.SETTLE,
        )
        return "stopped the sequence" if only else "stopped its sequences"
    return ""


KEEP = """
    INSERT INTO outreach_providerevent (source, event_id, kind, mail_id, address, occurred_at, detail, received_at)
    VALUES (%(source)s, %(event_id)s, %(kind)s, %(mail_id)s, %(address)s, %(occurred_at)s, %(detail)s,
            clock_timestamp())
    ON CONFLICT (source, event_id) DO NOTHING RETURNING id
"""
EVIDENCE = """
    SELECT DISTINCT ON (attempt.id) attempt.id, report.kind, report.source
      FROM outreach_message message
      JOIN outreach_sendattempt attempt ON attempt.message_id = message.id AND attempt.status = 'in_doubt'
      JOIN outreach_providerevent report ON report.mail_id = attempt.mail_id AND report.mail_id <> ''
           AND report.received_at >= attempt.begun_at AND report.kind = ANY (%(kinds)s)
     WHERE message.status = 'in_doubt'
     ORDER BY attempt.id, report.id LIMIT %(most)s
"""
