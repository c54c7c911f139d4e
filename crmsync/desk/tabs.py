"""Tabs over a list, one for each state a row can be in, with counts where counting is cheap."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib.admin import ModelAdmin, SimpleListFilter
from django.contrib.admin.views.main import ChangeList
from django.core.cache import cache
from django.db.models import QuerySet
from django.http import HttpRequest

from crmsync.desk.lists import count_up_to
from crmsync.desk.words import capped

MOST = 1_000
SECONDS = 5
SINCE = "counts-since"

Narrow = Callable[[QuerySet[Any]], QuerySet[Any]]


@dataclass(frozen=True)
class Tab:
    """One tab: its name in the address, its label, its rows, and whether an index makes their count cheap."""

    name: str
    label: str
    rows: Narrow
    counted: bool = False
    alarming: bool = False


def count_of(key: str, rows: QuerySet[Any]) -> int:
    """The count for a badge, up to 1,001; remembered for a few seconds, for every page shows it."""
    known = f"count {cache.get(SINCE, 0)} {key}".replace(" ", "-")
    return int(cache.get_or_set(known, lambda: count_up_to(rows, MOST), SECONDS) or 0)


def count_anew() -> None:
    """Forget the remembered counts: somebody has just changed rows and will look at them."""
    cache.set(SINCE, time.time_ns(), SECONDS * 2)


class Tabs(SimpleListFilter):
    """The list filter that is drawn as tabs above the list. The first tab, without a name, is what opens."""

    tabs: Sequence[Tab] = ()
    are_tabs = True

    def __init__(self, request: HttpRequest, params: dict[str, Any], model: type[Any], model_admin: ModelAdmin) -> None:
        super().__init__(request, params, model, model_admin)
        self.all = model_admin.get_queryset(request)
        self.of = model_admin.opts.label

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin) -> list[tuple[str, str]]:
        return [(tab.name, tab.label) for tab in self.tabs]

    def current(self) -> Tab:
        return next((tab for tab in self.tabs if tab.name == (self.value() or "")), self.tabs[0])

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return self.current().rows(queryset)

    def choices(self, changelist: ChangeList) -> Iterator[Any]:
        here = self.current()
        for tab in self.tabs:
            count = count_of(f"{self.of} {tab.name}", tab.rows(self.all)) if tab.counted else None
            yield {
                "selected": tab is here,
                "query_string": changelist.get_query_string({str(self.parameter_name): tab.name or None}),
                "display": tab.label,
                "count": capped(count, MOST) if count else "",
                "alarming": tab.alarming and bool(count),
            }
