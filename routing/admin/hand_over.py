"""Give leads to somebody: to a rep by name, or back to the turns for the others, always with a reason."""

from django import forms
from django.contrib.admin import ModelAdmin
from django.http import HttpResponse

from crmsync.desk.confirm import Asked, Question
from crmsync.desk.words import plural
from routing import by_hand
from routing.admin.leads_in_words import describe
from routing.by_hand import Tried
from routing.models import Assignment, Lead, Membership, Rep


class ReasonForm(forms.Form):
    reason = forms.CharField(max_length=300, help_text="It stays in the history of the lead.")


class GiveForm(ReasonForm):
    """To whom: anybody in service, member of a team."""

    to = forms.ModelChoiceField(
        Membership.objects.filter(active=True, rep__retired_at=None, team__retired_at=None)
        .select_related("rep", "team")
        .order_by("rep__name", "team__name")
    )
    field_order = ("to", "reason")


class HandOverForm(ReasonForm):
    """What becomes of leads that a person gave to this rep, and of the turns spent on the leads."""

    also_chosen = forms.BooleanField(label="Also leads that somebody gave to this rep by hand", required=False)
    turns_back = forms.BooleanField(
        label="Give the turns back",
        required=False,
        help_text="For somebody away for a day, who gets as many leads later; not for somebody who leaves.",
    )


def give_to(model_admin: ModelAdmin, asked: Asked) -> HttpResponse | None:
    """Ask to whom and why, then give the chosen open leads to that member."""
    form = GiveForm(asked.given)
    if not form.is_valid():
        return asked.page(
            model_admin,
            Question(
                title=f"Give {plural(len(asked.ids), 'lead')} to somebody",
                says="The rep gets them past turns, hours and caps, and nothing automatic takes them away again. "
                "Who has a lead now loses it, and keeps the turn it cost.",
                button="Give",
                ready=Lead.objects.filter(pk__in=asked.ids, status__in=Lead.OPEN).count(),
                others="closed",
                form=form,
            ),
            describe,
        )
    to, reason = form.cleaned_data["to"], form.cleaned_data["reason"]
    tried = by_hand.give_now(lead_ids=asked.ids, membership=to, by=asked.by, reason=reason)
    return asked.tell_in(model_admin, tried.done, f"Given to {to}:", "", refusals(tried))


def give_back(model_admin: ModelAdmin, asked: Asked) -> HttpResponse | None:
    """Ask why, then let the next in turn among the others take the chosen leads."""
    form = ReasonForm(asked.given)
    if not form.is_valid():
        held = Assignment.objects.current().filter(lead__in=asked.ids)
        return asked.page(
            model_admin,
            Question(
                title=f"Give {plural(len(asked.ids), 'lead')} back to the turns",
                says="Each is taken from its rep, who gets the turn back, and goes to the next in turn among the "
                "others of its team; it waits where none of them is present.",
                button="Give back",
                ready=held.count(),
                others="that nobody has",
                form=form,
            ),
            describe,
        )
    tried = by_hand.give_back_now(lead_ids=asked.ids, by=asked.by, reason=form.cleaned_data["reason"])
    return asked.tell_in(model_admin, tried.done, "Given back", "", refusals(tried))


def hand_over(model_admin: ModelAdmin, asked: Asked) -> HttpResponse | None:
    """Ask why and how, then give all open leads of the chosen reps to the rest of their teams."""
    form = HandOverForm(asked.given)
    held = Assignment.objects.current().filter(membership__rep__in=asked.ids)
    if not form.is_valid():
        chosen = held.exclude(chosen_by="").count()
        by_a_person = f", {chosen:,} of them given by a person" if chosen else ""
        return asked.page(
            model_admin,
            Question(
                title=f"Give the open leads of {plural(len(asked.ids), 'rep')} to the others",
                says=f"{plural(held.count(), 'open lead')}{by_a_person}: in each team the others take them in fair "
                "turn, the oldest first. To keep new leads away, enter time off or take the rep out of turns as well.",
                button="Hand over for",
                ready=Rep.objects.filter(pk__in=held.values("membership__rep")).count(),
                others="without open leads",
                form=form,
            ),
        )
    tried = by_hand.hand_over_now(rep_ids=asked.ids, by=asked.by, **form.cleaned_data)
    more = [f"{tried.waiting:,} wait for one of the others."] if tried.waiting else []
    more += [f"{plural(tried.kept, 'lead')} stayed."] if tried.kept else []
    return asked.tell_in(model_admin, tried.done, "Handed over", "", " ".join([*more, refusals(tried)]).strip())


def refusals(tried: Tried) -> str:
    """Why some were not done, with how many."""
    return " ".join(f"{count:,} not: {reason}" for reason, count in tried.refused.items())
