"""Find rules that no lead can ever reach: an earlier rule takes all of theirs, or they contradict themselves.

Pure, and careful: what it reports is certain, though it does not find everything. A field of the sender's own may hold
several values, so that "is A" and "is B" do not contradict each other there.
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal

from routing.conditions import NUMERIC, Condition, and_above, codes, entries
from routing.facts import KNOWN, number
from routing.normalise import tidy
from routing.places import REGIONS
from routing.rules import Rule

Regions = Mapping[str, Sequence[str]]
OPPOSITE = {
    "is": "is_not",
    "one_of": "none_of",
    "contains": "contains_not",
    "in_country": "not_in_country",
    "in_region": "not_in_region",
    "present": "missing",
}
OPPOSITE |= {opposite: operator for operator, opposite in OPPOSITE.items()}
NEGATIVE = ("is_not", "none_of", "contains_not", "not_in_country", "not_in_region", "missing")


def unreachable(rules: Sequence[Rule], *, regions: Regions | None = None) -> dict[int, str]:
    """For each rule that can never take a lead, by position, the reason in words."""
    own = regions or {}
    found: dict[int, str] = {}
    in_order = sorted(rules, key=lambda rule: rule.position)
    for number_, rule in enumerate(in_order):
        if not rule.any and (pair := _contradiction(rule, own)):
            found[rule.position] = f"No lead can meet both “{pair[0]}” and “{pair[1]}”."
            continue
        for earlier in in_order[:number_]:
            if earlier.position not in found and takes_all(earlier, rule, regions=own):
                found[rule.position] = f"Rule {earlier.position} “{earlier.name}” takes all of its leads before it."
                break
    return found


def takes_all(earlier: Rule, later: Rule, *, regions: Regions | None = None) -> bool:
    """Whether certainly every lead for which `later` holds is one for which `earlier` holds too."""
    own = regions or {}
    if not earlier.conditions:
        return True
    if not later.conditions:
        return False

    def follows(condition: Condition) -> bool:
        """Whether the later rule's holding makes this condition hold."""
        each = (implies(have, condition, regions=own) for have in later.conditions)
        return all(each) if later.any else any(each)

    if not earlier.any:
        return all(follows(condition) for condition in earlier.conditions)
    if not later.any:
        return any(follows(condition) for condition in earlier.conditions)
    return all(any(implies(have, want, regions=own) for want in earlier.conditions) for have in later.conditions)


def implies(have: Condition, want: Condition, *, regions: Regions | None = None) -> bool:
    """Whether a lead that meets `have` certainly meets `want`."""
    own = regions or {}
    if have.field != want.field:
        return False
    if have == want:
        return True
    a, b = have.operator, want.operator
    if b == "present":
        return a not in NEGATIVE
    if a == "missing":
        return b in NEGATIVE
    if a in NUMERIC and b in NUMERIC:
        return _numbers(a, number(have.value), b, number(want.value))
    if (mine := _places(have, own)) is not None and (theirs := _places(want, own)) is not None:
        if a.startswith("not_") != b.startswith("not_"):
            return False
        return mine >= theirs if a.startswith("not_") else mine <= theirs
    if a in ("domain_is", "domain_under") and b in ("domain_is", "domain_under"):
        return _domains(have, want)
    return _texts(have, want)


def _texts(have: Condition, want: Condition) -> bool:
    a, b, wanted = have.operator, want.operator, tidy(want.value).casefold()
    if a in ("is", "one_of"):
        mine = _set(have)
        if b in ("is", "one_of"):
            return mine <= _set(want)
        if b == "contains":
            return all(wanted in text for text in mine)
        if b == "starts_with":
            return all(text.startswith(wanted) for text in mine)
        return b == "ends_with" and all(text.endswith(wanted) for text in mine)
    if a in ("is_not", "none_of") and b in ("is_not", "none_of"):
        return _set(have) >= _set(want)
    text = tidy(have.value).casefold()
    if a == "contains_not":
        return (b == "contains_not" and text in wanted) or (
            b in ("is_not", "none_of") and all(text in other for other in _set(want))
        )
    if a == "starts_with":
        return (b == "starts_with" and text.startswith(wanted)) or (b == "contains" and wanted in text)
    if a == "ends_with":
        return (b == "ends_with" and text.endswith(wanted)) or (b == "contains" and wanted in text)
    return a == "contains" and b == "contains" and wanted in text


def _contradiction(rule: Rule, own: Regions) -> tuple[Condition, Condition] | None:
    for one in rule.conditions:
        for two in rule.conditions:
            if one is not two and _contradict(one, two, own):
                return one, two
    return None


def _contradict(one: Condition, two: Condition, own: Regions) -> bool:
    if one.field != two.field:
        return False
    opposite = OPPOSITE.get(two.operator)
    if opposite and implies(one, Condition(two.field, opposite, two.value), regions=own):
        return True
    if one.field not in KNOWN:
        return False
    if {one.operator, two.operator} == {"free_mail", "company_mail"}:
        return True
    if {one.operator, two.operator} <= {"is", "one_of"}:
        return _set(one).isdisjoint(_set(two))
    mine, theirs = _places(one, own), _places(two, own)
    positive = not one.operator.startswith("not_") and not two.operator.startswith("not_")
    return positive and mine is not None and theirs is not None and mine.isdisjoint(theirs)


def _set(condition: Condition) -> frozenset[str]:
    if condition.operator in ("is", "is_not"):
        return frozenset([tidy(condition.value).casefold()])
    return frozenset(entry.casefold() for entry in entries(condition.value))


def _places(condition: Condition, own: Regions) -> frozenset[str] | None:
    operator = condition.operator.removeprefix("not_")
    if operator not in ("in_country", "in_region"):
        return None
    return codes(condition.value, regions={**REGIONS, **own} if operator == "in_region" else None)


def _domains(have: Condition, want: Condition) -> bool:
    mine, theirs = ({entry.casefold().lstrip("@.") for entry in entries(each.value)} for each in (have, want))
    if want.operator == "domain_is":
        return have.operator == "domain_is" and mine <= theirs
    return all(not theirs.isdisjoint(and_above(domain)) for domain in mine)


def _numbers(a: str, mine: Decimal | None, b: str, theirs: Decimal | None) -> bool:
    if mine is None or theirs is None:
        return False
    if a in ("at_least", "more_than") and b in ("at_least", "more_than"):
        return mine > theirs or (mine == theirs and not (a == "at_least" and b == "more_than"))
    if a in ("at_most", "less_than") and b in ("at_most", "less_than"):
        return mine < theirs or (mine == theirs and not (a == "at_most" and b == "less_than"))
    return False
