"""Push a file: choose it and say what it is; everything that is wrong with it is shown, or its plan to confirm."""

from dataclasses import asdict
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from django import forms
from django.conf import settings
from django.core.files.uploadedfile import UploadedFile
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse

from crmsync.errors import CallFailed, CrmSyncError
from crmsync.flows.push import Looked, look
from crmsync.gateway import connect
from crmsync.models import Operation
from crmsync.moves import batches

OBJECTS = ("Lead", "Contact", "Account", "Opportunity", "CampaignMember", "Task")


class PushForm(forms.Form):
    """A file and what it does to which object."""

    file = forms.FileField(label="CSV file")
    object = forms.CharField(
        label="Object", max_length=80, initial="Contact", help_text="API name, such as Contact, Account or Visit__c.",
        widget=forms.TextInput(attrs={"list": "objects", "class": "vTextField"}),
    )  # fmt: skip
    operation = forms.ChoiceField(
        choices=[
            (Operation.UPSERT.value, "upsert: update, or create what is not there"),
            (Operation.UPDATE.value, "update: refuse what is not there"),
            (Operation.DELETE.value, "delete"),
        ]
    )
    parent = forms.CharField(
        label="Parent column", max_length=120, required=False,
        help_text="If the file must name parents: Account.Rota_Id__c",
        widget=forms.TextInput(attrs={"class": "vTextField"}),
    )  # fmt: skip
    encoding = forms.ChoiceField(
        required=False, choices=[("", "Unicode (found out)"), ("cp1252", "Windows-1252"), ("utf-8", "UTF-8")]
    )

    def clean_file(self) -> UploadedFile:
        file: UploadedFile = self.cleaned_data["file"]
        most = settings.PUSH_UPLOAD_MAX_MB
        if (file.size or 0) > most * 1024 * 1024:
            raise forms.ValidationError(
                f"It is larger than {most} MB (PUSH_UPLOAD_MAX_MB). The command takes it: ./rota manage crm_push FILE"
            )
        return file


def push_page(model_admin: Any, request: HttpRequest) -> HttpResponse:
    """The form; after it either everything that is wrong, or the new mass update's page with the plan."""
    form = PushForm(request.POST or None, request.FILES or None)
    looked: Looked | None = None
    if request.method == "POST" and form.is_valid():
        try:
            looked = look_at(form.cleaned_data)
            if looked.file is not None and looked.plan is not None:
                content = form.cleaned_data["file"]
                content.seek(0)
                batch = batches.offer(
                    file=looked.file,
                    object=looked.asked.object.name,
                    operation=looked.asked.operation,
                    by=request.user.get_username(),
                    content=content.read(),
                    plan={**asdict(looked.plan), "notices": looked.checked.notices},
                )
                return redirect("admin:crmsync_batch_change", batch.pk)
        except CallFailed as failed:
            form.add_error(None, f"The org did not say what it knows: {failed}")
        except CrmSyncError as refusal:
            form.add_error(None, str(refusal))
    context = {
        **model_admin.admin_site.each_context(request),
        "title": "Push a file",
        "opts": model_admin.opts,
        "form": form,
        "objects": OBJECTS,
        "key": settings.CRM_EXTERNAL_ID_FIELD,
        "problems": looked.checked.problems if looked else None,
    }
    return TemplateResponse(request, "admin/crmsync/push.html", context)


def look_at(given: dict[str, Any]) -> Looked:
    with NamedTemporaryFile(prefix="push-", suffix=".csv") as copy:
        for piece in given["file"].chunks():
            copy.write(piece)
        copy.flush()
        return look(
            Path(copy.name),
            org=connect(),
            object=given["object"].strip(),
            operation=Operation(given["operation"]),
            parent=given["parent"].strip(),
            encoding=given["encoding"],
            name=given["file"].name,
        )
