"""Test a lead: what a rule book would decide of it, condition by condition, without taking it in."""

from typing import Any

from django import forms
from django.contrib.admin import ModelAdmin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse

from routing import rule_books
from routing.admin.rules import goes_to
from routing.conditions import Condition
from routing.errors import BadCondition, InvalidLead
from routing.facts import facts_of
from routing.models import InboundSource, Rule, RuleBook
from routing.normalise import clean_lead
from routing.rules import tried

TEXTS = ("email", "phone", "company", "country")


class EmptyOrJSON(forms.JSONField):
    """JSON that begins as an empty box; Django's own begins with the word null."""

    def prepare_value(self, value: Any) -> Any:
        return "" if value is None else super().prepare_value(value)


class TryForm(forms.Form):
    """A lead as a sender would report it, in fields or as JSON."""

    source = forms.ModelChoiceField(InboundSource.objects.order_by("name"), empty_label=None)
    email = forms.CharField(label="E-mail", required=False)
    phone = forms.CharField(required=False)
    company = forms.CharField(required=False)
    country = forms.CharField(required=False)
    more = EmptyOrJSON(
        label="As JSON",
        required=False,
        widget=forms.Textarea(attrs={"rows": 6, "cols": 40, "spellcheck": "false"}),
        help_text='What a sender says, such as {"email": "ada@acme.example", "employees": 250}. '
        "A field above comes before the same one here.",
    )

    def clean(self) -> dict[str, Any]:
        given = super().clean() or self.cleaned_data
        more = given.get("more") or {}
        if not isinstance(more, dict):
            raise forms.ValidationError("The JSON should be one object: { ... }.")
        try:
            given["lead"] = clean_lead({**more, **{name: given[name] for name in TEXTS if given.get(name)}})
        except InvalidLead as refusal:
            raise forms.ValidationError([f"{each['path']} {each['problem']}." for each in refusal.problems]) from None
        return given


def try_page(model_admin: ModelAdmin, request: HttpRequest, pk: int) -> HttpResponse:
    """The page: a lead to fill in, and below it the decision. Nothing is written; personal data stays in the POST."""
    book = get_object_or_404(RuleBook, pk=pk)
    if not model_admin.has_view_permission(request, book):
        raise PermissionDenied
    form = TryForm(request.POST or None)
    context: dict[str, Any] = {
        **model_admin.admin_site.each_context(request),
        "title": f"Test a lead: rules, {book}",
        "opts": model_admin.opts,
        "book": book,
        "form": form,
    }
    if request.method == "POST" and form.is_valid():
        try:
            context |= _decided(book, form.cleaned_data)
        except BadCondition as mistake:
            form.add_error(None, f"The book cannot be read: {mistake}")
    return TemplateResponse(request, "admin/routing/rulebook/try.html", context)


def _decided(book: RuleBook, given: dict[str, Any]) -> dict[str, Any]:
    source = given["source"]
    ready = rule_books.read(book)
    looked_at = tried(ready, facts_of(lead=given["lead"], source=source.slug))
    for each_rule in looked_at:
        for each in each_rule["conditions"]:
            each["words"] = str(Condition(each["field"], each["operator"], each["value"]))
            each["seen"] = "nothing" if each["seen"] in (None, "") else each["seen"]
    taken = bool(looked_at) and looked_at[-1]["holds"]
    rule: Rule | None = None
    if taken:
        found = Rule.objects.select_related("team", "rep").prefetch_related("members__rep")
        rule = found.get(book=book, position=looked_at[-1]["position"])
    return {
        "decided": True,
        "tried": looked_at,
        "rule": rule,
        "where": goes_to(rule) if rule else str(source.team),
        "owners": [
            words
            for words, on in (
                ("the rep who had the same address last", source.sticky_owner),
                ("the owner of the account with its domain", source.account_owner),
            )
            if on and (rule is None or rule.owners_first)
        ],
    }
