"""Who could take a turn right now, and why the others could not.

It reads what take_turns reads and uses its words, without the turnstile: an answer for a screen, true at the moment
it was given.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime

from django.db import connection

from routing.models.team import SCALE


@dataclass(frozen=True)
class Seat:
    """A member of a team as a turn would find them now. `why_not` is empty for a candidate."""

    membership_id: int
    team_id: int
    rep_id: int
    rep_name: str
    weight: int
    lag: float
    last_turn: int
    last_at: datetime | None
    why_not: str
    back_at: datetime | None

    @property
    def present(self) -> bool:
        return not self.why_not


def seats(*, team_ids: Sequence[int]) -> dict[int, list[Seat]]:
    """The members of these teams, by team: active ones by name, then those who do not take part."""
    found: dict[int, list[Seat]] = {team_id: [] for team_id in team_ids}
    with connection.cursor() as cursor:
        cursor.execute(SEATS, [SCALE, list(team_ids)])
        for row in cursor.fetchall():
            values = dict(zip(COLUMNS, row, strict=True))
            seat = Seat(**{**values, "lag": float(values["lag"])})
            found[seat.team_id].append(seat)
    return found


COLUMNS = tuple(field.name for field in fields(Seat))
SEATS = """
    SELECT m.id, m.team_id, r.id, r.name, m.weight, m.lag::numeric / %s, m.last_turn,
           (SELECT a.assigned_at FROM routing_assignment a
             WHERE a.membership_id = m.id ORDER BY a.assigned_at DESC LIMIT 1),
           CASE WHEN t.retired_at IS NOT NULL THEN 'team retired'
                WHEN r.retired_at IS NOT NULL THEN 'retired'
                WHEN NOT m.active THEN 'takes no part'
                WHEN hours.off IS NOT NULL THEN hours.off
                WHEN cap.room <= 0 THEN cap.kind || ' cap'
                ELSE '' END,
           CASE WHEN hours.off IS NOT NULL THEN
                (SELECT min(lower(s.during)) FROM routing_shift s
                  WHERE s.rep_id = r.id AND lower(s.during) > clock_timestamp()) END
      FROM routing_membership m
      JOIN routing_team t ON t.id = m.team_id
      JOIN routing_rep r ON r.id = m.rep_id
     CROSS JOIN LATERAL (
           SELECT CASE WHEN t.outside_hours <> 'ignore' THEN off_because(r, clock_timestamp()) END AS off) hours
      LEFT JOIN LATERAL (
           SELECT p.cap - coalesce(n.count, 0) AS room, p.kind
             FROM rep_periods_of(r, clock_timestamp()) p
             LEFT JOIN routing_repcount n ON n.rep_id = r.id AND n.kind = p.kind AND n.since = p.since
            ORDER BY p.cap - coalesce(n.count, 0) LIMIT 1) cap ON true
     WHERE m.team_id = ANY (%s)
     ORDER BY m.team_id, NOT m.active OR r.retired_at IS NOT NULL, r.name, m.id
"""
