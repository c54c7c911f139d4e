"""One routing rule: what it asks of a lead, and where it sends the leads for which that holds."""

from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import Max, Model, QuerySet
from django.forms import ModelForm
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect
from django.utils.html import format_html_join

from routing import rule_books
from routing.admin.turnstile import ChangedBetweenTurns
from routing.conditions import Condition, compile_condition
from routing.errors import BadCondition
from routing.facts import KNOWN
from routing.models import Membership, Rep, Rule, RuleBook, RuleCondition, Team

DRAFT = RuleBook.Status.DRAFT


def in_words(rule: Rule) -> str:
    """The conditions of a rule, one a line."""
    told = [str(Condition(row.field, row.operator, row.value)) for row in rule.conditions.all()]
    if not told:
        return "Every lead"
    joint = " or" if rule.match == Rule.Match.ANY else " and"
    return format_html_join("", "{}{}<br>", ((each, joint if each is not told[-1] else "") for each in told))


def goes_to(rule: Rule) -> str:
    """Where a rule sends its leads."""
    names = ", ".join(member.rep.name for member in rule.members.all())
    team = f"{names} of {rule.team}" if names else str(rule.team)
    return f"{rule.rep}, else {team}" if rule.rep else team


class ConditionForm(forms.ModelForm):
    class Meta:
        model = RuleCondition
        fields = ("field", "operator", "value")
        widgets = {
            "field": forms.TextInput(attrs={"list": "fields", "autocomplete": "off"}),
            "value": forms.Textarea(attrs={"rows": 2, "cols": 40}),
        }

    def clean(self) -> dict[str, Any]:
        """A condition that cannot be read is refused while its author still looks at it."""
        given = super().clean() or self.cleaned_data
        draft = RuleBook.objects.filter(status=DRAFT).first()
        if given.get("field") and given.get("operator"):
            try:
                compile_condition(
                    Condition(given["field"], given["operator"], given.get("value", "")),
                    regions=draft.regions if draft else None,
                )
            except BadCondition as mistake:
                raise forms.ValidationError(str(mistake)) from mistake
        return given


class OfADraft:
    """Permissions of rows that can be changed while their book is a draft, and never afterwards."""

    def _open(self, obj: Model | None) -> bool:
        book = obj.book if isinstance(obj, Rule) else obj
        return not isinstance(book, RuleBook) or book.status == DRAFT

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._open(obj) and super().has_change_permission(request, obj)  # type: ignore[misc]

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        may = bool(request.user.has_perm("routing.change_rulebook"))
        return self._open(obj) and may

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        may = bool(request.user.has_perm("routing.change_rulebook"))
        return self._open(obj) and may and RuleBook.objects.filter(status=DRAFT).exists()


class ConditionInline(OfADraft, admin.TabularInline):
    model = RuleCondition
    form = ConditionForm
    extra = 1
    verbose_name_plural = "conditions (without any, the rule takes every lead)"

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._open(obj) and bool(request.user.has_perm("routing.change_rulebook"))

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(request.user.has_perm("routing.view_rulebook") or request.user.has_perm("routing.change_rulebook"))


class RuleForm(forms.ModelForm):
    def clean(self) -> dict[str, Any]:
        given = super().clean() or self.cleaned_data
        team = given.get("team")
        others = [member for member in given.get("members") or () if team and member.team_id != team.pk]
        if others:
            names = ", ".join(member.rep.name for member in others)
            self.add_error("members", f"Not in {team}: {names}. Choose members of the rule's own team.")
        return given


@admin.register(Rule)
class RuleAdmin(OfADraft, ChangedBetweenTurns):
    """Reached from its book."""

    form = RuleForm
    inlines = (ConditionInline,)
    fields = ("name", "position", "match", "team", "members", "rep", "owners_first")
    list_select_related = ("book",)

    def has_module_permission(self, request: HttpRequest) -> bool:
        return False

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(request.user.has_perm("routing.view_rulebook") or request.user.has_perm("routing.change_rulebook"))

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._open(obj) and bool(request.user.has_perm("routing.change_rulebook"))

    def get_queryset(self, request: HttpRequest) -> QuerySet[Rule]:
        return super().get_queryset(request).select_related("book", "team", "rep")

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        latest = Rule.objects.filter(book__status=DRAFT).aggregate(latest=Max("position"))["latest"] or 0
        return {"position": latest + 1, **super().get_changeform_initial_data(request)}

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """Who is retired is not offered."""
        kinds: dict[str, Any] = {"team": Team, "rep": Rep}
        if db_field.name in kinds:
            kwargs["queryset"] = kinds[db_field.name].objects.filter(retired_at=None).order_by("name")
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def formfield_for_manytomany(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        kwargs["queryset"] = (
            Membership.objects.filter(rep__retired_at=None, team__retired_at=None)
            .select_related("team", "rep")
            .order_by("team__name", "rep__name")
        )
        kwargs["widget"] = forms.CheckboxSelectMultiple
        return super().formfield_for_manytomany(db_field, request, **kwargs)

    def render_change_form(self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        rule = context.get("original")
        context["book"] = rule.book if rule else RuleBook.objects.filter(status=DRAFT).first()
        context["known"] = KNOWN
        return super().render_change_form(request, context, *args, **kwargs)

    def save_model(self, request: HttpRequest, obj: Rule, form: ModelForm, change: bool) -> None:
        obj.book = rule_books.hold_draft()
        obj.was = dict(obj.book.rules.values_list("pk", "position"))  # type: ignore[attr-defined]
        obj.save()

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        super().save_related(request, form, formsets, change)
        rule = form.instance
        rule_books.number_rules(row=rule.book, before=rule.was)

    def delete_model(self, request: HttpRequest, obj: Rule) -> None:
        book = rule_books.hold_draft()
        obj.delete()
        rule_books.number_rules(row=book, before=dict(book.rules.values_list("pk", "position")))

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        return redirect("admin:routing_rulebook_changelist")

    def response_post_save_add(self, request: HttpRequest, obj: Rule) -> HttpResponseRedirect:
        return redirect("admin:routing_rulebook_change", obj.book_id)

    def response_post_save_change(self, request: HttpRequest, obj: Rule) -> HttpResponseRedirect:
        return redirect("admin:routing_rulebook_change", obj.book_id)

    def response_delete(self, request: HttpRequest, obj_display: str, obj_id: int) -> HttpResponse:
        self.message_user(request, f"Removed rule {obj_display}.")
        draft = RuleBook.objects.filter(status=DRAFT).first()
        return redirect("admin:routing_rulebook_change", draft.pk) if draft else redirect("..")
