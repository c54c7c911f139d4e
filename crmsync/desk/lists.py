"""Lists that open as fast with a million rows as with ten.

What makes the stock list slow is counting: Django counts every row, twice. Here a count stops at 10,000.
"""

from typing import Any, ClassVar

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.widgets import RelatedFieldWidgetWrapper
from django.core.exceptions import ValidationError
from django.core.paginator import Paginator
from django.db.models import Field, Model, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.functional import cached_property
from django.utils.text import capfirst

from crmsync.desk.words import capped

MOST = 10_000


def count_up_to(rows: QuerySet[Any], most: int) -> int:
    """How many there are, but `most + 1` at most: the count reads no further."""
    return rows.order_by()[: most + 1].count()


class CappedPaginator(Paginator):
    """Pages of the first 10,000 rows; who needs a later one narrows the list."""

    @cached_property
    def seen(self) -> int:
        return count_up_to(self.object_list, MOST) if isinstance(self.object_list, QuerySet) else len(self.object_list)

    @cached_property
    def count(self) -> int:
        return min(self.seen, MOST)

    @property
    def counted(self) -> str:
        """The count in words, "10,000+" where it stopped."""
        return capped(self.seen, MOST)


class SoundKeys(admin.ModelAdmin):
    """What names a row in an address or a form comes from outside: a name that no row can have finds none."""

    def can_be(self, key: str) -> bool:
        try:
            self.opts.pk.to_python(key)
        except ValidationError:
            return False
        return "\0" not in key

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        return super().get_object(request, object_id, from_field) if self.can_be(object_id) else None

    def response_action(self, request: HttpRequest, queryset: QuerySet[Any], *args: Any, **more: Any) -> Any:
        if not all(map(self.can_be, request.POST.getlist(ACTION_CHECKBOX_NAME))):
            self.message_user(request, "No such row: nothing was changed.", messages.WARNING)
            return HttpResponseRedirect(request.get_full_path())
        return super().response_action(request, queryset, *args, **more)


class BigList(SoundKeys):
    """A list that may be long: newest first, capped counts, no counting for filters."""

    paginator = CappedPaginator
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    list_per_page = 50
    list_max_show_all = 200
    ordering: ClassVar[tuple[str, ...]] = ("-pk",)
    list_title = ""
    empty_says = "Nothing here yet."

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """The list is called by its own name, not "Select lead to change"."""
        title = {"title": self.list_title or capfirst(str(self.opts.verbose_name_plural)), "subtitle": None}
        return super().changelist_view(request, {**title, **(extra_context or {})})

    def page_actions(self, row: Any) -> dict[str, str]:
        """The actions that make sense for this row as it stands, as buttons on its page: name to label."""
        return {}


class Facts(BigList):
    """Rows that are facts: they can be read, and nobody adds, changes or deletes one here.

    Not sortable by column: on a long table only the order that has an index is fast.
    """

    sortable_by: ClassVar[tuple[str, ...]] = ()

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


class Kept(BigList):
    """Rows that can be added and changed, and are retired or switched off instead of deleted."""

    def formfield_for_dbfield(self, db_field: Field, request: HttpRequest, **kwargs: Any) -> Any:
        """No pop-up windows beside a choice: each thing is added on its own page."""
        field = super().formfield_for_dbfield(db_field, request, **kwargs)
        if field and isinstance(field.widget, RelatedFieldWidgetWrapper):
            field.widget = field.widget.widget
        return field

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False
