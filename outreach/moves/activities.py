"""Have the CRM know of sent mails as completed tasks: what the settlement could not tell it yet.

A campaign says whether its mails are logged. The settlement of such a mail puts the task into the outbox, in its own
transaction (sql/log_activity.sql). Nobody is nudged for it: the sweep of the outbox takes a minute's tasks together,
for each call counts against what the org allows in a day.
"""

from django.db import connection, transaction


def log_owed(*, most: int = 1_000) -> int:
    """Log the sent mails of leads that got their first rep since then, up to `most`; return how many.

    Opens a transaction. The lock proves that the mail is still owed; another run skips it.
    """
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(LOG_OWED, {"most": most})
        (logged,) = cursor.fetchone()
    return int(logged)


LOG_OWED = """
    WITH owed AS MATERIALIZED (
        SELECT attempt.id
          FROM outreach_sendattempt attempt
          JOIN outreach_message message ON message.id = attempt.message_id
          JOIN outreach_enrolment enrolment ON enrolment.id = message.enrolment_id
          JOIN routing_lead lead ON lead.id = enrolment.lead_id
         WHERE attempt.activity_owed AND lead.first_assigned_at IS NOT NULL
         ORDER BY attempt.id LIMIT %(most)s FOR NO KEY UPDATE OF attempt SKIP LOCKED)
    SELECT count(*) FILTER (WHERE outreach_log_activity(id)) FROM owed
"""
