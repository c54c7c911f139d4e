"""The operators of a condition: how a lead's value is held against what the rule says.

Pure. A condition is read once into a test, which then costs a fraction of a microsecond. A list of values (a form with
boxes to tick) holds if one of them does; the operators with "not" or "none" in them hold if none does, also where
nothing was sent.
"""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from decimal import Decimal

from routing.errors import BadCondition
from routing.facts import KNOWN, Facts, number
from routing.free_mail import FREE_MAIL
from routing.normalise import tidy
from routing.places import REGIONS, country_code

Test = Callable[[Facts], bool]

OPERATORS: dict[str, str] = {
    "is": "is",
    "is_not": "is not",
    "one_of": "is one of",
    "none_of": "is none of",
    "contains": "contains",
    "contains_not": "does not contain",
    "starts_with": "starts with",
    "ends_with": "ends with",
    "at_least": "is at least",
    "more_than": "is more than",
    "at_most": "is at most",
    "less_than": "is less than",
    "in_country": "is in one of the countries",
    "not_in_country": "is in none of the countries",
    "in_region": "is in one of the regions",
    "not_in_region": "is in none of the regions",
    "domain_is": "has one of the domains",
    "domain_under": "has one of the domains or a sub-domain",
    "free_mail": "is a free-mail address",
    "company_mail": "is a company address",
    "present": "is present",
    "missing": "is missing",
}
WITHOUT_VALUE = ("free_mail", "company_mail", "present", "missing")
NUMERIC = ("at_least", "more_than", "at_most", "less_than")
FIELD = re.compile(r"fields(\.[^.\s][^.]*)+")


@dataclass(frozen=True)
class Mailboxes:
    """Which domains are free-mail: the packaged list with this book's own additions and exceptions."""

    free: frozenset[str] = frozenset()
    company: frozenset[str] = frozenset()

    def is_free(self, domain: str) -> bool:
        return domain not in self.company and (domain in FREE_MAIL or domain in self.free)


@dataclass(frozen=True)
class Condition:
    """`field operator value`, as a person wrote it; in `value` a set has one entry a line, or between commas."""

    field: str
    operator: str
    value: str = ""

    def __str__(self) -> str:
        words = f"{self.field} {OPERATORS.get(self.operator, self.operator)}"
        return words if self.operator in WITHOUT_VALUE else f"{words} {', '.join(entries(self.value)) or '?'}"


def entries(value: str) -> list[str]:
    """The entries of a set, tidied."""
    return [entry for part in re.split(r"[\n,;]", value) if (entry := tidy(part))]


def codes(value: str, *, regions: Mapping[str, Collection[str]] | None = None) -> frozenset[str]:
    """The country codes of a set of countries, or of regions where `regions` are given. Raises BadCondition."""
    found: set[str] = set()
    for entry in entries(value):
        if regions is None:
            code = country_code(entry)
            known: Collection[str] = [code] if code else []
        else:
            known = next((group for name, group in regions.items() if name.casefold() == entry.casefold()), [])
        if not known:
            raise BadCondition(f"{entry} is no {'country' if regions is None else 'region'} we know.")
        found.update(known)
    return frozenset(found)


def compile_condition(
    condition: Condition, *, mailboxes: Mailboxes | None = None, regions: Mapping[str, Collection[str]] | None = None
) -> Test:
    """Read a condition into a test of facts. Raises BadCondition with what is wrong with it."""
    field, operator, value = condition.field, condition.operator, condition.value
    if field not in KNOWN and not FIELD.fullmatch(field):
        raise BadCondition(f"{field or 'An empty field'} is no field of a lead. Others are written fields.<name>.")
    if operator not in OPERATORS:
        raise BadCondition(f"{operator} is no operator.")
    if operator not in WITHOUT_VALUE and not entries(value):
        raise BadCondition(f"{field} {OPERATORS[operator]} ... needs a value.")
    if operator in NUMERIC:
        return _compare(field, operator, number(value))
    if operator.removeprefix("not_") in ("in_country", "in_region"):
        known = {**REGIONS, **(regions or {})} if operator.endswith("region") else None
        return _somewhere(field, codes(value, regions=known), not operator.startswith("not_"))
    if operator in ("free_mail", "company_mail"):
        return _mail(field, operator == "free_mail", mailboxes or Mailboxes())
    if operator in ("domain_is", "domain_under"):
        return _domain(
            field, frozenset(entry.casefold().lstrip("@.") for entry in entries(value)), operator == "domain_under"
        )
    if operator in ("present", "missing"):
        return lambda facts: bool(facts.texts(field)) is (operator == "present")
    return _text(field, operator, value)


def _text(field: str, operator: str, value: str) -> Test:
    wanted = tidy(value).casefold()
    many = frozenset(entry.casefold() for entry in entries(value))
    tests: dict[str, Test] = {
        "is": lambda facts: wanted in facts.texts(field),
        "is_not": lambda facts: wanted not in facts.texts(field),
        "one_of": lambda facts: not many.isdisjoint(facts.texts(field)),
        "none_of": lambda facts: many.isdisjoint(facts.texts(field)),
        "contains": lambda facts: any(wanted in text for text in facts.texts(field)),
        "contains_not": lambda facts: not any(wanted in text for text in facts.texts(field)),
        "starts_with": lambda facts: any(text.startswith(wanted) for text in facts.texts(field)),
        "ends_with": lambda facts: any(text.endswith(wanted) for text in facts.texts(field)),
    }
    return tests[operator]


def _compare(field: str, operator: str, limit: Decimal | None) -> Test:
    if limit is None:
        raise BadCondition(f"{field} {OPERATORS[operator]} ... needs a number, such as 250 or 1,000.50.")
    most, least = Decimal("-Infinity"), Decimal("Infinity")  # of no numbers at all
    tests: dict[str, Test] = {
        "at_least": lambda facts: max(facts.numbers(field), default=most) >= limit,
        "more_than": lambda facts: max(facts.numbers(field), default=most) > limit,
        "at_most": lambda facts: min(facts.numbers(field), default=least) <= limit,
        "less_than": lambda facts: min(facts.numbers(field), default=least) < limit,
    }
    return tests[operator]


def _somewhere(field: str, wanted: frozenset[str], inside: bool) -> Test:
    return lambda facts: wanted.isdisjoint(facts.countries(field)) is not inside


def _mail(field: str, free: bool, mailboxes: Mailboxes) -> Test:
    return lambda facts: any(mailboxes.is_free(domain_of(text)) is free for text in facts.texts(field))


def _domain(field: str, wanted: frozenset[str], below: bool) -> Test:
    if not below:
        return lambda facts: any(domain_of(text) in wanted for text in facts.texts(field))
    return lambda facts: any(not wanted.isdisjoint(and_above(domain_of(text))) for text in facts.texts(field))


def domain_of(text: str) -> str:
    """The domain of an address, or the text itself if it is a domain already."""
    return text.rpartition("@")[2]


def and_above(domain: str) -> list[str]:
    """A domain and those it lies under, the longest first and none with a single label: a.b.com, b.com."""
    labels = domain.split(".")
    return [".".join(labels[start:]) for start in range(len(labels) - 1)]
