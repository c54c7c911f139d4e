"""Addresses that want no mail: enter one with the reason, or lift one as its owner asked."""

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.safestring import SafeString

from crmsync.desk.confirm import Asked, Question
from crmsync.desk.lists import Kept
from crmsync.desk.tabs import Tab, Tabs
from crmsync.desk.words import plural, short
from outreach.errors import BadAddress
from outreach.mail.addresses import wire_address
from outreach.models import Suppression
from outreach.moves.suppression import lift, suppress_address
from routing.admin.leads import state

REASONS = [(reason.value, str(reason.label)) for reason in Suppression.Reason]


class SuppressionForm(forms.ModelForm):
    """An address and why nothing may be sent to it."""

    address = forms.CharField(max_length=320, widget=forms.TextInput(attrs={"class": "vTextField"}))
    reason = forms.ChoiceField(choices=REASONS, initial=Suppression.Reason.ASKED)
    detail = forms.CharField(
        max_length=500,
        label="In words",
        help_text="Who asked, and where: for whoever wonders later.",
        widget=forms.TextInput(attrs={"class": "vLargeTextField"}),
    )

    class Meta:
        model = Suppression
        fields = ("reason", "detail")

    def clean_address(self) -> str:
        try:
            return wire_address(self.cleaned_data["address"].strip()).key
        except BadAddress as fault:
            raise forms.ValidationError(str(fault)) from fault

    def clean(self) -> dict[str, Any]:
        given = super().clean() or self.cleaned_data
        key = given.get("address")
        if key and Suppression.objects.filter(recipient__key=key, lifted_at=None).exists():
            self.add_error("address", "It is suppressed already.")
        return given


class SuppressionTabs(Tabs):
    title = "state"
    parameter_name = "state"
    tabs = (
        Tab("", "Suppressed", lambda rows: rows.filter(lifted_at=None)),
        Tab("lifted", "Lifted", lambda rows: rows.exclude(lifted_at=None)),
    )


@admin.register(Suppression)
class SuppressionAdmin(Kept):
    form = SuppressionForm
    list_display = ("address", "why", "detail", "since", "lifted")
    list_select_related = ("recipient",)
    list_filter = (SuppressionTabs,)
    search_fields = ("recipient__key",)
    search_help_text = "The address, whole."
    actions = ("lift_selected",)
    empty_says = "Nobody here. Who unsubscribes or whose mailbox refuses mail for good comes here by itself."

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        term = search_term.strip().lower()
        return (queryset.filter(recipient__key=term) if term else queryset), False

    def get_fields(self, request: HttpRequest, obj: Suppression | None = None) -> tuple[str, ...]:
        return (
            ("address", "why", "detail", "since", "lifted", "lifted_because")
            if obj
            else ("address", "reason", "detail")
        )

    def get_readonly_fields(self, request: HttpRequest, obj: Suppression | None = None) -> tuple[str, ...]:
        return self.get_fields(request, obj) if obj else ()

    def has_change_permission(self, request: HttpRequest, obj: Suppression | None = None) -> bool:
        """A suppression is entered or lifted, not changed."""
        return False

    def has_work_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm("outreach.change_suppression"))

    @admin.display(description="address")
    def address(self, suppression: Suppression) -> str:
        return suppression.recipient.key

    @admin.display(description="reason")
    def why(self, suppression: Suppression) -> SafeString:
        return state("closed" if suppression.lifted_at else "warn", suppression.get_reason_display())

    @admin.display(description="since")
    def since(self, suppression: Suppression) -> str:
        return short(suppression.suppressed_at)

    @admin.display(description="lifted")
    def lifted(self, suppression: Suppression) -> str:
        return short(suppression.lifted_at)

    def save_model(self, request: HttpRequest, obj: Suppression, form: Any, change: bool) -> None:
        given = form.cleaned_data
        obj.pk = suppress_address(
            key=given["address"],
            reason=Suppression.Reason(given["reason"]),
            detail=f"{given['detail']} ({request.user.get_username()})",
            worker=request.user.get_username(),
        )
        obj.refresh_from_db()

    def page_actions(self, row: Suppression) -> dict[str, str]:
        return {} if row.lifted_at else {"lift_selected": "Lift"}

    @admin.action(description="Lift selected", permissions=["work"])
    def lift_selected(self, request: HttpRequest, queryset: QuerySet[Suppression]) -> HttpResponse | None:
        asked = Asked(request, queryset)
        current = Suppression.objects.filter(pk__in=asked.ids, lifted_at=None)
        if not asked.confirmed or not asked.reason:
            if asked.confirmed:
                self.message_user(request, "Say why: they have asked for no mail.", messages.ERROR)
            question = Question(
                title=f"Lift {plural(len(asked.ids), 'suppression')}",
                says="Campaigns write to these addresses again, once they are enrolled anew: what was stopped stays "
                "stopped. Only for somebody who has asked for it, or whose mailbox works again; writing to who "
                "unsubscribed or complained is against the law in many places.",
                button="Lift",
                ready=current.count(),
                others="lifted already",
                wants_reason=True,
            )
            return asked.page(self, question, lambda row: f"{row.recipient.key}: {row.get_reason_display()}")
        recipients = list(current.order_by("recipient_id").values_list("recipient_id", flat=True))
        with transaction.atomic(durable=True):
            done = sum(lift(recipient_id=pk, because=f"{asked.reason} ({asked.by})") for pk in recipients)
        return asked.tell(self, done, "Lifted", "lifted already")
