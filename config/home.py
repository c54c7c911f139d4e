"""The numbers of the home page: what waits, what is late, what failed, and whether everybody gets their share.

Pure queries, each of which reads an index and stops early: the page stays as fast with a million leads, and everybody
who has it open asks again every few seconds.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.core.cache import cache
from django.db import connection
from django.db.models import Count, QuerySet
from django.utils import timezone

from config.pauses import Pause, pauses
from crmsync.desk.lists import count_up_to
from crmsync.desk.words import age, capped, span
from crmsync.models import Attempt, BulkJob, DeadLetter, LockFailure, OutboxMessage
from crmsync.moves.open_batches import waiting_since
from crmsync.moves.org import not_writing
from outreach.models import Campaign, Message
from outreach.moves.sending import seen
from routing.explain import lag_in_short
from routing.models import Assignment, InboundEvent, InboundSource, Lead, ServiceBreach, Team
from routing.models.team import SCALE
from routing.presence import Seat, seats

MOST = 10_000
TEAMS = 20
"""How many teams the page shows; the rest is under Teams."""
LATE_AFTER = {
    OutboxMessage.Priority.INTERACTIVE: timedelta(seconds=30),
    OutboxMessage.Priority.MASS: timedelta(hours=1),
}
STILL_AFTER = timedelta(minutes=1)


@dataclass(frozen=True)
class Row:
    """A rep of a team: received against due, and the place of the mark on the bar, in a hundred and twenty."""

    seat: Seat
    received: int
    due: float
    start: float
    width: float
    words: str

    @property
    def last(self) -> str:
        return f"turn {self.seat.last_turn:,}" if self.seat.last_turn else "none yet"

    @property
    def last_age(self) -> str:
        return age(self.seat.last_at) if self.seat.last_at else ""


@dataclass(frozen=True)
class TeamTable:
    team: Team
    rows: list[Row]
    waiting: str


@dataclass(frozen=True)
class Overdue:
    """The oldest due message of a priority: how long it has been due, whether that is late, and whether nothing of that
    priority has moved lately though it may."""

    label: str
    age: str
    late: bool
    still: bool = False

    @property
    def words(self) -> str:
        return "standing still" if self.still else "late" if self.late else "in time"


@dataclass(frozen=True)
class Mailing:
    """Campaign mail: how much is due and for how long, how much is in doubt, and why sending is off, if it is."""

    due: str
    oldest_due: str
    in_doubt: str
    off: str
    off_until: datetime | None


@dataclass(frozen=True)
class Numbers:
    at: datetime
    waiting: str
    oldest_waiting: str
    set_aside: str
    late_leads: str
    last_hour: str
    last_day: str
    overdue: list[Overdue]
    lock_failures: str
    dead_letters: str
    pauses: list[Pause]
    teams: list[TeamTable]
    more_teams: int
    mail: Mailing | None
    stuck: str
    silent: list[InboundSource]

    @property
    def late(self) -> bool:
        return any(row.late or row.still for row in self.overdue)


def numbers() -> Numbers:
    """All of them, as of now."""
    now = timezone.now()
    oldest = Lead.objects.waiting().order_by("id").values_list("created_at", flat=True).first()
    hour, day = arrivals()
    tables, more = team_tables()
    return Numbers(
        at=now,
        waiting=counted(Lead.objects.waiting()),
        oldest_waiting=age(oldest, now) if oldest else "",
        set_aside=counted(Lead.objects.filter(status=Lead.Status.SET_ASIDE)),
        late_leads=counted(ServiceBreach.objects.still_open()) if measured() else "",
        last_hour=hour,
        last_day=day,
        overdue=overdue(now),
        lock_failures=counted(LockFailure.objects.all()),
        dead_letters=counted(DeadLetter.objects.all()),
        pauses=pauses(now),
        teams=tables,
        more_teams=more,
        mail=mailing(now) if Campaign.objects.exists() else None,
        stuck=counted(InboundEvent.objects.stuck()),
        silent=list(InboundSource.objects.silent().order_by("silent_since")[:TEAMS]),
    )


def measured() -> bool:
    """Whether any team has a service level, so that leads can be late."""
    return Team.objects.filter(service_minutes__isnull=False, retired_at=None).exists()


def mailing(now: datetime) -> Mailing:
    """What campaign mail stands at. Mails of a paused campaign wait, and are not due."""
    due = Message.objects.due().filter(campaign__in=list(Campaign.objects.running().values_list("pk", flat=True)))
    oldest = due.order_by("due_at").values_list("due_at", flat=True).first()
    sending = seen()
    off = sending.off or ("" if sending.relay else "no relay is configured")
    doubt = counted(Message.objects.in_doubt())
    return Mailing(counted(due), age(oldest, now) if oldest else "", doubt, off, sending.until)


def counted(rows: QuerySet) -> str:
    return capped(count_up_to(rows, MOST), MOST)


def arrivals() -> tuple[str, str]:
    """Leads that came in the last hour and the last day, among the newest 10,001."""
    with connection.cursor() as cursor:
        cursor.execute(ARRIVALS, [MOST + 1])
        hour, day = cursor.fetchone()
    return capped(hour, MOST), capped(day, MOST)


def overdue(now: datetime) -> list[Overdue]:
    """For each priority, the message that has been due longest; none where nothing is due."""
    found = []
    urgent = OutboxMessage.objects.ripe().filter(priority=OutboxMessage.Priority.INTERACTIVE)
    oldest = {
        OutboxMessage.Priority.INTERACTIVE: urgent.order_by("due_at", "id").values_list("due_at", flat=True).first(),
        OutboxMessage.Priority.MASS: waiting_since(),
    }
    for priority, late_after in LATE_AFTER.items():
        if due_at := oldest[priority]:
            waited = max(timedelta(0), now - due_at)
            still = priority == OutboxMessage.Priority.MASS and waited > STILL_AFTER and mass_stands_still(now)
            found.append(Overdue(str(priority.label), span(now - waited, now), waited > late_after, still))
    return found


def mass_stands_still(now: datetime) -> bool:
    """Nothing of a mass update has had an outcome lately, nobody has paused the org, and no bulk job is under way."""
    if not_writing() or BulkJob.objects.unfinished().exists():
        return False
    begun = now - STILL_AFTER - timedelta(seconds=settings.CRM_TIMEOUT_S)
    tries = Attempt.objects.filter(begun_at__gte=begun, ended_at__gte=now - STILL_AFTER)
    return not tries.filter(message__priority=OutboxMessage.Priority.MASS).exists()


def team_tables() -> tuple[list[TeamTable], int]:
    """Each team with its members; and how many teams were left out."""
    found = list(Team.objects.filter(retired_at=None).order_by("name")[: TEAMS + 1])
    more = Team.objects.filter(retired_at=None).count() - TEAMS if len(found) > TEAMS else 0
    teams = found[:TEAMS]
    by_team = seats(team_ids=[team.pk for team in teams])
    received = received_by_member([seat.membership_id for team in teams for seat in by_team[team.pk]])
    return [
        TeamTable(
            team,
            [row(seat, received.get(seat.membership_id, 0)) for seat in by_team[team.pk]],
            counted(Lead.objects.waiting().filter(team=team)),
        )
        for team in teams
    ], more


def row(seat: Seat, received: int) -> Row:
    """Due is what was received and what is still owed. The bar begins at its middle and ends at two leads."""
    reach = min(60.0, abs(seat.lag) * 30)
    words = lag_in_short(round(seat.lag * SCALE))
    return Row(seat, received, received + seat.lag, 61 - reach if seat.lag > 0 else 61, reach, words)


def received_by_member(member_ids: list[int]) -> dict[int, int]:
    """All the leads each of these members was ever given.

    Assignments are facts: those before today do not change any more. They are counted once in a while, today's each
    time. (An hour's grace, for a turn that began before midnight commits a little later.)
    """
    midnight = (timezone.now() - timedelta(hours=1)).replace(hour=0, minute=0, second=0, microsecond=0)
    by_member = Assignment.objects.order_by().values_list("membership_id").annotate(Count("pk"))
    key = f"received-before-{midnight:%Y-%m-%d}"
    before = cache.get_or_set(key, lambda: dict(by_member.filter(assigned_at__lt=midnight)), 600)
    received: dict[int, int] = dict(before or {})
    for member, count in by_member.filter(membership_id__in=member_ids, assigned_at__gte=midnight):
        received[member] = received.get(member, 0) + count
    return received


ARRIVALS = """
    SELECT count(*) FILTER (WHERE created_at >= now() - interval '1 hour'),
           count(*) FILTER (WHERE created_at >= now() - interval '1 day')
      FROM (SELECT created_at FROM routing_lead ORDER BY id DESC LIMIT %s) newest
"""
