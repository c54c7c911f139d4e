"""Which field of Rota goes into which field of the CRM: the usual table, and what people changed."""

from typing import Any

from django import forms
from django.conf import settings
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from crmsync.describe import same
from crmsync.desk.lists import BigList
from crmsync.doctor.field_check import Checked, check_field
from crmsync.doctor.objects import unsourced
from crmsync.field_map import mapping_of, table_with
from crmsync.kinds import rota_writes
from crmsync.mapping import MAPPING
from crmsync.models import AccountLeads, Batch, FieldMapping


class FieldMappingForm(forms.ModelForm):
    """A mapping that the org was asked about, where it answers."""

    checked: Checked | None = None

    class Meta:
        model = FieldMapping
        fields = ("object", "ours", "theirs")

    def clean(self) -> dict[str, Any]:
        given = super().clean() or self.cleaned_data
        name, ours, theirs = given.get("object"), given.get("ours"), given.get("theirs")
        if not (name and ours):
            return given
        if problem := self.unfit(name, ours, theirs or ""):
            self.add_error("theirs", problem)
        elif theirs:
            self.checked = check_field(object=name, field=theirs, ours=ours)
            if self.checked.asked and self.checked.problem:
                self.add_error("theirs", self.checked.problem)
        return given

    def unfit(self, name: str, ours: str, theirs: str) -> str:
        """What speaks against the mapping, without the org; "": nothing."""
        if waiting := underway(name):
            return waiting
        before, rows = mapping_of(name), FieldMapping.objects.filter(object=name).exclude(pk=self.instance.pk)
        for here, there in before.fields.items():
            # A required field always has a source: it is taken from the usual one by naming another.
            by_a_person = any(row.ours == here for row in rows)
            free = there in before.required and not by_a_person
            if theirs and same(there, theirs) and here not in (ours, self.initial.get("ours")) and not free:
                return f"{there} is filled from {here}. Map that elsewhere first, or to nothing."
        own = rota_writes(object=name, theirs=theirs, external_id_field=settings.CRM_EXTERNAL_ID_FIELD)
        if own:
            return own
        after = table_with(name, [*rows.exclude(ours=ours), FieldMapping(object=name, ours=ours, theirs=theirs)])
        if lost := [field for field in unsourced(after) if field not in unsourced(before)]:
            return f"{lost[0]} is required of every record: map another of Rota's fields to it first."
        return ""


def underway(object: str) -> str:
    """Why the mapping of this object has to stay for now; "": nothing. A file's columns are put under Rota's names when
    its rows are queued, as they were checked, and back under the org's when these are sent.
    """
    batch = Batch.objects.begun().filter(object__iexact=object).first()
    if batch is None:
        return ""
    return f"Mass update {batch.pk} was checked under the mapping as it is. Wait until it has ended, or cancel it."


@admin.register(FieldMapping)
class FieldMappingAdmin(BigList):
    form = FieldMappingForm
    list_display = ("ours", "object", "to", "state")
    list_filter = ("object",)
    list_title = "Field mapping"
    ordering = ("object", "ours")
    search_fields = ("ours", "theirs")
    actions = ("ask_the_org",)
    empty_says = "Nothing was changed: every field goes where the table below says."
    change_list_template = "admin/crmsync/field_mapping.html"

    @admin.display(description="field in the CRM")
    def to(self, row: FieldMapping) -> SafeString | str:
        return row.theirs or format_html('<span class="quiet">{}</span>', "not sent")

    @admin.display(description="the org says")
    def state(self, row: FieldMapping) -> SafeString | str:
        if not row.theirs:
            return "–"
        if row.problem:
            return format_html('<span class="state dead">{}</span>', row.problem)
        if row.checked_at is None:
            return format_html('<span class="state pending">{}</span>', "not asked yet")
        return f"{row.kind}, {row.length} characters" if row.length else row.kind

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        changed = {(row.object, row.ours) for row in FieldMapping.objects.all()}
        usual = [
            (name, [(ours, theirs, (name, ours) in changed) for ours, theirs in table.fields.items()])
            for name, table in MAPPING.items()
        ]
        context = {
            "usual": usual,
            "account_leads": AccountLeads.objects.first(),
            "may_choose": request.user.has_perm("crmsync.change_accountleads"),
        }
        return super().changelist_view(request, {**context, **(extra_context or {})})

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> tuple[Any, Any, Any, Any]:
        found, counts, lacking, kept = super().get_deleted_objects(objs, request)
        return found, counts, lacking, [*kept, *filter(None, map(underway, sorted({row.object for row in objs})))]

    def save_model(self, request: HttpRequest, obj: FieldMapping, form: Any, change: bool) -> None:
        note(obj, form.checked)
        super().save_model(request, obj, form, change)
        if form.checked and not form.checked.asked:
            self.message_user(request, f"Saved, and believed. {form.checked.problem}", messages.WARNING)

    @admin.action(description="Ask the org about these fields", permissions=["change"])
    def ask_the_org(self, request: HttpRequest, rows: QuerySet[FieldMapping]) -> None:
        wrong = 0
        for row in rows.exclude(theirs="")[:200]:
            found = check_field(object=row.object, field=row.theirs, ours=row.ours)
            note(row, found)
            row.save(update_fields=["kind", "length", "checked_at", "problem"])
            wrong += bool(found.problem)
        level = messages.WARNING if wrong else messages.SUCCESS
        self.message_user(
            request, f"Asked. {wrong} would be refused." if wrong else "Asked. All of them are taken.", level
        )


def note(row: FieldMapping, checked: Checked | None) -> None:
    """Keep what the org said; of a field that is not sent, nothing."""
    if checked is None or not checked.asked:
        row.kind, row.length, row.checked_at = "", None, None
        row.problem = ""
        return
    row.kind, row.length, row.checked_at = checked.kind, checked.length, timezone.now()
    row.problem = checked.problem
