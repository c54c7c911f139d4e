"""What a campaign mail says to one lead: {{ lead.first_name|default:"there" }}, and nothing that could reach further.

Django's own engine, with no loaders and no tags at all, the harmless filters of mail/filters, and plain texts as
values: no model, no query, no setting is within reach of a template. A name that does not exist is refused when the
campaign is launched, as is a value that some lead lacks, unless the template says what to write instead.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django.template import Context, Engine, Template, TemplateSyntaxError
from django.template.base import Node, TextNode, VariableNode

from outreach.errors import BadTemplate

LEAD = ("first_name", "last_name", "email", "company", "country")
KNOWN = frozenset({*(f"lead.{name}" for name in LEAD), "rep.name", "rep.email", "campaign.name", "unsubscribe_url"})
FREE = "lead.fields."
"""Whatever else the sender of the lead said, by name: {{ lead.fields.plan }}."""
BRACES = re.compile(r"{{|}}|{%")
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
        """The text for one lead. Raises BadTemplate where a filter cannot do its work on a value, without the value."""
        context = Context(values, autoescape=False, use_l10n=False)
        with context.bind_template(self.template):
            return "".join(filled(node, context) for node in self.template.nodelist)

    def missing(self, values: Mapping[str, Any]) -> list[str]:
        """The names without which this lead's mail would have a hole, sorted."""
        return sorted(name for name in self.needed if lookup(values, name) in (None, ""))


def compile_text(source: str) -> Text:
    """Compile a template. Raises BadTemplate where it does not parse, uses a tag, names what no mail knows, has braces
    that are not closed, or cannot be filled in even where every value is there."""
    try:
        template = ENGINE.from_string(source)
    except TemplateSyntaxError as fault:
        raise BadTemplate(str(fault)) from fault
    needed: set[str] = set()
    optional: set[str] = set()
    for node in template.nodelist:
        if isinstance(node, VariableNode):
            for name, has_other in names_in(node):
                (optional if has_other else needed).add(checked(name))
        elif isinstance(node, TextNode):
            refuse_broken_braces(node)
        else:
            raise BadTemplate("Only {{ names }} and text are possible.")
    text = Text(template, frozenset(needed), frozenset(optional))
    text.render(sample(needed | optional))
    return text


def names_in(node: VariableNode) -> Iterator[tuple[str, bool]]:
    """The names in one pair of braces, those that filters are given included, and whether a filter after each says what
    to write instead."""
    expression = node.filter_expression
    after = [filter_name.__name__ in INSTEAD for filter_name, _ in expression.filters]
    if is_name(expression.var):
        yield str(expression.var), any(after)
    for place, (_, arguments) in enumerate(expression.filters, start=1):
        for looked_up, argument in arguments:
            if looked_up and is_name(argument):
                yield str(argument), any(after[place:])


def is_name(part: Any) -> bool:
    """It is looked up: no text in quotes, no number."""
    return getattr(part, "lookups", None) is not None


def checked(name: str) -> str:
    """The name, if mails know it. Raises BadTemplate."""
    if name not in KNOWN and not (name.startswith(FREE) and name.count(".") == 2):
        raise BadTemplate(f"There is no {name}. Known are {', '.join(sorted(KNOWN))} and lead.fields.NAME.")
    return name


def refuse_broken_braces(node: TextNode) -> None:
    """Raise BadTemplate where a text has braces that the engine did not read: people would get them as they are."""
    if broken := BRACES.search(node.s):
        line = (node.token and node.token.lineno or 1) + node.s.count("\n", 0, broken.start())
        near = node.s[broken.start() : broken.start() + 40] if broken[0] != "}}" else node.s[: broken.end()][-40:]
        near = " ".join(near.split())
        raise BadTemplate(f"Braces are opened by {{{{ and closed by }}}} in the same line. In line {line}: {near}")


def filled(node: Node, context: Context) -> str:
    """One piece of a template, filled in. Raises BadTemplate for whatever a filter trips over."""
    try:
        return str(node.render(context))
    except Exception as fault:
        token = node.token
        place = f"{{{{ {token.contents} }}}} in line {token.lineno}" if token is not None else "It"
        raise BadTemplate(f"{place} cannot be filled in ({type(fault).__name__}).") from fault


def sample(names: Iterable[str]) -> dict[str, Any]:
    """Values for these names, to try a template with."""
    fields = {name.removeprefix(FREE): "x" for name in names if name.startswith(FREE)}
    lead = {**dict.fromkeys(LEAD, "x"), "fields": fields}
    return values_of(lead=lead, rep={"name": "x", "email": "x"}, campaign="x", unsubscribe_url="x")


class Fields(dict[str, str]):
    """What a lead's sender said, by name; nothing for what it did not say, and no method of a dict."""

    def __missing__(self, name: str) -> str:
        return ""


def values_of(
    *, lead: Mapping[str, Any], rep: Mapping[str, str] | None, campaign: str, unsubscribe_url: str
) -> dict[str, Any]:
    """The values of one lead's mail: texts, and nothing with methods that do anything."""
    fields = Fields({str(key): plain(value) for key, value in (lead.get("fields") or {}).items()})
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
