"""Teams and the memberships in them: names, weights, who takes part."""

from typing import Any
from zoneinfo import available_timezones

from django.contrib import admin
from django.db.models import Count, Q, QuerySet
from django.forms import ModelForm, TextInput
from django.http import HttpRequest, HttpResponse
from django.utils.safestring import SafeString

from crmsync.desk.confirm import Asked, Question
from crmsync.desk.tabs import Tab, Tabs
from crmsync.desk.words import plural, short
from routing import members
from routing.admin.credits import ask_for_credit
from routing.admin.leads import state
from routing.admin.team_filter import TeamFilter
from routing.admin.turnstile import ChangedBetweenTurns
from routing.explain import balance
from routing.models import Membership, Team
from routing.presence import seats
from routing.service_levels import set_level


class TeamTabs(Tabs):
    title = "service"
    parameter_name = "service"
    tabs = (
        Tab("", "In service", lambda rows: rows.filter(retired_at=None)),
        Tab("retired", "Retired", lambda rows: rows.exclude(retired_at=None)),
    )


LEVEL = ("service_minutes", "when_late", "late_moves")


@admin.register(Team)
class TeamAdmin(ChangedBetweenTurns):
    list_display = ("name", "outside_hours", "takes_part", "retired")
    list_filter = (TeamTabs,)
    ordering = ("name",)
    search_fields = ("name",)
    fieldsets = (
        (None, {"fields": ("name", "zone", "outside_hours", "direct_counts", "notices")}),
        ("Service level", {"fields": LEVEL}),
    )
    actions = ("retire_selected",)
    empty_says = "No teams yet. Add one, then add reps to it under Memberships."

    def get_queryset(self, request: HttpRequest) -> QuerySet[Team]:
        taking_part = Count("memberships", filter=Q(memberships__active=True, memberships__rep__retired_at=None))
        return super().get_queryset(request).annotate(taking_part=taking_part)

    def formfield_for_dbfield(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        if db_field.name == "zone":
            kwargs["widget"] = TextInput(attrs={"list": "zones", "class": "vTextField", "autocomplete": "off"})
        return super().formfield_for_dbfield(db_field, request, **kwargs)

    @admin.display(description="members taking part")
    def takes_part(self, team: Team) -> int:
        return team.taking_part  # type: ignore[attr-defined]

    @admin.display(description="retired")
    def retired(self, team: Team) -> str:
        return short(team.retired_at)

    def save_model(self, request: HttpRequest, obj: Team, form: ModelForm, change: bool) -> None:
        if not change:
            minutes, obj.service_minutes = obj.service_minutes, None  # the level begins by its own move
            obj.save()
            obj.service_minutes = minutes
        if set(LEVEL) & set(form.changed_data):
            set_level(team=obj, minutes=obj.service_minutes, when_late=obj.when_late, moves=obj.late_moves)
        if not change:
            return
        plain = [name for name in ("name", "zone", "notices") if name in form.changed_data]  # no turn reads these
        if plain:
            obj.save(update_fields=plain)
        if "outside_hours" in form.changed_data:
            members.set_outside_hours(team=obj, outside_hours=obj.outside_hours)
        if "direct_counts" in form.changed_data:
            members.set_direct_counts(team=obj, direct_counts=obj.direct_counts)

    def render_change_form(self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        team = context.get("original")
        context["seats"] = seats(team_ids=[team.pk])[team.pk] if team else []
        context["zones"] = sorted(available_timezones())
        return super().render_change_form(request, context, *args, **kwargs)

    def page_actions(self, row: Team) -> dict[str, str]:
        return {} if row.retired_at else {"retire_selected": "Retire"}

    @admin.action(description="Retire selected", permissions=["change"])
    def retire_selected(self, request: HttpRequest, queryset: QuerySet[Team]) -> HttpResponse | None:
        asked = Asked(request, queryset)
        found = Team.objects.filter(pk__in=asked.ids)
        if not asked.confirmed:
            return asked.page(
                self,
                Question(
                    title=f"Retire {plural(len(asked.ids), 'team')}",
                    says="Nobody takes leads in a retired team; its waiting leads stay visible. Sources that still "
                    "send to it should be given another team first. This cannot be undone here.",
                    button="Retire",
                    ready=found.filter(retired_at=None).count(),
                    others="retired already",
                ),
            )
        return self.carry_out(asked, lambda: members.retire_teams(teams=found), "Retired", "already retired")


class PartTabs(Tabs):
    title = "part"
    parameter_name = "part"
    tabs = (
        Tab("", "Taking part", lambda rows: rows.filter(active=True)),
        Tab("no", "Taking no part", lambda rows: rows.filter(active=False)),
    )


@admin.register(Membership)
class MembershipAdmin(ChangedBetweenTurns):
    list_display = ("member", "team", "weight", "stands", "last_turn", "part", "joined")
    list_select_related = ("team", "rep")
    list_filter = (PartTabs, TeamFilter)
    ordering = ("team__name", "rep__name")
    search_fields = ("rep__name", "rep__email")
    search_help_text = "Name or e-mail address of the rep."
    fields = ("team", "rep", "weight")
    actions = ("credit", "let_take_part", "take_out")
    empty_says = "Nobody here. Add a membership to let a rep take turns in a team."

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """Who is retired is not offered."""
        kwargs["queryset"] = db_field.related_model.objects.filter(retired_at=None).order_by("name")
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def get_readonly_fields(self, request: HttpRequest, obj: Membership | None = None) -> tuple[str, ...]:
        return ("team", "rep", "stands", "last_turn", "part", "joined") if obj else ()

    def get_fields(self, request: HttpRequest, obj: Membership | None = None) -> tuple[str, ...]:
        return ("team", "rep", "weight", *(("stands", "last_turn", "part", "joined") if obj else ()))

    @admin.display(description="rep", ordering="rep__name")
    def member(self, membership: Membership) -> str:
        return membership.rep.name

    @admin.display(description="lag", ordering="lag")
    def stands(self, membership: Membership) -> str:
        return balance(membership.lag)

    @admin.display(description="takes part", ordering="active")
    def part(self, membership: Membership) -> SafeString:
        if membership.rep.retired_at:
            return state("closed", "retired")
        return state("ok", "yes") if membership.active else state("closed", "no")

    @admin.display(description="joined", ordering="joined_at")
    def joined(self, membership: Membership) -> str:
        return short(membership.joined_at)

    def save_model(self, request: HttpRequest, obj: Membership, form: ModelForm, change: bool) -> None:
        if not change:
            obj.pk = members.add_member(team=obj.team, rep=obj.rep, weight=obj.weight).pk
        elif "weight" in form.changed_data:
            members.set_weight(membership=obj, weight=obj.weight)

    def page_actions(self, row: Membership) -> dict[str, str]:
        part = {"take_out": "Take out of turns"} if row.active else {"let_take_part": "Let take part again"}
        return {"credit": "Credit", **part}

    def render_change_form(self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        if member := context.get("original"):
            context["credits"] = member.credits.order_by("-pk")[:20]
        return super().render_change_form(request, context, *args, **kwargs)

    @admin.action(description="Credit", permissions=["change"])
    def credit(self, request: HttpRequest, queryset: QuerySet[Membership]) -> HttpResponse | None:
        return ask_for_credit(self, Asked(request, queryset))

    @admin.action(description="Let take part again", permissions=["change"])
    def let_take_part(self, request: HttpRequest, queryset: QuerySet[Membership]) -> HttpResponse | None:
        return self._set_active(
            Asked(request, queryset),
            active=True,
            title="Let {} take part",
            says="They take turns again, from the lag of the day they left: nobody floods on return.",
            button="Let take part",
            others="taking part already",
        )

    @admin.action(description="Take out of turns", permissions=["change"])
    def take_out(self, request: HttpRequest, queryset: QuerySet[Membership]) -> HttpResponse | None:
        return self._set_active(
            Asked(request, queryset),
            active=False,
            title="Take {} out of turns",
            says="They get no more leads in this team. Open leads stay theirs, and their lag is frozen.",
            button="Take out",
            others="taking no part already",
        )

    def _set_active(
        self, asked: Asked, *, active: bool, title: str, says: str, button: str, others: str
    ) -> HttpResponse | None:
        found = Membership.objects.filter(pk__in=asked.ids)
        if not asked.confirmed:
            ready = found.exclude(active=active).count()
            count = plural(len(asked.ids), "member")
            return asked.page(self, Question(title.format(count), says, button, ready, others))
        move = lambda: members.set_active(memberships=found, active=active)  # noqa: E731
        return self.carry_out(asked, move, "Changed", others)
