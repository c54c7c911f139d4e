"""The pages of an import: the upload, how the file was understood, its rehearsal and progress, and its verdicts."""

from itertools import islice
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.admin import ModelAdmin
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse

from crmsync.csvfile import DELIMITERS, ENCODINGS
from routing import columns, imports
from routing.errors import BadFile, BadMapping, RoutingError
from routing.import_files import keep, open_kept, path_of
from routing.import_report import verdict_lines
from routing.import_source import source_for_team
from routing.models import Import, ImportRow, InboundSource, Team
from routing.undo_import import may_undo

SAMPLE = 3
REHEARSED_MOST = 5_000
"""Rows that the page rehearses: some seconds' work. The command rehearses all."""
REJECTED_SHOWN = 20


class UploadForm(forms.Form):
    """A file, and whose leads are in it: those of a source, or simply a team's."""

    file = forms.FileField(
        label="CSV file",
        help_text="As exported: the encoding, the delimiter, the header and the columns are found out and shown.",
    )
    source = forms.ModelChoiceField(
        InboundSource.objects.filter(active=True).order_by("name"), required=False, empty_label="–",
        help_text="The rules decide as they do for its webhook.",
    )  # fmt: skip
    team = forms.ModelChoiceField(
        Team.objects.filter(retired_at=None).order_by("name"), required=False, empty_label="–",
        help_text="Takes what no rule sends elsewhere. Choose a source or a team.",
    )  # fmt: skip

    def clean(self) -> dict[str, Any]:
        given = super().clean() or self.cleaned_data
        if bool(given.get("source")) == bool(given.get("team")):
            raise forms.ValidationError("Choose a source or a team: one of them.")
        return given


class ReadingForm(forms.Form):
    """How the file is read, where the guess is wrong."""

    encoding = forms.ChoiceField(choices=list(ENCODINGS.items()))
    delimiter = forms.ChoiceField(choices=[(sign, name.capitalize()) for sign, name in DELIMITERS.items()])
    header_line = forms.IntegerField(
        label="Header on line", min_value=0, max_value=10_000, help_text="0: the file has no header."
    )


def upload_page(model_admin: ModelAdmin, request: HttpRequest) -> HttpResponse:
    """Choose a file; afterwards its own page shows how it was understood."""
    if not model_admin.has_add_permission(request):
        raise PermissionDenied
    form = UploadForm(request.POST or None, request.FILES or None)
    if request.method == "POST" and form.is_valid():
        given = form.cleaned_data
        try:
            digest, path = keep(given["file"].chunks())
            row, new = imports.save(
                row=imports.receive(
                    path=path,
                    digest=digest,
                    file_name=given["file"].name,
                    source=given["source"] or source_for_team(team=given["team"]),
                    by=request.user.get_username(),
                )
            )
        except RoutingError as refusal:
            form.add_error("file", str(refusal))
        else:
            if not new:
                messages.warning(request, f"This file is here already, sent by {row.received_by}. Go on with it.")
            return redirect("admin:routing_import_change", row.pk)
    context = {
        **model_admin.admin_site.each_context(request),
        "title": "Import leads",
        "opts": model_admin.opts,
        "form": form,
    }
    return TemplateResponse(request, "admin/routing/import/upload.html", context)


def import_page(model_admin: Any, request: HttpRequest, object_id: str) -> HttpResponse:
    """An import as it stands. While it waits to be started, its mapping can be changed, rehearsed and started."""
    row = model_admin.get_object(request, object_id)
    if row is None:
        raise Http404
    if not model_admin.has_view_permission(request, row):
        raise PermissionDenied
    reading = ReadingForm(initial=vars(row))
    rehearsed = None
    if request.method == "POST":
        if not model_admin.has_work_permission(request):
            raise PermissionDenied
        if row.status != Import.Status.RECEIVED:
            messages.warning(request, "It was started or cancelled meanwhile.")
            return redirect(request.path)
        try:
            if "read" in request.POST:
                reading = ReadingForm(request.POST)
                if reading.is_valid():
                    read_again(row, reading.cleaned_data)
                    return redirect(request.path)
            else:
                keep_mapping(row, request)
                if "start" in request.POST and imports.start(row=row):
                    model_admin.log_change(request, row, "Started.")
                    messages.success(request, "Started. It goes on in the background; this page may be closed.")
                    return redirect(request.path)
                rehearsed = imports.rehearse(row=row, most=REHEARSED_MOST)
        except RoutingError as refusal:
            messages.error(request, str(refusal))
    context = {
        **model_admin.admin_site.each_context(request),
        "title": row.file_name,
        "opts": model_admin.opts,
        "row": row,
        "reading": reading,
        "actions": model_admin.page_actions(row) if model_admin.has_work_permission(request) else {},
        "may_work": model_admin.has_work_permission(request),
        "may_see_rows": request.user.has_perm("routing.view_lead"),
        "counts": [(verdict.label, getattr(row, verdict.value)) for verdict in ImportRow.Verdict],
        "rehearsed": rehearsed,
        "rehearsed_counts": [(v.label, rehearsed.verdicts[v.value]) for v in ImportRow.Verdict] if rehearsed else [],
        "undoable": may_undo(row),
        **shown(row),
    }
    return TemplateResponse(request, "admin/routing/import/page.html", context)


def shown(row: Import) -> dict[str, Any]:
    """The columns with some of their values, and the first rejected rows."""
    if row.status != Import.Status.RECEIVED:
        rejected = ImportRow.objects.filter(of=row, verdict=ImportRow.Verdict.REJECTED).order_by("number")
        return {
            "mapped": [(name, field) for name, field in zip(row.columns, row.mapping, strict=True) if field],
            "rejected": rejected[:REJECTED_SHOWN],
        }
    try:
        records = [record.cells for record in islice(open_kept(row).records(), SAMPLE) if not record.problem]
    except BadFile as fault:
        return {"gone": str(fault)}
    lines = []
    for position, (name, field) in enumerate(zip(row.columns, row.mapping, strict=True)):
        own = columns.own_name(name, columns.LEAD_FIELDS)
        kept = field if field and field not in columns.LEAD_FIELDS else own
        choices = [("", "leave out"), *((each, each.replace("_", " ")) for each in columns.LEAD_FIELDS)]
        choices.append((kept, f"keep as {kept}"))
        lines.append((position, name, [text for cells in records if (text := cells[position].strip())], choices, field))
    return {"lines": lines}


def keep_mapping(row: Import, request: HttpRequest) -> None:
    """Take the mapping from the form. Raises BadMapping."""
    given = [request.POST.get(f"column_{position}", "") for position in range(len(row.columns))]
    row.mapping = columns.check(given, columns=len(row.columns))
    row.match_phones = "match_phones" in request.POST
    found = Import.objects.filter(pk=row.pk, status=Import.Status.RECEIVED)
    if not found.update(mapping=row.mapping, match_phones=row.match_phones):
        raise BadMapping("It was started or cancelled meanwhile; its mapping stays.")


def read_again(row: Import, told: dict[str, Any]) -> None:
    """Read the file as the person says, and map its columns anew. Raises BadFile."""
    again = imports.receive(
        path=path_of(row.digest),
        digest=row.digest,
        file_name=row.file_name,
        source=row.source,
        by=row.received_by,
        **told,
    )
    fields = ("encoding", "delimiter", "header_line", "columns", "mapping", "match_phones", "notices")
    found = Import.objects.filter(pk=row.pk, status=Import.Status.RECEIVED)
    found.update(**{field: getattr(again, field) for field in fields}, total=None)


def verdicts_page(model_admin: ModelAdmin, request: HttpRequest, pk: int) -> StreamingHttpResponse:
    """Every row with its verdict, as CSV. The rows are personal data: whoever may see leads may have them."""
    row = model_admin.get_object(request, str(pk))
    if row is None:
        raise Http404
    if not (model_admin.has_view_permission(request, row) and request.user.has_perm("routing.view_lead")):
        raise PermissionDenied
    return StreamingHttpResponse(
        verdict_lines(row=row),
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="import-{row.pk}-verdicts.csv"'},
    )
