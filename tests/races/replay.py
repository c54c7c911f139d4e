"""Replay a team's turns one by one from what was committed, and hold them against the rule in exact arithmetic."""

from dataclasses import dataclass, field
from fractions import Fraction

from routing.models import Assignment, Lead, Membership, Team, Turnstile
from routing.models.team import ROUNDING, SCALE
from tests.races.crowd import rows


@dataclass
class Replayed:
    """`worst` is the largest |lag| at any commit, in leads; `counts` the turns of each membership."""

    turns: int = 0
    worst: float = 0.0
    counts: dict[int, int] = field(default_factory=dict)

    @property
    def spread(self) -> int:
        return max(self.counts.values()) - min(self.counts.values())


def pick(candidates: dict[int, int], lags: dict[int, int], lasts: dict[int, int]) -> int:
    """The rule of the turns, once the shares of the lead are given out."""
    total = sum(candidates.values())
    owed = [member for member in candidates if lags[member] > ROUNDING]
    if owed:
        return min(
            owed, key=lambda m: (Fraction((SCALE - lags[m]) * total, candidates[m]), lasts[m], m)
        )  # the earliest finish, then the oldest last turn, then id
    return min(candidates, key=lambda m: (-lags[m], lasts[m], m))


def replay(team: Team) -> Replayed:
    """Replay every turn of the team; AssertionError where one differs from the rule or from what is stored."""
    members = {m.pk: m for m in Membership.objects.filter(team=team)}
    lags, lasts = dict.fromkeys(members, 0), dict.fromkeys(members, 0)
    replayed = Replayed(counts=dict.fromkeys(members, 0))
    turns = Assignment.objects.filter(team=team).select_related("roster").order_by("turn")
    for number, turn in enumerate(turns, start=1):
        assert turn.turn == number, "turns are numbered without gaps"
        candidates = {int(member): weight for member, weight in turn.roster.candidates.items()}
        skipped = {int(member) for member in turn.roster.skipped}
        assert turn.roster.team_id == team.pk and turn.membership_id in candidates
        assert not skipped & set(candidates) and skipped | set(candidates) <= set(members)
        assert not turn.preferred or len(candidates) == 1
        winner, total = turn.membership_id, sum(candidates.values())
        assert turn.lag_before == lags[winner]
        due = {member: SCALE * weight // total for member, weight in candidates.items()}
        for member in candidates:
            lags[member] += due[member]
        assert winner == pick(candidates, lags, lasts), f"turn {number} went to somebody else than the rule says"
        lags[winner] -= sum(due.values())
        lasts[winner] = number
        assert turn.lag_after == lags[winner]
        assert sum(lags.values()) == 0
        replayed.worst = max(replayed.worst, max(map(abs, lags.values())) / SCALE)
        replayed.counts[winner] += 1
        replayed.turns = number
    assert {pk: (m.lag, m.last_turn) for pk, m in members.items()} == {m: (lags[m], lasts[m]) for m in members}
    stored = Turnstile.objects.filter(team=team).values_list("turn", flat=True).first()
    assert (stored or 0) == replayed.turns
    return replayed


def nothing_lost_nothing_twice() -> None:
    """Every lead is assigned once, or visibly not; everything assigned is in the outbox once."""
    assert not rows(
        "SELECT lead_id FROM routing_assignment WHERE ended_at IS NULL GROUP BY lead_id HAVING count(*) > 1"
    )
    current = set(Assignment.objects.filter(ended_at=None).values_list("lead_id", flat=True))
    assert current == set(Lead.objects.filter(status=Lead.Status.ASSIGNED).values_list("pk", flat=True))
    told = [row[0] for row in rows("SELECT external_id FROM crmsync_crmrecord WHERE object = 'Lead'")]
    given = Assignment.objects.values_list("lead__uid", flat=True).distinct()
    assert sorted(told) == sorted(map(str, given))
    assert not rows("SELECT record_id FROM crmsync_outboxmessage GROUP BY record_id HAVING count(*) <> 1")


def caps_held() -> None:
    """No rep has had more than a cap allows, and the counters say what the assignments say."""
    for rep, name, kind, since, count, cap, counted in rows(RECOUNT):
        assert counted <= cap, f"{name} had {counted} of {cap} {kind}"
        assert count == counted, f"counter of rep {rep}, {kind} {since}: {count}, assignments say {counted}"


RECOUNT = """
    SELECT r.id, r.name, c.kind, c.since, c.count,
           CASE c.kind WHEN 'day' THEN r.day_cap WHEN 'week' THEN r.week_cap ELSE r.open_cap END AS cap,
           (SELECT count(*) FROM routing_assignment a JOIN routing_membership m ON m.id = a.membership_id
             WHERE m.rep_id = r.id AND CASE c.kind
                 WHEN 'day' THEN (a.assigned_at AT TIME ZONE r.zone)::date = c.since
                 WHEN 'week' THEN date_trunc('week', a.assigned_at AT TIME ZONE r.zone)::date = c.since
                 ELSE a.ended_at IS NULL END)
      FROM routing_repcount c JOIN routing_rep r ON r.id = c.rep_id
     WHERE CASE c.kind WHEN 'day' THEN r.day_cap WHEN 'week' THEN r.week_cap ELSE r.open_cap END IS NOT NULL
"""
