"""What Rota does by the clock. `manage.py sync_schedules` makes django-q2's table say the same."""

from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django_q.models import Schedule


@dataclass(frozen=True)
class Every:
    """A task without arguments, named by its dotted path, run every so many minutes by the `default` queue.

    q2 looks at its clock every thirty seconds, so one minute is the shortest that means anything.
    """

    minutes: int
    task: str


SCHEDULES = {
    "sweep waiting leads": Every(1, "routing.tasks.sweep"),
    "sweep the outbox": Every(1, "crmsync.tasks.sweep"),
    "fetch leads behind ids": Every(1, "routing.tasks.fetch"),
    "watch for silent sources": Every(5, "routing.tasks.watch_sources"),
    "forget old bodies": Every(60, "routing.tasks.prune_bodies"),
    "forget old answers, events and files": Every(60, "routing.tasks.prune"),
    "keep service levels": Every(1, "routing.tasks.keep_service_levels"),
    "plan shifts": Every(6 * 60, "routing.tasks.plan_shifts"),
    "reap expired claims": Every(1, "crmsync.tasks.reap"),
    "look after mass updates": Every(1, "crmsync.tasks.look_after_batches"),
    "prune the outbox": Every(10, "crmsync.tasks.prune_outbox"),
    "match CRM users": Every(10, "config.tasks.match_crm_users"),
    "read back owners from the CRM": Every(1, "config.tasks.read_back_owners"),
    "wake the sender of campaign mail": Every(1, "outreach.tasks.wake_sender"),
    "tell reps of their leads": Every(1, "outreach.tasks.wake_notices"),
    "reap expired claims on mails": Every(1, "outreach.tasks.reap"),
}


@dataclass(frozen=True)
class Synced:
    """How many schedules were created, changed and removed."""

    created: int
    changed: int
    removed: int


def sync_schedules(wanted: dict[str, Every] | None = None) -> Synced:
    """Make the database's schedules those of the code; a row that is right keeps its next run. Opens a transaction.

    Whatever else is there goes: one malformed row (q2's admin accepts any arguments) stops every schedule of every
    cluster.
    """
    wanted = SCHEDULES if wanted is None else wanted
    created = changed = 0
    with transaction.atomic(durable=True):
        existing = list(Schedule.objects.select_for_update().order_by("pk"))
        kept: dict[str, Schedule] = {row.name: row for row in reversed(existing) if row.name in wanted}
        for name, every in wanted.items():
            row = kept.get(name)
            if row is None:
                Schedule.objects.create(name=name, **columns(every))
                created += 1
            elif different := {key: value for key, value in columns(every).items() if getattr(row, key) != value}:
                Schedule.objects.filter(pk=row.pk).update(**different)
                changed += 1
        stale = {row.pk for row in existing} - {row.pk for row in kept.values()}
        Schedule.objects.filter(pk__in=stale).delete()
    return Synced(created, changed, len(stale))


def columns(every: Every) -> dict[str, Any]:
    """The row of that schedule; no arguments, no repeat count, no queue of its own, no hook."""
    return {
        "func": every.task,
        "schedule_type": Schedule.MINUTES,
        "minutes": every.minutes,
        "repeats": -1,
        "args": None,
        "kwargs": None,
        "hook": None,
        "cron": None,
        "cluster": None,
        "intended_date_kwarg": None,
    }
