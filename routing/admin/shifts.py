"""Shifts: when reps work. Add a row of days at once, look at what is ahead, remove what does not hold."""

from datetime import date, timedelta
from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.admin.widgets import AdminDateWidget
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.forms import ModelForm
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from crmsync.desk.confirm import Asked, Question
from crmsync.desk.tabs import Tab, Tabs
from crmsync.desk.words import plural
from routing import members
from routing.admin.turnstile import ChangedBetweenTurns
from routing.models import Rep, Shift
from routing.working_days import LONGEST, Again, ranges


class ShiftForm(forms.ModelForm):
    """Hours of a day in the rep's time zone, and on which further days they hold."""

    first = forms.DateField(label="Day", widget=AdminDateWidget, initial=lambda: timezone.localdate())
    begins = forms.TimeField(label="From", initial="09:00", widget=forms.TimeInput(attrs={"type": "time"}))
    ends = forms.TimeField(label="To", initial="17:00", widget=forms.TimeInput(attrs={"type": "time"}))
    again = forms.ChoiceField(label="Again", choices=Again.choices, initial=Again.ONCE)
    last = forms.DateField(label="Last day", widget=AdminDateWidget, required=False)

    class Meta:
        model = Shift
        fields = ("rep",)

    def clean(self) -> dict[str, Any]:
        given = super().clean() or self.cleaned_data
        first: date | None = given.get("first")
        if first and given.get("again") != Again.ONCE:
            last = given["last"] = given.get("last") or first + timedelta(days=60)
            if last < first:
                self.add_error("last", "The last day is before the first.")
            elif last - first > LONGEST:
                self.add_error("last", f"Shifts are planned {LONGEST.days} days ahead at most.")
        return given

    def ranges(self) -> list[tuple[Any, Any]]:
        given = self.cleaned_data
        rep: Rep = given["rep"]
        last = given.get("last") or given["first"]
        return ranges(
            zone=rep.zone,
            first=given["first"],
            last=last,
            begins=given["begins"],
            ends=given["ends"],
            again=given["again"],
        )


class ShiftTabs(Tabs):
    title = "when"
    parameter_name = "when"
    tabs = (
        Tab("", "Now and ahead", lambda rows: rows.filter(during__endswith__gt=Now()).order_by("during", "pk")),
        Tab("now", "Now", lambda rows: rows.filter(during__contains=Now())),
        Tab("past", "Past", lambda rows: rows.filter(during__endswith__lte=Now()).order_by("-during", "-pk")),
    )


@admin.register(Shift)
class ShiftAdmin(ChangedBetweenTurns):
    form = ShiftForm
    list_display = ("who", "begins", "ends", "zone")
    list_select_related = ("rep",)
    list_filter = (ShiftTabs,)
    list_display_links = None
    search_fields = ("rep__name",)
    search_help_text = "Name of the rep."
    sortable_by = ()
    ordering = ()
    fieldsets = (
        (None, {"fields": ("rep",)}),
        (
            "Hours",
            {
                "fields": ("first", "begins", "ends", "again", "last"),
                "description": "In the rep's own time zone. Hours that end before they begin go past midnight. "
                "Without a last day, repeated shifts are made sixty days ahead.",
            },
        ),
    )
    actions = ("remove_selected",)
    empty_says = "No shifts here. Teams that wait outside hours give leads to members inside a shift only."

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """Who is retired is not offered."""
        kwargs["queryset"] = Rep.objects.filter(retired_at=None).order_by("name")
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def has_change_permission(self, request: HttpRequest, obj: Shift | None = None) -> bool:
        return False

    def has_work_permission(self, request: HttpRequest) -> bool:
        """A shift is added or removed, not changed; who may change one may remove it."""
        return bool(request.user.has_perm("routing.change_shift"))

    @admin.display(description="rep")
    def who(self, shift: Shift) -> str:
        return shift.rep.name

    @admin.display(description="from")
    def begins(self, shift: Shift) -> str:
        return local(shift, shift.during.lower)

    @admin.display(description="to")
    def ends(self, shift: Shift) -> str:
        return local(shift, shift.during.upper)

    @admin.display(description="time zone")
    def zone(self, shift: Shift) -> str:
        return shift.rep.zone

    def save_form(self, request: HttpRequest, form: ModelForm, change: bool) -> Shift:
        """One form makes a row of shifts; the admin goes on with the first of them."""
        start, end = form.ranges()[0]  # type: ignore[attr-defined]
        shift: Shift = form.save(commit=False)
        shift.during = (start, end)
        return shift

    def save_model(self, request: HttpRequest, obj: Shift, form: ModelForm, change: bool) -> None:
        wanted = form.ranges()  # type: ignore[attr-defined]
        added = members.add_shifts(rep=obj.rep, ranges=wanted)
        first = Shift.objects.filter(rep=obj.rep, during=obj.during).first()
        obj.pk = first.pk if first else None
        there = len(wanted) - added
        skipped = f" Skipped {plural(there, 'shift')} that {'was' if there == 1 else 'were'} there." if there else ""
        self.message_user(request, f"Added {plural(added, 'shift')} for {obj.rep}.{skipped}")

    @admin.action(description="Remove selected", permissions=["work"])
    def remove_selected(self, request: HttpRequest, queryset: QuerySet[Shift]) -> HttpResponse | None:
        asked = Asked(request, queryset)
        if not asked.confirmed:
            return asked.page(
                self,
                Question(
                    title=f"Remove {plural(len(asked.ids), 'shift')}",
                    says="The rep takes no turns in these hours, in teams that wait outside hours. A planned shift "
                    "comes back with the next plan: enter time off instead.",
                    button="Remove",
                    ready=Shift.objects.filter(pk__in=asked.ids).count(),
                    others="removed already",
                ),
                lambda shift: f"{shift.rep}: {local(shift, shift.during.lower)} to {local(shift, shift.during.upper)}",
            )
        return self.carry_out(asked, lambda: members.remove_shifts(shift_ids=asked.ids), "Removed", "already removed")


def local(shift: Shift, moment: Any) -> str:
    """A moment on the rep's own clock."""
    there = timezone.localtime(moment, shift.rep.tzinfo)
    return f"{there:%a} {there.day} {there:%b %H:%M}"
