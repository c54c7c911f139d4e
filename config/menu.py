"""The sidebar: groups of what people look for, in the words they use, with the counts that ask for work."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet
from django.urls import reverse

from crmsync.desk.tabs import MOST, count_of
from crmsync.desk.words import capped
from crmsync.models import DeadLetter, LockFailure
from outreach.models import InDoubt, NoticeMail
from routing.models import InboundEvent, InboundSource, Lead, ServiceBreach


@dataclass(frozen=True)
class Entry:
    """One line of the sidebar: an admin page, its label, and the rows whose count it shows.

    `page` names a page that is no list, for those who may see the rows of the model.
    """

    model: str
    label: str = ""
    badge: Callable[[], QuerySet[Any]] | None = None
    alarming: bool = False
    page: str = ""


@dataclass(frozen=True)
class Group:
    name: str
    entries: tuple[Entry, ...]


MENU = (
    Group(
        "Today",
        (
            Entry("routing.lead", badge=lambda: Lead.objects.waiting()),
            Entry(
                "routing.servicebreach",
                "Late leads",
                badge=lambda: ServiceBreach.objects.still_open(),
                alarming=True,
            ),
            Entry("routing.assignment"),
            Entry("routing.handover"),
            Entry("routing.run"),
        ),
    ),
    Group(
        "Team",
        (
            Entry("routing.team"),
            Entry("routing.rep"),
            Entry("routing.membership"),
            Entry("routing.membership", "Fairness", page="admin:fairness"),
            Entry("routing.credit"),
            Entry("routing.shift"),
            Entry("routing.holiday"),
        ),
    ),
    Group(
        "Rules",
        (Entry("routing.rulebook"), Entry("routing.account")),
    ),
    Group(
        "Sources",
        (
            Entry("routing.inboundsource", badge=lambda: InboundSource.objects.silent(), alarming=True),
            Entry("routing.inboundevent", badge=lambda: InboundEvent.objects.stuck(), alarming=True),
            Entry("routing.import"),
            Entry("routing.delivery"),
        ),
    ),
    Group(
        "Outreach",
        (
            Entry("outreach.campaign"),
            Entry("outreach.message", "Mails"),
            Entry("outreach.indoubt", "In doubt", badge=lambda: InDoubt.objects.all(), alarming=True),
            Entry(
                "outreach.noticemail",
                "Notices to reps",
                badge=lambda: NoticeMail.objects.filter(status__in=("in_doubt", "refused")),
                alarming=True,
            ),
            Entry("outreach.suppression"),
            Entry("outreach.claim"),
            Entry("outreach.sendingstate", "Sending"),
            Entry("outreach.message", "Mailbox", page="admin:mailbox"),
            Entry("outreach.providerevent", "Reports on mails"),
            Entry("outreach.agent"),
            Entry("outreach.leadhold", "Work on leads"),
        ),
    ),
    Group(
        "CRM",
        (
            Entry("crmsync.lockfailure", badge=lambda: LockFailure.objects.all(), alarming=True),
            Entry("crmsync.deadletter", badge=lambda: DeadLetter.objects.all(), alarming=True),
            Entry("crmsync.batch", "Mass updates"),
            Entry("crmsync.outboxmessage", "Outbox"),
            Entry("crmsync.bulkjob"),
            Entry("crmsync.lane"),
            Entry("crmsync.claim"),
            Entry("crmsync.attempt"),
            Entry("crmsync.attempt", "Contention", page="admin:contention"),
            Entry("crmsync.fieldmapping", "Field mapping"),
            Entry("crmsync.orgstate", "Org"),
            Entry("crmsync.intervention", "By hand"),
        ),
    ),
)
REST = "System"


def grouped(apps: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Django's list of apps, which says what this person may see, in Rota's groups; what no group names is System."""
    seen = {f"{app['app_label']}.{m['object_name'].lower()}": m for app in apps for m in app["models"]}
    groups = []
    for group in MENU:
        lines = [_line(entry, seen[entry.model]) for entry in group.entries if entry.model in seen]
        if lines:
            groups.append(_group(group.name, lines))
    named = {entry.model for group in MENU for entry in group.entries}
    rest = [model for name, model in seen.items() if name not in named]
    return [*groups, _group(REST, rest)] if rest else groups


def _line(entry: Entry, model: dict[str, Any]) -> dict[str, Any]:
    line = {**model, "name": entry.label or model["name"]}
    if entry.page:
        line["admin_url"] = reverse(entry.page)
    if entry.badge:
        count = count_of(f"menu {entry.model}", entry.badge())
        if count:
            line |= {"badge": capped(count, MOST), "alarming": entry.alarming}
    return line


def _group(name: str, lines: list[dict[str, Any]]) -> dict[str, Any]:
    label = name.lower()
    return {"name": name, "app_label": label, "app_url": "", "has_module_perms": True, "models": lines}
