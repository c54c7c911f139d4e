"""The sales floor as a simulation needs it: teams, members, shifts, parts and account owners, read once into memory."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from routing.models import AccountDomain, Membership, Rep, Shift, Team, TeamPart
from routing.rehearsal import Crew, Worker
from routing.shares import Place
from routing.spans import Range


@dataclass(frozen=True)
class Change:
    """A member as they would be: with another weight, or taking no part. A rep who is no member yet joins."""

    team: int
    rep: int
    weight: int | None = None
    active: bool = True


@dataclass
class Floor:
    """Teams in service by key; `owners` by domain; `parts` by key; of members their team, rep and name."""

    crews: dict[int, Crew] = field(default_factory=dict)
    owners: dict[str, int | None] = field(default_factory=dict)
    parts: dict[int, frozenset[int]] = field(default_factory=dict)
    team_of: dict[int, int] = field(default_factory=dict)
    members: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    names: dict[int, str] = field(default_factory=dict)
    teams: dict[int, str] = field(default_factory=dict)

    def member_of(self, rep: int, *, team: int, part: frozenset[int] | None) -> int | None:
        """The rep's membership that a lead of this team and part would prefer; None if there is none it may."""
        allowed = [member for member in self.members.get(rep, ()) if part is None or member in part]
        return min(allowed, key=lambda member: (self.team_of[member] != team, self.team_of[member]), default=None)

    def words(self, team: int, member: int | None) -> str:
        """A destination in words."""
        return self.teams.get(team, f"team {team}") + (f", {self.names[member]}" if member else "")


def read_floor(*, changes: Sequence[Change] = (), ignore_hours: bool = False) -> Floor:
    """The floor as the tables have it, with these changes of members. Five statements."""
    floor = Floor()
    shifts: dict[int, list[Range]] = defaultdict(list)
    if not ignore_hours:
        for rep_id, during in Shift.objects.order_by("during").values_list("rep_id", "during"):
            shifts[rep_id].append((during.lower, during.upper))
    for team in Team.objects.filter(retired_at=None).order_by("pk"):
        floor.teams[team.pk] = team.name
        ignored = ignore_hours or team.outside_hours == Team.OutsideHours.IGNORE
        floor.crews[team.pk] = Crew(team.pk, {}, {}, ignored, team.direct_counts)
    changed = {(change.team, change.rep): change for change in changes}
    workers: dict[int, Worker] = {}
    in_service = Membership.objects.filter(rep__retired_at=None, team__retired_at=None).select_related("rep")
    for member in [*in_service.order_by("pk"), *_newcomers(changes)]:
        change = changed.get(
            (member.team_id, member.rep_id), Change(member.team_id, member.rep_id, None, member.active)
        )
        rep = member.rep
        floor.names[member.pk] = rep.name
        floor.team_of[member.pk] = member.team_id
        if not change.active:
            continue
        if rep.pk not in workers:
            workers[rep.pk] = Worker(rep.pk, rep.tzinfo, rep.day_cap, rep.week_cap, shifts[rep.pk])
        crew = floor.crews[member.team_id]
        crew.places[member.pk] = Place(member.pk, change.weight or member.weight)
        crew.workers[member.pk] = workers[rep.pk]
        floor.members[rep.pk].append(member.pk)
    floor.parts = {part.pk: frozenset(part.members) for part in TeamPart.objects.all()}
    floor.owners = dict(AccountDomain.objects.values_list("domain", "account__owner_id"))
    return floor


def _newcomers(changes: Sequence[Change]) -> list[Membership]:
    """Memberships, with keys below nought and in no table, of those who would join a team."""
    known = set(Membership.objects.values_list("team_id", "rep_id"))
    joining = [change for change in changes if change.active and (change.team, change.rep) not in known]
    reps = Rep.objects.filter(retired_at=None).in_bulk([change.rep for change in joining])
    return [
        Membership(pk=-number, team_id=change.team, rep=reps[change.rep], weight=change.weight or 1)
        for number, change in enumerate(joining, start=1)
        if change.rep in reps
    ]
