"""Which team a lead goes to: the first rule of the book that holds, else the catch-all, the team of its source.

Pure, in memory, some microseconds a lead. A book is immutable: to change a rule is to publish another book, so a
process may keep the books it has read for ever, and an explanation that names a version means what it meant that day.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from routing.conditions import Condition, Mailboxes, Test, compile_condition
from routing.facts import Facts

SEEN_MOST = 200
"""Characters of a value that an explanation keeps."""


@dataclass(frozen=True)
class Rule:
    """If all (or any) of its conditions hold, the lead goes to `team`: to all of it, to the members of `part`, or to
    `rep`. A rule without conditions always holds. `owners_first`: an owner of the lead comes before all of these.
    """

    id: int
    position: int
    name: str
    team: int
    conditions: tuple[Condition, ...] = ()
    any: bool = False
    part: int | None = None
    rep: int | None = None
    owners_first: bool = True
    tests: tuple[Test, ...] = field(default=(), compare=False, repr=False)

    def holds(self, facts: Facts) -> bool:
        if not self.tests:
            return True
        if self.any:
            return any(test(facts) for test in self.tests)
        return all(test(facts) for test in self.tests)


@dataclass(frozen=True)
class Book:
    """The rules in their order, as published under a version number; 0 for a book that was never published."""

    version: int = 0
    rules: tuple[Rule, ...] = ()
    mailboxes: Mailboxes = Mailboxes()


@dataclass(frozen=True)
class Decision:
    """The rule that holds, None for the catch-all; each of its conditions with the value seen and whether it held."""

    version: int
    rule: Rule | None
    conditions: tuple[dict[str, Any], ...]

    def as_dict(self) -> dict[str, Any]:
        """The decision in the form in which a lead keeps it."""
        if self.rule is None:
            return {"version": self.version, "matched": None}
        matched = {
            "id": self.rule.id,
            "position": self.rule.position,
            "name": self.rule.name,
            "match": "any" if self.rule.any else "all",
            "conditions": list(self.conditions),
        }
        return {"version": self.version, "matched": matched}


def make_book(
    *,
    version: int = 0,
    rules: Sequence[Rule] = (),
    mailboxes: Mailboxes | None = None,
    regions: Mapping[str, Sequence[str]] | None = None,
) -> Book:
    """A book of these rules in the order of their positions, ready to evaluate. Raises BadCondition."""
    mailboxes = mailboxes or Mailboxes()
    ready = []
    for rule in sorted(rules, key=lambda rule: rule.position):
        tests = tuple(compile_condition(item, mailboxes=mailboxes, regions=regions) for item in rule.conditions)
        ready.append(Rule(**{**vars(rule), "tests": tests}))
    return Book(version, tuple(ready), mailboxes)


def evaluate(book: Book, facts: Facts) -> Decision:
    """The first rule that holds, explained."""
    for rule in book.rules:
        if rule.holds(facts):
            return Decision(book.version, rule, tuple(explain(rule, facts)))
    return Decision(book.version, None, ())


def explain(rule: Rule, facts: Facts) -> list[dict[str, Any]]:
    """Each condition of a rule with the value seen and whether it held, whatever became of the rule."""
    return [
        {
            "field": condition.field,
            "operator": condition.operator,
            "value": condition.value,
            "seen": _short(facts.seen(condition.field)),
            "held": test(facts),
        }
        for condition, test in zip(rule.conditions, rule.tests, strict=True)
    ]


def tried(book: Book, facts: Facts) -> list[dict[str, Any]]:
    """Every rule up to the one that holds, in order, each explained: the answer to "test a lead"."""
    found = []
    for rule in book.rules:
        holds = rule.holds(facts)
        found.append({"rule": rule.name, "position": rule.position, "holds": holds, "conditions": explain(rule, facts)})
        if holds:
            break
    return found


def _short(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    text = value if isinstance(value, str) else ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= SEEN_MOST else f"{text[:SEEN_MOST]}..."
