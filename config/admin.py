"""Users, and what django-q2 keeps: to look at. Its own screens can break every schedule and run any task again."""

from typing import Any

from django.contrib import admin
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.models import User
from django.db.models import Model
from django.forms import CheckboxSelectMultiple
from django.http import HttpRequest
from django_q import admin as q2  # noqa: F401 - registers its screens, so that they can be replaced here
from django_q.models import Failure, OrmQ, Schedule, Success

from crmsync.desk.lists import Facts, SoundKeys
from crmsync.desk.words import short, span

for replaced in (Failure, OrmQ, Schedule, Success):
    admin.site.unregister(replaced)


@admin.register(Schedule)
class ScheduleAdmin(Facts):
    """What runs by the clock. `manage.py sync_schedules` writes it; a row typed in here could stop all others."""

    list_display = ("name", "func", "every", "next_at")
    ordering = ("name",)
    empty_says = "No schedules. Run manage.py sync_schedules."

    @admin.display(description="every")
    def every(self, schedule: Schedule) -> str:
        return f"{schedule.minutes} min" if schedule.minutes else str(schedule.get_schedule_type_display())

    @admin.display(description="next run")
    def next_at(self, schedule: Schedule) -> str:
        return short(schedule.next_run)


@admin.register(Failure)
class FailureAdmin(Facts):
    """Tasks that broke. Not to be run again from here: the tables hold the work, the next sweep finds it."""

    list_display = ("name", "func", "began", "took", "why")
    ordering = ("-stopped",)
    empty_says = "No failed tasks."

    @admin.display(description="began")
    def began(self, task: Failure) -> str:
        return short(task.started)

    @admin.display(description="took")
    def took(self, task: Failure) -> str:
        return span(task.started, task.stopped)

    @admin.display(description="why")
    def why(self, task: Failure) -> str:
        return str(task.result or "–")[:200]


admin.site.unregister(User)


@admin.register(User)
class KeptUserAdmin(SoundKeys, UserAdmin):
    """People. They are made inactive instead of deleted: the history names them. What they may do, their groups say."""

    fieldsets = (
        (None, {"fields": ("username", "password", "first_name", "last_name", "email")}),
        ("May", {"fields": ("is_active", "is_staff", "is_superuser", "groups")}),
        ("Dates", {"fields": ("last_login", "date_joined")}),
    )
    readonly_fields = ("last_login", "date_joined")
    filter_horizontal = ()

    def formfield_for_manytomany(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """The few groups as boxes to tick."""
        if db_field.name == "groups":
            kwargs["widget"] = CheckboxSelectMultiple
        return super().formfield_for_manytomany(db_field, request, **kwargs)

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False
