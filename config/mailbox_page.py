"""The mailbox's pages: what campaign mail came in while no relay is set, and what each mail says."""

from pathlib import Path

from django.conf import settings
from django.contrib.admin import AdminSite
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from config.mailbox import how_many, newest, text_of

SHOWN = 200


def mailbox_page(site: AdminSite, request: HttpRequest, name: str = "") -> HttpResponse:
    """The newest mails; with a name, one mail. For whoever may see mails."""
    if not request.user.has_perm("outreach.view_message"):
        raise PermissionDenied
    folder = Path(settings.BASE_DIR, settings.MAILBOX_FOLDER)
    context = {**site.each_context(request), "title": "Mailbox", "local": settings.MAIL_STAYS_HERE}
    if name:
        found = text_of(folder, name)
        if found is None:
            raise Http404("There is no such mail.")
        headers, text = found
        return TemplateResponse(request, "admin/mailbox_mail.html", context | {"headers": headers, "text": text})
    context |= {"mails": list(newest(folder, most=SHOWN)), "count": how_many(folder), "folder": folder}
    return TemplateResponse(request, "admin/mailbox.html", context)
