"""Narrow a list to one team, by its name."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from routing.models import Team


class TeamFilter(admin.SimpleListFilter):
    """The teams by name, from their own small table: never a DISTINCT over the long one."""

    title = "team"
    parameter_name = "team"
    field = "team_id"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(str(pk), name) for pk, name in Team.objects.order_by("name").values_list("pk", "name")[:100]]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        value = self.value() or ""
        return queryset.filter(**{self.field: int(value)}) if value.isdigit() else queryset


class MemberTeamFilter(TeamFilter):
    """The same for rows that belong to a member of a team."""

    field = "membership__team_id"
