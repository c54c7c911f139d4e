"""Rehearse a draft: what the last leads would have come to under it, beside the rules in force. It writes nothing."""

from typing import Any

from django.contrib.admin import ModelAdmin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse

from routing import rule_books
from routing.errors import BadCondition
from routing.models import Lead, RuleBook
from routing.simulate import Side, of_leads, simulate

LAST = 1_000
"""Leads that are replayed: about a second's work."""


def rehearsal_page(model_admin: ModelAdmin, request: HttpRequest, pk: int) -> HttpResponse:
    """The page: leads per rule and per rep, now and then, and the first leads decided differently."""
    book = get_object_or_404(RuleBook, pk=pk)
    if not (model_admin.has_view_permission(request, book) and request.user.has_perm("routing.view_lead")):
        raise PermissionDenied
    context: dict[str, Any] = {
        **model_admin.admin_site.each_context(request),
        "title": f"Rehearsal of the rules, {book}",
        "opts": model_admin.opts,
        "book": book,
    }
    published = RuleBook.objects.filter(status=RuleBook.Status.PUBLISHED).first()
    try:
        now = Side(rule_books.read(published) if published else rule_books.NO_RULES)
        then = Side(rule_books.read(book), rule_books.members_of(book))
    except BadCondition as mistake:
        context["mistake"] = str(mistake)
    else:
        found = simulate(samples=of_leads(list(Lead.objects.order_by("-pk")[:LAST])[::-1]), now=now, then=then)
        pairs = (("Rule", found.by_rule), ("Rep", found.by_rep))
        context |= {
            "found": found,
            "tables": [
                (title, [(name, one, two, two - one) for name, (one, two) in rows.items()]) for title, rows in pairs
            ],
        }
    return TemplateResponse(request, "admin/routing/rulebook/rehearsal.html", context)
