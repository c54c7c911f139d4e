"""Ask before anything is changed: how many rows, which ones, what will happen to them.

An action comes twice: first from the list, and gets a page that asks; then from that page, and is carried out for
exactly the rows that were shown. Both times it is a POST and the permission is looked at. Carrying it out is a move
that repeats its own condition, so pressing the button twice does no harm.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.contrib.admin import ModelAdmin, helpers
from django.contrib.admin.models import CHANGE, LogEntry
from django.db.models import QuerySet
from django.forms import Form
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.template.response import TemplateResponse

from crmsync.desk.tabs import count_anew

MOST = 1_000
SHOWN = 20


@dataclass(frozen=True)
class Question:
    """What the page asks: `title` names the deed and the count, `says` what it does, `button` is the verb.

    `ready` of the chosen rows are in a state in which it does something; of the others the page says `others`.
    `warns` is what the person should have read before; `form` asks for what the deed needs.
    """

    title: str
    says: str
    button: str
    ready: int
    others: str
    wants_reason: bool = False
    warns: Sequence[str] = ()
    form: Form | None = None


class Asked:
    """The rows an action was asked for, 1,000 at most, and whether the person has confirmed them."""

    def __init__(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        self.request = request
        self.confirmed = request.POST.get("confirmed") == "yes"
        self.reason = request.POST.get("reason", "").strip()[:500]
        if self.confirmed:
            chosen = request.POST.get("chosen", "").split(",")
            self.ids = [int(pk) for pk in chosen if pk.isascii() and pk.isdigit()][:MOST]
        else:
            self.ids = list(queryset.values_list("pk", flat=True)[: MOST + 1])
        self.came_from = request.POST.get("came_from", "")
        self.more = len(self.ids) > MOST
        self.ids = self.ids[:MOST]

    @property
    def given(self) -> QueryDict | None:
        """What the person wrote on the page that asks; None before it was shown."""
        return self.request.POST if self.confirmed else None

    @property
    def by(self) -> str:
        """Who asks, for the record."""
        return self.request.user.get_username()

    def page(self, model_admin: ModelAdmin, question: Question, describe: Callable[[Any], str] = str) -> HttpResponse:
        """The page that asks."""
        rows = model_admin.get_queryset(self.request).filter(pk__in=self.ids).order_by("pk")[:SHOWN]
        context = {
            **model_admin.admin_site.each_context(self.request),
            "title": question.title,
            "question": question,
            "opts": model_admin.opts,
            "asked": self,
            "most": MOST,
            "others": len(self.ids) - question.ready,
            "shown": [describe(row) for row in rows],
            "left": max(0, len(self.ids) - SHOWN),
            "chosen": ",".join(map(str, self.ids)),
            "first": self.ids[0] if self.ids else "",
            "action": self.request.POST.get("action", ""),
            "action_checkbox_name": helpers.ACTION_CHECKBOX_NAME,
            "back": f"{self.ids[0]}/change/" if self.came_from == "page" and self.ids else self.request.get_full_path(),
        }
        return TemplateResponse(self.request, "desk/confirm.html", context)

    def log(self, model_admin: ModelAdmin, text: str) -> None:
        """Note under each row's History who asked, what came of it, and the reason given."""
        rows = model_admin.model._base_manager.filter(pk__in=self.ids)
        if not isinstance(model_admin.list_select_related, bool):
            rows = rows.select_related(*model_admin.list_select_related)
        reason = f" Reason: {self.reason}" if self.reason else ""
        LogEntry.objects.log_actions(str(self.request.user.pk), rows, CHANGE, f"{text}{reason}")

    def tell(
        self, model_admin: ModelAdmin, done: int, verb: str, others: str, refused: str = ""
    ) -> HttpResponse | None:
        """Say what came of it: done, skipped, refused. `verb` is "Retried", `others` is "already delivered"."""
        skipped = len(self.ids) - done
        return self.tell_in(model_admin, done, verb, f"{skipped:,} {others}" if skipped > 0 else "", refused)

    def tell_in(
        self, model_admin: ModelAdmin, done: int, verb: str, skipped: str, refused: str = ""
    ) -> HttpResponse | None:
        """The same, where the skipped are counted already: "2 already delivered, 1 gone".

        Answers with the row's own page, if the action was asked for there and the row still has one; None: the list.
        """
        text = f"{verb} {done:,}." + (f" Skipped {skipped}." if skipped else "") + (f" {refused}" if refused else "")
        level = messages.SUCCESS if done and not refused else messages.WARNING
        model_admin.message_user(self.request, text, level)
        self.log(model_admin, text)
        count_anew()
        if self.came_from == "page" and model_admin.get_queryset(self.request).filter(pk__in=self.ids).exists():
            return redirect(f"admin:{model_admin.opts.app_label}_{model_admin.opts.model_name}_change", self.ids[0])
        return None
