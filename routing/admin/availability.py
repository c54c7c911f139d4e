"""When a rep works, on the rep's own page: weekly hours, time off, and whose public holidays they keep."""

from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone

from routing import hours, spans
from routing.errors import UnknownCalendar
from routing.models import Rep, TimeOff, WorkingHours
from routing.places import country_name


class RepForm(forms.ModelForm):
    """A rep, with the country of their holidays by its name."""

    holiday_country = forms.ChoiceField(required=False, help_text="Whose public holidays the rep keeps.")

    class Meta:
        model = Rep
        fields = ("holiday_country", "holiday_region")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "holiday_country" in self.fields:  # who may only look gets none
            names = sorted((country_name(code), code) for code in hours.countries())
            choices = [("", "None: no holidays"), *((code, name) for name, code in names)]
            self.fields["holiday_country"].choices = choices  # type: ignore[attr-defined]

    def clean(self) -> dict[str, Any]:
        given = super().clean() or self.cleaned_data
        try:
            hours.known_calendar(country=given.get("holiday_country", ""), region=given.get("holiday_region", ""))
        except UnknownCalendar as refusal:
            self.add_error("holiday_region", str(refusal))
        return given


class OfARep(admin.TabularInline):
    """Rows that belong to who a rep is: whoever may change the rep may change them."""

    extra = 0

    def _may(self, request: HttpRequest, rep: Rep | None) -> bool:
        in_service = rep is None or rep.retired_at is None
        return in_service and bool(request.user.has_perm("routing.change_rep"))

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(request.user.has_perm("routing.view_rep") or request.user.has_perm("routing.change_rep"))

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._may(request, obj)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._may(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._may(request, obj)


class HoursForm(forms.ModelForm):
    class Meta:
        model = WorkingHours
        fields = ("weekday", "start", "end")
        widgets = {
            "start": forms.TimeInput(format="%H:%M", attrs={"type": "time"}),
            "end": forms.TimeInput(format="%H:%M", attrs={"type": "time"}),
        }


class HoursInline(OfARep):
    """Spans of the week. Without any the rep works office hours, and the page says so."""

    model = WorkingHours
    form = HoursForm
    verbose_name_plural = "working hours (without any: Monday to Friday, 09:00 to 17:00)"

    def formfield_for_dbfield(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        if db_field.name in ("start", "end"):
            return db_field.formfield(widget=HoursForm.Meta.widgets[db_field.name])
        return super().formfield_for_dbfield(db_field, request, **kwargs)


class TimeOffInline(OfARep):
    """Days off now and ahead; what is over stays in the table and is not shown."""

    model = TimeOff
    fields = ("first_day", "back_on", "note")
    verbose_name_plural = "time off"

    def get_queryset(self, request: HttpRequest) -> QuerySet[TimeOff]:
        yesterday = timezone.now().date() - spans.ONE_DAY  # it may still be yesterday where the rep is
        return super().get_queryset(request).filter(back_on__gt=yesterday)


def save_availability(*, rep: Rep, formset: Any) -> None:
    """Hand what was changed on the rep's page to the moves of routing.hours. Call inside a transaction."""
    kept = [form for form in formset.forms if form.cleaned_data and not form.cleaned_data.get("DELETE")]
    if formset.model is WorkingHours:
        week = [form.cleaned_data for form in kept]
        hours.set_hours(rep=rep, hours=[spans.Span(row["weekday"], row["start"], row["end"]) for row in week])
        return
    for form in formset.forms:
        if form.instance.pk and (form.has_changed() or form in formset.deleted_forms):
            hours.cancel_time_off(time_off=form.instance)
    for form in kept:
        if form.has_changed():
            row = form.cleaned_data
            hours.add_time_off(rep=rep, first_day=row["first_day"], back_on=row["back_on"], note=row["note"])
