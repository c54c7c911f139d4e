"""Notice that a source has fallen silent: a dead token or a lost subscription makes no error, only no leads.

Looked at by the clock, so that nothing on the way of an event pays for it. It is logged once when it begins and once
when it is over; meanwhile the home page and the list of sources show it.
"""

import logging
from dataclasses import dataclass

from django.db import connection

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Watched:
    """Sources that fell silent, and sources that are heard again, since the last look."""

    silent: int
    heard: int


def watch() -> Watched:
    """Mark the sources from which nothing came for longer than they promise, and take the mark off the others."""
    with connection.cursor() as cursor:
        cursor.execute(MARK)
        silent = cursor.fetchall()
        cursor.execute(UNMARK)
        heard = cursor.fetchall()
    for slug, hours in silent:
        logger.warning("source silent source=%s expected_within_h=%s", slug, hours)
    for slug, hours in heard:
        logger.warning("source heard again source=%s expected_within_h=%s", slug, hours)
    return Watched(len(silent), len(heard))


# By inbound_event_of_source one row a source. What came counts, whether or not a lead could be made of it; a source
# that was just made, switched on or given another limit has that long from then.
LATEST = """
    SELECT source.id, source.slug, source.expects_within_h,
           greatest(source.watched_from, (SELECT event.received_at FROM routing_inboundevent event
                                           WHERE event.source_id = source.id ORDER BY event.id DESC LIMIT 1)) AS at
      FROM routing_inboundsource source
"""
MARK = f"""
    UPDATE routing_inboundsource source SET silent_since = latest.at FROM ({LATEST}) latest
     WHERE source.id = latest.id AND source.active AND source.silent_since IS NULL
       AND latest.at < clock_timestamp() - make_interval(hours => source.expects_within_h)
    RETURNING source.slug, source.expects_within_h
"""
UNMARK = f"""
    UPDATE routing_inboundsource source SET silent_since = NULL FROM ({LATEST}) latest
     WHERE source.id = latest.id AND source.silent_since IS NOT NULL
       AND (NOT source.active OR source.expects_within_h IS NULL
            OR latest.at >= clock_timestamp() - make_interval(hours => source.expects_within_h))
    RETURNING source.slug, source.expects_within_h
"""
