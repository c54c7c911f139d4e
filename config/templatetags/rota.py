"""Words and panels for the admin's templates."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from django import template
from django.contrib.admin.views.main import ChangeList

from config.lead_crm import messages_of, standing_of
from crmsync.desk import words as desk_words
from crmsync.desk.tabs import Tabs

register = template.Library()


@register.filter
def age(moment: datetime | None) -> str:
    """How long ago."""
    return desk_words.age(moment) if moment else ""


@register.filter
def short(moment: datetime | None) -> str:
    """A moment in as few signs as it needs."""
    return desk_words.short(moment)


@register.filter
def words(name: str) -> str:
    """A status by its name, as people say it: in_doubt is "in doubt"."""
    return name.replace("_", " ")


@register.filter
def percent(share: float) -> str:
    """A share of one as a percentage."""
    return f"{share:.0%}"


@register.filter
def pairs(fields: dict[str, Any]) -> list[tuple[str, str]]:
    """The fields of a record by name, in words."""
    return [
        (key.replace("_", " "), "emptied" if value is None else str(value)) for key, value in sorted(fields.items())
    ]


@register.inclusion_tag("admin/routing/lead/crm.html")
def told_the_crm(lead: Any) -> dict[str, Any]:
    """What the CRM was told of a lead."""
    return {"messages_to_crm": messages_of(lead.uid), "standing": standing_of(lead.uid)}


@register.simple_tag(takes_context=True)
def page_actions(context: template.Context) -> list[tuple[str, str]]:
    """The actions that make sense for the row of the page and that this person may take, as (name, label)."""
    model_admin = context["adminform"].model_admin
    if not hasattr(model_admin, "page_actions") or not context.get("original"):
        return []
    allowed = model_admin.get_actions(context["request"])
    return [(name, label) for name, label in model_admin.page_actions(context["original"]).items() if name in allowed]


@register.filter
def choices(tabs: Tabs, changelist: ChangeList) -> Iterator[dict[str, Any]]:
    """The tabs of a list, each with its address in it."""
    return tabs.choices(changelist)
