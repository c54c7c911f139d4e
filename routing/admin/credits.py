"""Credits: leads that a person adds to what a member is owed, or takes from it, and the ledger of them."""

from decimal import Decimal

from django import forms
from django.contrib import admin
from django.http import HttpResponse

from crmsync.desk.confirm import Asked, Question
from crmsync.desk.lists import Facts
from crmsync.desk.words import plural, short
from routing import credits
from routing.admin.team_filter import MemberTeamFilter
from routing.admin.turnstile import ChangedBetweenTurns
from routing.explain import balance
from routing.models import Credit, Membership


class CreditForm(forms.Form):
    leads = forms.DecimalField(
        min_value=-credits.MOST,
        max_value=credits.MOST,
        decimal_places=2,
        help_text="How many more leads each is owed, such as 2 or 0.5; with a minus: how many fewer.",
    )
    reason = forms.CharField(max_length=300, help_text="It stays in the ledger.")

    def clean_leads(self) -> Decimal:
        leads: Decimal = self.cleaned_data["leads"]
        if not leads:
            raise forms.ValidationError("A credit of no leads changes nothing.")
        return leads


def ask_for_credit(model_admin: ChangedBetweenTurns, asked: Asked) -> HttpResponse | None:
    """Ask how many leads and why, then credit each of the chosen members."""
    form = CreditForm(asked.given)
    members = Membership.objects.filter(pk__in=asked.ids)
    if not form.is_valid():
        return asked.page(
            model_admin,
            Question(
                title=f"Credit {plural(len(asked.ids), 'member')}",
                says="A credit moves what a member is owed, not leads: the next turns make it up, bit by bit. "
                "To make good a week off, or to take back what came on top.",
                button="Credit",
                ready=members.count(),
                others="gone",
                form=form,
            ),
            lambda member: f"{member}: {balance(member.lag)}",
        )
    leads, reason = form.cleaned_data["leads"], form.cleaned_data["reason"]
    return model_admin.carry_out(
        asked,
        lambda: credits.give_credits(memberships=members, leads=leads, reason=reason, by=asked.by),
        f"Credited {leads:+g} leads each to",
        "gone",
    )


@admin.register(Credit)
class CreditAdmin(Facts):
    list_display = ("member", "moved", "kind", "reason", "by", "after", "given")
    list_select_related = ("membership__rep", "membership__team")
    list_filter = (MemberTeamFilter,)
    fields = ("membership", "moved", "kind", "reason", "by", "after", "given")
    readonly_fields = ("moved", "after", "given")
    empty_says = "No credits yet. Give one under Memberships: choose members, then Credit."

    @admin.display(description="member")
    def member(self, credit: Credit) -> str:
        return str(credit.membership)

    @admin.display(description="leads")
    def moved(self, credit: Credit) -> str:
        return f"{credit.leads:+.2f}"

    @admin.display(description="after turn")
    def after(self, credit: Credit) -> str:
        return f"{credit.after_turn:,}"

    @admin.display(description="given")
    def given(self, credit: Credit) -> str:
        return short(credit.created_at)
