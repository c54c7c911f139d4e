"""Rota's admin: the stock Django admin with Rota's own sidebar and home page, and a theme of one style sheet."""

from typing import Any

from django.contrib.admin import AdminSite
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, URLResolver, path

from config.contention_page import contention_page
from config.fairness_page import fairness_page
from config.home import numbers
from config.mailbox_page import mailbox_page
from config.menu import grouped


class RotaAdminSite(AdminSite):
    site_header = "Rota"
    site_title = "Rota"
    index_title = "Home"
    site_url = None
    index_template = "admin/home.html"

    def get_urls(self) -> list[URLPattern | URLResolver]:
        live = path("numbers/", self.admin_view(self.numbers), name="numbers")
        fairness = path("fairness/", self.admin_view(self.fairness), name="fairness")
        mails = path("mailbox/", self.admin_view(self.mailbox), name="mailbox")
        mail = path("mailbox/<str:name>/", self.admin_view(self.mailbox), name="mailbox_mail")
        contention = path("contention/", self.admin_view(self.contention), name="contention")
        return [live, fairness, contention, mails, mail, *super().get_urls()]

    def get_app_list(self, request: HttpRequest, app_label: str | None = None) -> list[Any]:
        return grouped(super().get_app_list(request))

    def app_index(self, request: HttpRequest, app_label: str, extra_context: dict[str, Any] | None = None) -> Any:
        """Apps are how the code is cut, not how people look for things: there is no page for one."""
        return redirect("admin:index")

    def index(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> TemplateResponse:
        return super().index(request, {"numbers": numbers(), **(extra_context or {})})

    def numbers(self, request: HttpRequest) -> HttpResponse:
        """The home page's numbers alone, for the page that is open already."""
        return TemplateResponse(request, "admin/numbers.html", {"numbers": numbers()})

    def fairness(self, request: HttpRequest) -> HttpResponse:
        """The fairness of a team over some days."""
        return fairness_page(self, request)

    def mailbox(self, request: HttpRequest, name: str = "") -> HttpResponse:
        """The campaign mail that stayed here, or one of it."""
        return mailbox_page(self, request, name)

    def contention(self, request: HttpRequest) -> HttpResponse:
        """Where Rota met locks in the CRM over some days."""
        return contention_page(self, request)
