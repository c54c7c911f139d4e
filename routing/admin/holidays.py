"""Public holidays as Rota knows them, and those on which people work all the same."""

from django.contrib import admin
from django.db.models import QuerySet
from django.db.models.functions import Now, TruncDate
from django.http import HttpRequest, HttpResponse
from django.utils.safestring import SafeString

from crmsync.desk.confirm import Asked, Question
from crmsync.desk.tabs import Tab, Tabs
from crmsync.desk.words import plural
from routing import hours
from routing.admin.leads import state
from routing.admin.turnstile import ChangedBetweenTurns
from routing.models import Holiday
from routing.places import country_name


class DayTabs(Tabs):
    title = "when"
    parameter_name = "when"
    tabs = (
        Tab("", "Ahead", lambda rows: rows.filter(day__gte=TruncDate(Now())).order_by("day", "country", "region")),
        Tab("past", "Past", lambda rows: rows.filter(day__lt=TruncDate(Now())).order_by("-day", "country", "region")),
    )


@admin.register(Holiday)
class HolidayAdmin(ChangedBetweenTurns):
    list_display = ("day", "name", "where", "kept")
    list_display_links = None
    list_filter = (DayTabs,)
    search_fields = ("name", "country")
    search_help_text = "Name of the holiday, or the two letters of the country."
    sortable_by = ()
    ordering = ()
    actions = ("work_on_them", "keep_them")
    empty_says = "No holidays yet. They are noted sixty days ahead once a rep has a country, on the rep's page."

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Holiday | None = None) -> bool:
        return False

    def has_work_permission(self, request: HttpRequest) -> bool:
        """A holiday is kept or not, never rewritten; who may change one may say which."""
        return bool(request.user.has_perm("routing.change_holiday"))

    @admin.display(description="where")
    def where(self, holiday: Holiday) -> str:
        return " ".join(filter(None, (country_name(holiday.country), holiday.region)))

    @admin.display(description="kept")
    def kept(self, holiday: Holiday) -> SafeString:
        return state("ok", "day off") if holiday.observed else state("closed", "working day")

    @admin.action(description="Work on the selected", permissions=["work"])
    def work_on_them(self, request: HttpRequest, queryset: QuerySet[Holiday]) -> HttpResponse | None:
        return self._set(Asked(request, queryset), False, "Work on {}", "The reps there work as on any other day.")

    @admin.action(description="Keep the selected", permissions=["work"])
    def keep_them(self, request: HttpRequest, queryset: QuerySet[Holiday]) -> HttpResponse | None:
        return self._set(Asked(request, queryset), True, "Keep {}", "The reps there are off on these days.")

    def _set(self, asked: Asked, observed: bool, title: str, says: str) -> HttpResponse | None:
        found = Holiday.objects.filter(pk__in=asked.ids).exclude(observed=observed)
        if not asked.confirmed:
            count = plural(len(asked.ids), "holiday")
            question = Question(
                title=title.format(count),
                says=f"{says} Their shifts are planned again; days that are over stay as they were.",
                button="Change",
                ready=found.count(),
                others="so already",
            )
            return asked.page(self, question, lambda holiday: f"{holiday}, {self.where(holiday)}")

        return self.carry_out(
            asked, lambda: hours.set_observed(holidays=found, observed=observed), "Changed", "so already"
        )
