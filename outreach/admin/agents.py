"""Agents: make one and read its token once, see when it last asked, revoke it. And what they left in doubt of leads."""

from typing import Any

from django import forms
from django.contrib import admin
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.safestring import SafeString
from django.views.decorators.cache import never_cache

from crmsync.desk.confirm import Asked, Question
from crmsync.desk.lists import Kept
from crmsync.desk.tabs import Tab, Tabs
from crmsync.desk.words import plural, short
from outreach.models import Agent
from outreach.moves.agents import make_agent, revoke
from routing.admin.leads import state


class AgentForm(forms.ModelForm):
    """Who, and for what kind of work."""

    class Meta:
        model = Agent
        fields = ("name", "may_mail", "may_leads")

    def clean(self) -> dict[str, Any]:
        given = super().clean() or self.cleaned_data
        if not given.get("may_mail") and not given.get("may_leads"):
            self.add_error("may_mail", "Choose at least one kind of work.")
        return given


class AgentTabs(Tabs):
    title = "state"
    parameter_name = "state"
    tabs = (
        Tab("", "Let in", lambda rows: rows.filter(revoked_at=None)),
        Tab("revoked", "Revoked", lambda rows: rows.exclude(revoked_at=None)),
    )


@admin.register(Agent)
class AgentAdmin(Kept):
    form = AgentForm
    list_display = ("name", "work", "token", "asked", "let_in")
    list_filter = (AgentTabs,)
    actions = ("revoke_selected",)
    empty_says = "No agents yet. Add one to let an external sender or an AI agent claim mails or leads over the API."

    def get_fields(self, request: HttpRequest, obj: Agent | None = None) -> tuple[str, ...]:
        shown = ("name", "work", "token", "asked", "made", "let_in")
        return shown if obj else ("name", "may_mail", "may_leads")

    def get_readonly_fields(self, request: HttpRequest, obj: Agent | None = None) -> tuple[str, ...]:
        return self.get_fields(request, obj) if obj else ()

    def has_change_permission(self, request: HttpRequest, obj: Agent | None = None) -> bool:
        """An agent is made and revoked, not changed: its name stands in what it did."""
        return False

    def has_work_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm("outreach.change_agent"))

    @admin.display(description="may work on")
    def work(self, agent: Agent) -> str:
        return ", ".join(name for name, may in (("mail", agent.may_mail), ("leads", agent.may_leads)) if may)

    @admin.display(description="token")
    def token(self, agent: Agent) -> str:
        return f"{agent.hint}…"

    @admin.display(description="last asked")
    def asked(self, agent: Agent) -> str:
        return short(agent.asked_at) if agent.asked_at else "never"

    @admin.display(description="made")
    def made(self, agent: Agent) -> str:
        return f"{short(agent.made_at)} by {agent.made_by}"

    @admin.display(description="let in")
    def let_in(self, agent: Agent) -> SafeString:
        if agent.revoked_at is None:
            return state("ok", "yes")
        return state("closed", f"revoked {short(agent.revoked_at)} by {agent.revoked_by}")

    def save_model(self, request: HttpRequest, obj: Agent, form: Any, change: bool) -> None:
        given = form.cleaned_data
        made, token = make_agent(**given, by=request.user.get_username())
        obj.pk = made.pk
        obj.refresh_from_db()
        obj.token_to_show = token  # type: ignore[attr-defined]

    def response_add(self, request: HttpRequest, obj: Agent, post_url_continue: str | None = None) -> HttpResponse:
        """The one page on which the token stands; it is not put into a message, which a session would keep."""
        context = {
            **self.admin_site.each_context(request),
            "title": f"Token of {obj.name}",
            "opts": self.opts,
            "agent": obj,
            "token": obj.token_to_show,  # type: ignore[attr-defined]
        }
        return never_cache(TemplateResponse)(request, "admin/outreach/token.html", context)

    def page_actions(self, row: Agent) -> dict[str, str]:
        return {} if row.revoked_at else {"revoke_selected": "Revoke"}

    @admin.action(description="Revoke selected", permissions=["work"])
    def revoke_selected(self, request: HttpRequest, queryset: QuerySet[Agent]) -> HttpResponse | None:
        asked = Asked(request, queryset)
        if not asked.confirmed:
            question = Question(
                title=f"Revoke {plural(len(asked.ids), 'agent')}",
                says="Their tokens stop working with the next request, for good. What they hold comes back when its "
                "lease ends; what they had begun waits in doubt.",
                button="Revoke",
                ready=Agent.objects.active().filter(pk__in=asked.ids).count(),
                others="revoked already",
            )
            return asked.page(self, question)
        with transaction.atomic(durable=True):
            done = revoke(agent_ids=asked.ids, by=asked.by)
        return asked.tell(self, done, "Revoked", "revoked already")
