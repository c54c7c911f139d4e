"""Sources of leads: how each proves itself, where its fields stand, and whether it is heard from."""

from typing import Any

from django.contrib import admin, messages
from django.db import transaction
from django.db.models import OuterRef, QuerySet, Subquery
from django.forms import ModelForm
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from crmsync.desk.confirm import Asked, Question
from crmsync.desk.lists import Kept
from crmsync.desk.words import age, plural
from routing.admin.leads import state
from routing.admin.source_form import MAPPED, SourceForm
from routing.admin.source_preview import preview
from routing.kinds import KINDS
from routing.models import InboundEvent, InboundSource, Team
from routing.sources import drop_previous_secrets, enter_api_token, enter_secret, rotate_secrets, watch_anew

MODEL_FIELDS = {"name", "slug", "team", "sticky_owner", "account_owner", "active", "verify_token", "api_url"}
OWN_SECRET = [name for name, kind in KINDS.items() if not kind.secret_is]


@admin.register(InboundSource)
class InboundSourceAdmin(Kept):
    form = SourceForm
    list_display = ("name", "kind_name", "address", "team", "receives", "latest", "secrets")
    list_select_related = ("team",)
    ordering = ("name",)
    readonly_fields = ("kind_name",)
    prepopulated_fields = {"slug": ("name",)}
    actions = ("rotate_secret", "drop_previous_secret")
    empty_says = "No sources yet. Add one to get a webhook address and a secret for a form or another system."

    def formfield_for_dbfield(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        if db_field.name == "slug":
            kwargs["help_text"] = "The last part of its webhook address. Senders must be told when it changes."
        if db_field.name == "team":
            kwargs["queryset"] = Team.objects.filter(retired_at=None).order_by("name")
        return super().formfield_for_dbfield(db_field, request, **kwargs)

    def get_prepopulated_fields(self, request: HttpRequest, obj: InboundSource | None = None) -> dict[str, Any]:
        return {} if obj else dict(self.prepopulated_fields)

    def get_queryset(self, request: HttpRequest) -> QuerySet[InboundSource]:
        newest = InboundEvent.objects.filter(source=OuterRef("pk")).order_by("-pk").values("received_at")[:1]
        return super().get_queryset(request).annotate(latest_at=Subquery(newest))

    def get_fieldsets(self, request: HttpRequest, obj: InboundSource | None = None) -> Any:
        """What its kind has use for. A kind is chosen once: what was stored can be read by no other."""
        kind = KINDS.get(obj.kind) if obj else None
        what = ("name", "slug", "kind_name" if obj else "kind", "team", "sticky_owner", "account_owner", "active")
        secret: tuple[str, ...] = ("new_secret",)
        if kind and kind.handshake_type == "text/plain":
            secret += ("verify_token",)
        sets: list[Any] = [(None, {"fields": what})]
        may_change = self.has_change_permission(request, obj) if obj else self.has_add_permission(request)
        if may_change:
            sets.append(("Secret", {"fields": secret}))
        if may_change and (kind is None or kind.api):
            says = "Some senders tell an id only; the lead is fetched from their API."
            fields = ("new_api_token", "api_url") if obj else ("new_api_token",)
            sets.append(("Fetching", {"fields": fields, "description": says}))
        sets.append(("Alarm", {"fields": ("expects_within_h",)}))
        if obj:
            says = (
                "The sender’s names of our fields, one a line; the first with a value counts. A path has dots: "
                "contact.email. Empty: the usual names. Whatever is not named here is kept with the lead."
            )
            sets.append(("Fields", {"fields": MAPPED, "description": says}))
        return sets

    @admin.display(description="kind", ordering="kind")
    def kind_name(self, source: InboundSource) -> str:
        kind = KINDS.get(source.kind)
        return kind.label if kind else f"{source.kind} (no such kind any more)"

    @admin.display(description="webhook")
    def address(self, source: InboundSource) -> str:
        return reverse("inbound", args=[source.slug])

    @admin.display(description="receives", ordering="active")
    def receives(self, source: InboundSource) -> SafeString:
        if not source.active:
            return state("closed", "switched off")
        return state("bad", f"silent for {age(source.silent_since)}") if source.silent_since else state("ok", "yes")

    @admin.display(description="latest event")
    def latest(self, source: InboundSource) -> SafeString | str:
        at = source.latest_at  # type: ignore[attr-defined]
        return format_html('{} <span class="quiet">ago</span>', age(at)) if at else "–"

    @admin.display(description="secrets")
    def secrets(self, source: InboundSource) -> str:
        return "changing over: two work" if source.previous_secret else "one"

    def save_model(self, request: HttpRequest, obj: InboundSource, form: ModelForm, change: bool) -> None:
        given = form.cleaned_data
        if not change:
            form.fill_in_new(obj)  # type: ignore[attr-defined]
            obj.save()
            return
        changed = set(form.changed_data)
        fields = [*(changed & MODEL_FIELDS), *(["expects_within_h"] if "expects_within_h" in changed else [])]
        obj.save(update_fields=[*fields, *(["mapping"] if changed & set(MAPPED) else [])] or ["name"])
        if given["new_secret"]:
            enter_secret(source_id=obj.pk, secret=given["new_secret"])
        if given["new_api_token"]:
            again = enter_api_token(source_id=obj.pk, token=given["new_api_token"])
            if again:
                self.message_user(request, f"The new token is tried on {plural(again, 'event')}.", messages.SUCCESS)
        if changed & {"active", "expects_within_h"}:
            watch_anew(source_id=obj.pk)

    def render_change_form(self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        if source := context.get("original"):
            context["webhook"] = request.build_absolute_uri(self.address(source))
            context["may_see_secret"] = self.has_change_permission(request, source)
            context["kind"] = KINDS.get(source.kind)
            context["preview"] = preview(source) if request.user.has_perm("routing.view_inboundevent") else None
        return super().render_change_form(request, context, *args, **kwargs)

    def page_actions(self, row: InboundSource) -> dict[str, str]:
        drop = {"drop_previous_secret": "Drop previous secret"} if row.previous_secret else {}
        kind = KINDS.get(row.kind)
        return {**({} if kind and kind.secret_is else {"rotate_secret": "Rotate secret"}), **drop}

    @admin.action(description="Rotate secret", permissions=["change"])
    def rotate_secret(self, request: HttpRequest, queryset: QuerySet[InboundSource]) -> HttpResponse | None:
        asked = Asked(request, queryset)
        if not asked.confirmed:
            return asked.page(
                self,
                Question(
                    title=f"Rotate the secret of {plural(len(asked.ids), 'source')}",
                    says="Each gets a fresh secret. The one it has now goes on working until you drop it, so senders "
                    "can change over; a secret that was the previous one before stops working now.",
                    button="Rotate",
                    ready=InboundSource.objects.filter(pk__in=asked.ids, kind__in=OWN_SECRET).count(),
                    others="whose sender makes the secret: enter a new one on its page",
                ),
            )
        with transaction.atomic(durable=True):
            rotated = rotate_secrets(source_ids=asked.ids)
        return asked.tell(self, rotated, "Rotated", "whose sender makes the secret")

    @admin.action(description="Drop previous secret", permissions=["change"])
    def drop_previous_secret(self, request: HttpRequest, queryset: QuerySet[InboundSource]) -> HttpResponse | None:
        asked = Asked(request, queryset)
        if not asked.confirmed:
            found = InboundSource.objects.filter(pk__in=asked.ids)
            return asked.page(
                self,
                Question(
                    title=f"Drop the previous secret of {plural(len(asked.ids), 'source')}",
                    says="Deliveries that are still signed with it are refused from now on.",
                    button="Drop",
                    ready=found.exclude(previous_secret="").count(),
                    others="without a previous secret",
                ),
            )
        with transaction.atomic(durable=True):
            dropped = drop_previous_secrets(source_ids=asked.ids)
        return asked.tell(self, dropped, "Dropped", "without a previous secret")
