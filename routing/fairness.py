"""Who was due what, who got what, and why anybody was passed over: the fairness of a team over a period.

Read from the turns themselves, each of which knows its candidates: nothing is estimated. Within the period it holds for
every member that due - received + credits is what their lag moved by.
"""

from collections import Counter
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from django.db import connection

from routing.models import Membership, Roster, Team
from routing.models.team import SCALE
from routing.shares import due

REASONS = {
    "day cap": "cap",
    "week cap": "cap",
    "open cap": "cap",
    "cap reached": "cap",
    "not among those allowed": "skill",
    "another was chosen": "by hand",
}
STEPS = {"sticky owner": "sticky", "account owner": "account", "named rep": "named rep"}


@dataclass
class Share:
    """A member's part of a period, in leads. `direct` of the `received` were given past the turns; `lag` is today's.

    `skipped` counts the turns for which the member was no candidate, by reason; `longest_run` the most turns in a row.
    """

    member: int
    rep: str
    weight: int
    active: bool
    lag: float
    due: float = 0.0
    received: int = 0
    direct: int = 0
    credits: float = 0.0
    longest_run: int = 0
    skipped: dict[str, int] = field(default_factory=dict)

    @property
    def behind(self) -> float:
        """Leads the member was due in the period, credits included, and did not get; below nought: got beyond that."""
        return self.due + self.credits - self.received


@dataclass(frozen=True)
class Report:
    """A team's turns from `since` (included) to `until` (not included), member by member."""

    team: str
    since: datetime
    until: datetime
    turns: int
    shares: list[Share]

    def as_dict(self) -> dict[str, Any]:
        """The same in plain values for --json; leads with three decimals."""
        rows = [
            {
                **asdict(share),
                "due": round(share.due, 3),
                "lag": round(share.lag, 3),
                "credits": round(share.credits, 3),
            }
            for share in self.shares
        ]
        return {
            "team": self.team,
            "since": self.since.isoformat(),
            "until": self.until.isoformat(),
            "turns": self.turns,
            "members": rows,
        }


def report(*, team: Team, since: datetime, until: datetime) -> Report:
    """The fairness of a team over a period: four statements, whatever the number of turns."""
    members = Membership.objects.filter(team=team).select_related("rep").order_by("rep__name", "pk")
    shares = {
        member.pk: Share(
            member.pk,
            member.rep.name,
            member.weight,
            member.active and member.rep.retired_at is None,
            member.lag / SCALE,
        )
        for member in members
    }
    values: dict[str, Any] = {"team": team.pk, "since": since, "until": until}
    turns = _add_turns(shares, values)
    with connection.cursor() as cursor:
        cursor.execute(CREDITS, values)
        for member, amount in cursor.fetchall():
            shares[member].credits = int(amount) / SCALE
        cursor.execute(LONGEST_RUNS, values)
        for member, run in cursor.fetchall():
            shares[member].longest_run = run
    return Report(team.name, since, until, turns, list(shares.values()))


def _add_turns(shares: dict[int, Share], values: dict[str, Any]) -> int:
    """Add due, received and skipped, roster by roster: the turns that share a roster have the same candidates."""
    with connection.cursor() as cursor:
        cursor.execute(TURNS, values)
        groups = cursor.fetchall()
    rosters = Roster.objects.in_bulk({roster for roster, *_ in groups})
    owed: Counter[int] = Counter()
    skipped: dict[int, Counter[str]] = {member: Counter() for member in shares}
    turns = 0
    for roster_id, member, direct, step, count in groups:
        roster = rosters[roster_id]
        turns += count
        for candidate, amount in due(weights={int(pk): weight for pk, weight in roster.candidates.items()}).items():
            owed[candidate] += amount * count
        for passed_over, reason in roster.skipped.items():
            word = STEPS.get(step, reason) if reason == "another is preferred" else REASONS.get(reason, reason)
            skipped[int(passed_over)][word] += count
        shares[member].received += count
        shares[member].direct += count if direct else 0
    for pk, share in shares.items():
        share.due = owed[pk] / SCALE
        share.skipped = dict(skipped[pk].most_common())
    return turns


TURNS = """
    SELECT a.roster_id, a.membership_id, a.preferred OR a.chosen_by <> '' AS direct,
           CASE WHEN a.preferred THEN l.why ->> 'preferred' END AS step, count(*)
      FROM routing_assignment a JOIN routing_lead l ON l.id = a.lead_id
     WHERE a.team_id = %(team)s AND a.assigned_at >= %(since)s AND a.assigned_at < %(until)s
     GROUP BY 1, 2, 3, 4
"""
CREDITS = """
    SELECT c.membership_id, sum(c.amount) FROM routing_credit c JOIN routing_membership m ON m.id = c.membership_id
     WHERE m.team_id = %(team)s AND c.created_at >= %(since)s AND c.created_at < %(until)s
     GROUP BY 1
"""
# Turns in a row by one member: among them the difference of the two numberings stays the same.
LONGEST_RUNS = """
    SELECT membership_id, max(length) FROM (
        SELECT membership_id, count(*) AS length FROM (
            SELECT membership_id, row_number() OVER (ORDER BY turn)
                                  - row_number() OVER (PARTITION BY membership_id ORDER BY turn) AS run
              FROM routing_assignment
             WHERE team_id = %(team)s AND assigned_at >= %(since)s AND assigned_at < %(until)s) numbered
         GROUP BY membership_id, run) runs
     GROUP BY membership_id
"""
