"""What people did to the writing by hand: who, when, why."""

from django.contrib import admin

from crmsync.desk.lists import Facts
from crmsync.desk.words import short
from crmsync.models import Intervention


@admin.register(Intervention)
class InterventionAdmin(Facts):
    list_display = ("deed", "about", "by", "when", "until_when", "many", "reason")
    list_title = "By hand"
    empty_says = "Nobody has held a lane, stopped the org, or sent many failures again."

    @admin.display(description="deed")
    def deed(self, one: Intervention) -> str:
        return str(one.get_kind_display())

    @admin.display(description="when")
    def when(self, one: Intervention) -> str:
        return short(one.at)

    @admin.display(description="until")
    def until_when(self, one: Intervention) -> str:
        return short(one.until)

    @admin.display(description="messages")
    def many(self, one: Intervention) -> str:
        return "–" if one.count is None else f"{one.count:,}"
