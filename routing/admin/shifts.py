"""Shifts: when reps work, planned out of their weekly hours, and the exceptions that somebody adds by hand."""

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
from routing import members, spans
from routing.admin.turnstile import ChangedBetweenTurns
from routing.models import Rep, Shift

OTHERS = "removed already, or planned out of working hours: enter time off instead"


class ShiftForm(forms.ModelForm):
    """Hours of one day in the rep's time zone."""

    day = forms.DateField(widget=AdminDateWidget, initial=lambda: timezone.localdate())
    begins = forms.TimeField(label="From", initial="09:00", widget=forms.TimeInput(attrs={"type": "time"}))
    ends = forms.TimeField(label="To", initial="17:00", widget=forms.TimeInput(attrs={"type": "time"}))

    class Meta:
        model = Shift
        fields = ("rep",)

    def ranges(self) -> list[spans.Range]:
        given = self.cleaned_data
        day, rep = given["day"], given["rep"]
        hours = spans.Span(day.weekday(), given["begins"], given["ends"])
        last = day + spans.ONE_DAY if hours.end <= hours.start else day
        return spans.shifts(spans=[hours], zone=rep.tzinfo, first=day, last=last)


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
    list_display = ("who", "begins", "ends", "zone", "origin")
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
                "fields": ("day", "begins", "ends"),
                "description": "For an exception: what repeats every week is entered as working hours on the rep's "
                "page. In the rep's own time zone; hours that end before they begin go past midnight. A rep without "
                "working hours who has shifts by hand works these only.",
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

    @admin.display(description="comes from")
    def origin(self, shift: Shift) -> str:
        return "working hours" if shift.planned else "by hand"

    def save_form(self, request: HttpRequest, form: ModelForm, change: bool) -> Shift:
        """A night is two shifts, one on each day; the admin goes on with the first."""
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

    @admin.action(description="Remove selected (made by hand)", permissions=["work"])
    def remove_selected(self, request: HttpRequest, queryset: QuerySet[Shift]) -> HttpResponse | None:
        asked = Asked(request, queryset)
        if not asked.confirmed:
            return asked.page(
                self,
                Question(
                    title=f"Remove {plural(len(asked.ids), 'shift')}",
                    says="The rep takes no turns in these hours, in teams that wait outside hours.",
                    button="Remove",
                    ready=Shift.objects.filter(pk__in=asked.ids, planned=False).count(),
                    others="planned out of working hours. To be away then, enter time off on the rep's page",
                ),
                lambda shift: f"{shift.rep}: {local(shift, shift.during.lower)} to {local(shift, shift.during.upper)}",
            )
        return self.carry_out(asked, lambda: members.remove_shifts(shift_ids=asked.ids), "Removed", OTHERS)


def local(shift: Shift, moment: Any) -> str:
    """A moment on the rep's own clock."""
    there = timezone.localtime(moment, shift.rep.tzinfo)
    return f"{there:%a} {there.day} {there:%b %H:%M}"
