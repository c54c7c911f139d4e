"""What a campaign mail says to one lead: {{ lead.first_name|default:"there" }}, and nothing that could reach further.

Django's own engine, with no loaders and no tags at all, the harmless filters of mail/filters, and plain texts as
values: no model, no query, no setting is within reach of a template. A name that does not exist is refused when the
campaign is launched, as is a value that some lead lacks, unless the template says what to write instead.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.template import Context, Engine, Template, TemplateSyntaxError
from django.template.base import TextNode, VariableNode

from outreach.errors import BadTemplate

LEAD = ("first_name", "last_name", "email", "company", "country")
KNOWN = frozenset({*(f"lead.{name}" for name in LEAD), "rep.name", "rep.email", "campaign.name", "unsubscribe_url"})
FREE = "lead.fields."
"""Whatever else the sender of the lead said, by name: {{ lead.fields.plan }}."""
INSTEAD = ("default", "default_if_none")


class MailEngine(Engine):
    """Django's engine without its tags: not even {% if %}, {% include %} or {% load %}."""

    default_builtins = ["outreach.mail.filters"]


ENGINE = MailEngine(dirs=[], app_dirs=False, loaders=[], autoescape=False, debug=False)


@dataclass(frozen=True)
class Text:
    """A compiled template, the names it needs a value for, and those it has something to write instead of."""

    template: Template
    needed: frozenset[str]
    optional: frozenset[str]

    def render(self, values: Mapping[str, Any]) -> str:
        return str(self.template.render(Context(values, autoescape=False, use_l10n=False)))

    def missing(self, values: Mapping[str, Any]) -> list[str]:
        """The names without which this lead's mail would have a hole, sorted."""
        return sorted(name for name in self.needed if lookup(values, name) in (None, ""))


def compile_text(source: str) -> Text:
    """Compile a template. Raises BadTemplate where it does not parse, uses a tag, or names what no mail knows."""
    try:
        template = ENGINE.from_string(source)
    except TemplateSyntaxError as fault:
        raise BadTemplate(str(fault)) from fault
    needed: set[str] = set()
    optional: set[str] = set()
    for node in template.nodelist:
        if isinstance(node, VariableNode):
            expression = node.filter_expression
            name = str(expression.var)
            if not hasattr(expression.var, "lookups") or expression.var.lookups is None:
                continue  # a text in quotes, a number
            if name not in KNOWN and not (name.startswith(FREE) and name.count(".") == 2):
                raise BadTemplate(f"There is no {name}. Known are {', '.join(sorted(KNOWN))} and lead.fields.NAME.")
            has_other = any(filter_name.__name__ in INSTEAD for filter_name, _ in expression.filters)
            (optional if has_other else needed).add(name)
        elif not isinstance(node, TextNode):
            raise BadTemplate("Only {{ names }} and text are possible.")
    return Text(template, frozenset(needed), frozenset(optional))


def values_of(
    *, lead: Mapping[str, Any], rep: Mapping[str, str] | None, campaign: str, unsubscribe_url: str
) -> dict[str, Any]:
    """The values of one lead's mail: texts, and nothing with methods that do anything."""
    fields = {str(key): plain(value) for key, value in (lead.get("fields") or {}).items()}
    return {
        "lead": {**{name: str(lead.get(name) or "") for name in LEAD}, "fields": fields},
        "rep": dict(rep or {"name": "", "email": ""}),
        "campaign": {"name": campaign},
        "unsubscribe_url": unsubscribe_url,
    }


def plain(value: Any) -> str:
    """A lead's own field as text; lists, objects and nothing are no text."""
    return str(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else ""


def lookup(values: Mapping[str, Any], name: str) -> Any:
    """The value behind a dotted name, None where there is none."""
    found: Any = values
    for part in name.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found
