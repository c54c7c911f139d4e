"""Reps: who they are, their time zone, how many leads they may hold, and when they work next."""

from typing import Any
from zoneinfo import available_timezones

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.forms import ModelForm
from django.http import HttpRequest, HttpResponse

from crmsync.desk.confirm import Asked, Question
from crmsync.desk.tabs import Tab, Tabs
from crmsync.desk.words import plural, short
from routing import hours, members
from routing.admin import hand_over
from routing.admin.availability import HoursInline, RepForm, TimeOffInline, save_availability
from routing.admin.turnstile import ChangedBetweenTurns
from routing.explain import balance
from routing.models import Rep

CALENDAR = ("zone", "holiday_country", "holiday_region")
CAPS = ("day_cap", "week_cap", "open_cap")
WHO = ("name", "email", "crm_user_id")
NO_TURN_READS = ("notices",)


class RepTabs(Tabs):
    title = "service"
    parameter_name = "service"
    tabs = (
        Tab("", "In service", lambda rows: rows.filter(retired_at=None)),
        Tab("retired", "Retired", lambda rows: rows.exclude(retired_at=None)),
    )


@admin.register(Rep)
class RepAdmin(ChangedBetweenTurns):
    list_display = ("name", "email", "zone", "caps", "teams", "retired")
    list_filter = (RepTabs,)
    ordering = ("name",)
    search_fields = ("name", "email")
    search_help_text = "Name or e-mail address."
    fieldsets = (
        (None, {"fields": (*WHO, *NO_TURN_READS)}),
        ("Calendar", {"fields": CALENDAR, "description": "Working hours and days off go by the rep's own clock."}),
        ("Caps", {"fields": CAPS, "description": "Caps hold over all teams together, by the rep's own day."}),
    )
    form = RepForm
    inlines = (HoursInline, TimeOffInline)
    actions = ("hand_over", "retire_selected")
    empty_says = "No reps yet. Add one, then let them take turns under Memberships."

    def get_queryset(self, request: HttpRequest) -> QuerySet[Rep]:
        return super().get_queryset(request).prefetch_related("memberships__team")

    def formfield_for_dbfield(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        if db_field.name == "zone":
            kwargs["widget"] = forms.TextInput(attrs={"list": "zones", "class": "vTextField", "autocomplete": "off"})
        return super().formfield_for_dbfield(db_field, request, **kwargs)

    @admin.display(description="caps")
    def caps(self, rep: Rep) -> str:
        kinds = ((rep.day_cap, "a day"), (rep.week_cap, "a week"), (rep.open_cap, "open"))
        return ", ".join(f"{cap:,} {kind}" for cap, kind in kinds if cap is not None) or "none"

    @admin.display(description="teams")
    def teams(self, rep: Rep) -> str:
        names = [membership.team.name for membership in rep.memberships.all() if membership.active]
        return ", ".join(sorted(names)) or "none"

    @admin.display(description="retired", ordering="retired_at")
    def retired(self, rep: Rep) -> str:
        return short(rep.retired_at)

    def save_model(self, request: HttpRequest, obj: Rep, form: ModelForm, change: bool) -> None:
        if not change:
            obj.save()
            return
        if set(WHO) & set(form.changed_data):
            members.set_rep(rep=obj, name=obj.name, email=obj.email, crm_user_id=obj.crm_user_id)
        if plain := [name for name in NO_TURN_READS if name in form.changed_data]:
            obj.save(update_fields=plain)
        if set(CALENDAR) & set(form.changed_data):
            hours.set_calendar(rep=obj, zone=obj.zone, country=obj.holiday_country, region=obj.holiday_region)
        if {"zone", *CAPS} & set(form.changed_data):
            members.set_caps(rep=obj, day_cap=obj.day_cap, week_cap=obj.week_cap, open_cap=obj.open_cap, zone=obj.zone)

    def save_formset(self, request: HttpRequest, form: Any, formset: Any, change: bool) -> None:
        formset.save(commit=False)  # notes what changed, for the History
        if formset.has_changed():
            save_availability(rep=form.instance, formset=formset)

    def get_inlines(self, request: HttpRequest, obj: Rep | None = None) -> Any:
        return self.inlines if obj else ()

    def render_change_form(self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        context["zones"] = sorted(available_timezones())
        if rep := context.get("original"):
            context["memberships"] = [
                (membership, balance(membership.lag)) for membership in rep.memberships.select_related("team")
            ]
            context["shifts"] = rep.shifts.filter(during__endswith__gt=Now()).order_by("during")[:7]
        return super().render_change_form(request, context, *args, **kwargs)

    def page_actions(self, row: Rep) -> dict[str, str]:
        retire = {} if row.retired_at else {"retire_selected": "Retire"}
        return {"hand_over": "Give their open leads to the others", **retire}

    def has_work_permission(self, request: HttpRequest) -> bool:
        """Leads move here, so that whoever may change leads may do it."""
        return bool(request.user.has_perm("routing.change_lead"))

    @admin.action(description="Give their open leads to the others", permissions=["work"])
    def hand_over(self, request: HttpRequest, queryset: QuerySet[Rep]) -> HttpResponse | None:
        return hand_over.hand_over(self, Asked(request, queryset))

    @admin.action(description="Retire selected", permissions=["change"])
    def retire_selected(self, request: HttpRequest, queryset: QuerySet[Rep]) -> HttpResponse | None:
        asked = Asked(request, queryset)
        found = Rep.objects.filter(pk__in=asked.ids)
        if not asked.confirmed:
            return asked.page(
                self,
                Question(
                    title=f"Retire {plural(len(asked.ids), 'rep')}",
                    says="They take no more turns in any team, for good. Their open leads stay theirs. For a holiday, "
                    "enter time off or take the membership out of turns instead.",
                    button="Retire",
                    ready=found.filter(retired_at=None).count(),
                    others="retired already",
                ),
            )
        return self.carry_out(asked, lambda: members.retire_reps(reps=found), "Retired", "already retired")
