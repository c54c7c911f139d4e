"""How long the org takes for a call, and for each row in it, as Rota's own last calls showed."""

from django.db import connection

from crmsync.push.planning import Pace

LEAST = 5  # calls, before they are believed
# Of the last five thousand attempts: seconds of each call over its rows, and the straight line through them.
LINE = """
WITH recent AS (
    SELECT a.claim_id, a.message_id FROM crmsync_attempt AS a
     WHERE a.outcome = 'delivered' ORDER BY a.id DESC LIMIT 5000
), calls AS (
    SELECT r.claim_id, count(*) AS rows, min(r.message_id) AS message FROM recent AS r GROUP BY r.claim_id
), timed AS (
    SELECT extract(epoch FROM c.ended_at - c.begun_at)::float8 AS seconds, calls.rows
      FROM calls JOIN crmsync_claim AS c ON c.token = calls.claim_id
      JOIN crmsync_outboxmessage AS m ON m.id = calls.message JOIN crmsync_crmrecord AS r ON r.id = m.record_id
     WHERE r.object = %s AND c.begun_at IS NOT NULL AND c.ended_at IS NOT NULL
)
SELECT count(*), regr_intercept(seconds, rows), regr_slope(seconds, rows), avg(seconds), avg(rows)::float8 FROM timed
"""


def measured_pace(object: str) -> Pace:
    """The pace of the last calls for this object; a stated guess where there were too few."""
    with connection.cursor() as cursor:
        cursor.execute(LINE, [object])
        calls, call_s, row_s, mean_s, mean_rows = cursor.fetchone()
    if calls < LEAST:
        return Pace()
    if call_s is None or row_s is None or call_s < 0 or row_s < 0:  # all of one size, or no line
        return Pace(call_s=0.0, row_s=mean_s / mean_rows, measured=True)
    return Pace(call_s=call_s, row_s=row_s, measured=True)
