"""Lock failures and dead letters: what did not arrive, why, and the button that sends it again."""

from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path, reverse

from crmsync.admin.outbox import Messages
from crmsync.admin.retry_page import retry_all_page
from crmsync.contended import ITSELF, contended, parents_in_words, under
from crmsync.desk.confirm import Asked, Question
from crmsync.desk.words import plural
from crmsync.models import DeadLetter, FailureKind, LockFailure, OutboxMessage
from crmsync.moves.retry import retry_dead


class Dead(Messages):
    """A list of dead messages, with the action that sends them again."""

    change_list_template = "admin/crmsync/dead.html"
    actions = ("retry_selected",)
    ordering = ("-settled_at", "-pk")

    def page_actions(self, row: OutboxMessage) -> dict[str, str]:
        return {"retry_selected": "Retry"}

    def get_urls(self) -> list[URLPattern]:
        name = f"crmsync_{self.opts.model_name}_retry_all"
        own = path("retry-all/", self.admin_site.admin_view(self.retry_all), name=name)
        return [own, *super().get_urls()]

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        retry_all = reverse(f"admin:crmsync_{self.opts.model_name}_retry_all")
        context = {"retry_all": f"{retry_all}?{request.GET.urlencode()}" if self.has_retry_permission(request) else ""}
        return super().changelist_view(request, {**context, **(extra_context or {})})

    def retry_all(self, request: HttpRequest) -> HttpResponse:
        """Retry all that match the list's filter."""
        if not self.has_retry_permission(request):
            raise PermissionDenied
        return retry_all_page(self, request)

    def has_retry_permission(self, request: HttpRequest) -> bool:
        """Messages are read-only as rows; who may change them may also send them again."""
        return bool(request.user.has_perm(f"crmsync.change_{self.opts.model_name}"))

    @admin.action(description="Retry selected", permissions=["retry"])
    def retry_selected(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        asked = Asked(request, queryset)
        if not asked.confirmed:
            return asked.page(
                self,
                Question(
                    title=f"Retry {plural(len(asked.ids), str(self.opts.verbose_name))}",
                    says="What is left of each is sent again as a new version of its record: fields that a newer "
                    "version has set since then are left out. The attempts so far stay on record.",
                    button="Retry",
                    ready=OutboxMessage.objects.dead().filter(pk__in=asked.ids).count(),
                    others="no longer dead",
                    wants_reason=True,
                ),
                describe,
            )
        came = retry_dead(message_ids=asked.ids, by=asked.by, reason=asked.reason)
        newer = f"{came.skipped_newer:,} already overtaken by newer versions" if came.skipped_newer else ""
        gone = f"{came.skipped_not_dead:,} no longer dead" if came.skipped_not_dead else ""
        return asked.tell_in(self, came.retried, "Retried", ", ".join(filter(None, (newer, gone))))


class ParentFilter(admin.SimpleListFilter):
    """One contended parent: the list's summary links here."""

    title = "contended parent"
    parameter_name = "parent"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        found = [(parent.key, f"{parent.label} ({parent.count:,})") for parent in contended()]
        given = self.used_parameters.get(self.parameter_name, [""])
        given = given[-1] if isinstance(given, list) else given
        if given and given not in {key for key, _ in found} | {ITSELF}:
            found.append((given, given.replace(":", " ", 1)))
        return [*found, (ITSELF, "the record itself")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        value = self.value()
        return under(queryset, value) if value else queryset


@admin.register(LockFailure)
class LockFailureAdmin(Dead):
    list_display = ("of", "parent", "attempts", "failure_code", "failed")
    list_filter = (ParentFilter,)
    change_list_template = "admin/crmsync/lock_failures.html"
    empty_says = "No lock failures. What Rota gave up on because somebody held a lock in the CRM would be here."

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        context = {"contended": contended() if request.method == "GET" else [], **(extra_context or {})}
        return super().changelist_view(request, context)


class KindFilter(admin.SimpleListFilter):
    title = "kind"
    parameter_name = "kind"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(kind.value, str(kind.label)) for kind in FailureKind if kind != FailureKind.CONTENTION]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(failure_kind=self.value()) if self.value() in FailureKind.values else queryset


@admin.register(DeadLetter)
class DeadLetterAdmin(Dead):
    list_display = ("of", "failure", "failure_field", "says", "attempts", "failed")
    list_filter = (KindFilter,)
    empty_says = "No dead letters. What the CRM refused would be here, with the field and its words."

    @admin.display(description="what the CRM said")
    def says(self, message: OutboxMessage) -> str:
        return message.failure_text[:120] or "–"


def describe(message: OutboxMessage) -> str:
    """A message in a line of a question."""
    record = message.record
    parents = parents_in_words(message)
    return f"{record.is_a} {record.external_id}, version {message.version}" + (f", under {parents}" if parents else "")
