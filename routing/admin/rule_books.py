"""Rule books: the rules in force, the draft of the next ones, and what every lead before them was decided by."""

from typing import Any

from django import forms
from django.contrib import admin
from django.db import transaction
from django.db.models import Count, QuerySet
from django.forms import BaseInlineFormSet, ModelForm
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from crmsync.desk.confirm import Asked, Question
from crmsync.desk.words import short
from routing import rule_books
from routing.admin.leads import state
from routing.admin.rehearse import rehearsal_page
from routing.admin.rules import DRAFT, OfADraft, goes_to, in_words
from routing.admin.try_lead import try_page
from routing.admin.turnstile import ChangedBetweenTurns, told
from routing.models import Rule, RuleBook

LOOKS = {"draft": "warn", "published": "ok", "superseded": "closed"}


class PositionForm(forms.ModelForm):
    """A new place for a rule; the rules are numbered again when all places are known."""

    class Meta:
        model = Rule
        fields = ("position",)

    def validate_constraints(self) -> None:
        """Two rules may ask for one place until they are numbered again."""


class PositionFormSet(BaseInlineFormSet):
    def validate_unique(self) -> None:
        """Two rules may ask for one place until they are numbered again."""


class RuleInline(OfADraft, admin.TabularInline):
    """The rules in their order; each is written on its own page."""

    model = Rule
    form = PositionForm
    formset = PositionFormSet
    extra = 0
    max_num = 0
    fields = ("position", "rule", "if_", "then")
    readonly_fields = ("rule", "if_", "then")
    ordering = ("position",)
    verbose_name_plural = "rules, tried in this order"

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return True

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._open(obj) and bool(request.user.has_perm("routing.change_rulebook"))

    def get_queryset(self, request: HttpRequest) -> QuerySet[Rule]:
        found = super().get_queryset(request).select_related("team", "rep", "book")
        return found.prefetch_related("conditions", "members__rep")

    @admin.display(description="rule")
    def rule(self, rule: Rule) -> SafeString:
        return format_html('<a href="{}">{}</a>', reverse("admin:routing_rule_change", args=[rule.pk]), rule.name)

    @admin.display(description="if")
    def if_(self, rule: Rule) -> str:
        return in_words(rule)

    @admin.display(description="goes to")
    def then(self, rule: Rule) -> SafeString:
        after = "" if rule.owners_first else "past its owners"
        return format_html('{} <span class="quiet">{}</span>', goes_to(rule), after)


@admin.register(RuleBook)
class RuleBookAdmin(OfADraft, ChangedBetweenTurns):
    list_display = ("version_", "state_", "rules_", "note", "published", "published_by")
    actions = ("publish_draft", "discard_draft")
    inlines = (RuleInline,)
    fieldsets = (
        (None, {"fields": ("note",)}),
        ("Mailboxes and regions", {"fields": ("free_mail", "company_mail", "regions"), "classes": ("collapse",)}),
    )
    empty_says = "No rules yet: every lead goes to the team of its source. Add a draft, write rules, publish it."

    def get_queryset(self, request: HttpRequest) -> QuerySet[RuleBook]:
        return super().get_queryset(request).annotate(count=Count("rules"))

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        may = bool(request.user.has_perm("routing.change_rulebook"))
        return may and not RuleBook.objects.filter(status=DRAFT).exists()

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    @admin.display(description="book")
    def version_(self, book: RuleBook) -> str:
        return str(book).capitalize()

    @admin.display(description="state")
    def state_(self, book: RuleBook) -> SafeString:
        return state(LOOKS[book.status], book.get_status_display())

    @admin.display(description="rules")
    def rules_(self, book: RuleBook) -> int:
        return book.count  # type: ignore[attr-defined]

    @admin.display(description="published")
    def published(self, book: RuleBook) -> str:
        return short(book.published_at)

    def get_urls(self) -> list[URLPattern]:
        trying = path("<int:pk>/try/", self.admin_site.admin_view(self.try_a_lead), name="routing_rulebook_try")
        rehearsing = path(
            "<int:pk>/rehearse/", self.admin_site.admin_view(self.rehearse), name="routing_rulebook_rehearse"
        )
        return [trying, rehearsing, *super().get_urls()]

    def try_a_lead(self, request: HttpRequest, pk: int) -> HttpResponse:
        return try_page(self, request, pk)

    def rehearse(self, request: HttpRequest, pk: int) -> HttpResponse:
        return rehearsal_page(self, request, pk)

    def get_fieldsets(self, request: HttpRequest, obj: RuleBook | None = None) -> Any:
        return self.fieldsets if obj else self.fieldsets[:1]

    def get_inlines(self, request: HttpRequest, obj: RuleBook | None = None) -> Any:
        return self.inlines if obj else ()

    def render_change_form(self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        if book := context.get("original"):
            context["mistakes"] = rule_books.mistakes(book) if book.status == DRAFT else []
            context["warnings"] = rule_books.warnings(book) if book.status != RuleBook.Status.SUPERSEDED else []
            context["heading"] = f"Rules, {book}"
            context["may_draft"] = self.has_add_permission(request)
            context["draft"] = RuleBook.objects.filter(status=DRAFT).first()
        else:
            published = RuleBook.objects.filter(status=RuleBook.Status.PUBLISHED).first()
            context["title"] = f"New draft from {published}" if published else "First draft of the rules"
        return super().render_change_form(request, context, *args, **kwargs)

    def save_model(self, request: HttpRequest, obj: RuleBook, form: ModelForm, change: bool) -> None:
        if change:
            obj.pk = rule_books.hold_draft().pk
            obj.save(update_fields=form.changed_data or ["note"])
            return
        draft = rule_books.draft()
        draft.note = obj.note
        draft.save(update_fields=["note"])
        obj.pk = draft.pk

    def save_formset(self, request: HttpRequest, form: Any, formset: Any, change: bool) -> None:
        book = form.instance
        before = dict(book.rules.values_list("pk", "position"))
        formset.save()
        rule_books.number_rules(row=book, before=before)

    def response_add(self, request: HttpRequest, obj: RuleBook, post_url_continue: str | None = None) -> HttpResponse:
        self.message_user(request, "This is the draft. Nothing changes for leads until it is published.")
        return redirect("admin:routing_rulebook_change", obj.pk)

    def response_post_save_change(self, request: HttpRequest, obj: RuleBook) -> HttpResponseRedirect:
        return redirect("admin:routing_rulebook_change", obj.pk)

    def page_actions(self, row: RuleBook) -> dict[str, str]:
        return {"publish_draft": "Publish", "discard_draft": "Discard"} if row.status == DRAFT else {}

    def has_work_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm("routing.change_rulebook"))

    @admin.action(description="Publish the draft", permissions=["work"])
    def publish_draft(self, request: HttpRequest, queryset: QuerySet[RuleBook]) -> HttpResponse | None:
        asked = Asked(request, queryset)
        if not asked.confirmed:
            draft = RuleBook.objects.filter(pk__in=asked.ids, status=DRAFT).first()
            mistakes = rule_books.mistakes(draft) if draft else []
            warnings = rule_books.warnings(draft) if draft else []
            others = f"to be corrected first: {len(mistakes)}" if mistakes else "published already"
            return asked.page(
                self,
                Question(
                    title="Publish the draft of the rules",
                    says="Every lead that arrives from now on is decided by these rules. Leads that are here stay "
                    "where they are. A published book never changes; the next change is the next draft.",
                    button="Publish",
                    ready=1 if draft and not mistakes else 0,
                    others=others,
                    warns=[*mistakes, *warnings],
                ),
                describe,
            )

        def deed() -> RuleBook | None:
            with transaction.atomic(durable=True):
                held = rule_books.hold_draft()
                return rule_books.publish(by=asked.by) if held.pk in asked.ids else None

        book = told(self, request, deed)
        if book is None:
            return None
        return asked.tell_in(self, 1, "Published", "", f"{str(book).capitalize()} decides from now on.")

    @admin.action(description="Discard the draft", permissions=["work"])
    def discard_draft(self, request: HttpRequest, queryset: QuerySet[RuleBook]) -> HttpResponse | None:
        asked = Asked(request, queryset)
        if not asked.confirmed:
            return asked.page(
                self,
                Question(
                    title="Discard the draft of the rules",
                    says="What was written in it is lost. The published rules go on deciding.",
                    button="Discard",
                    ready=RuleBook.objects.filter(pk__in=asked.ids, status=DRAFT).count(),
                    others="published: they are kept",
                ),
                describe,
            )
        drafts = RuleBook.objects.filter(pk__in=asked.ids, status=DRAFT)
        return self.carry_out(
            asked, lambda: int(drafts.exists() and rule_books.discard_draft()), "Discarded", "published"
        )


def describe(book: RuleBook) -> str:
    """A book in a line of a question."""
    return f"{str(book).capitalize()}: {book.rules.count()} rules"
