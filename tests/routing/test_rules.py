"""Rules: what each operator means, which rule takes a lead, and what the explanation says."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from routing.conditions import OPERATORS, WITHOUT_VALUE, Condition, Mailboxes, compile_condition
from routing.errors import BadCondition
from routing.facts import Facts, facts_of
from routing.free_mail import FREE_MAIL
from routing.normalise import CleanLead
from routing.overlaps import implies, unreachable
from routing.places import REGIONS, country_code, phone_country
from routing.rules import Rule, evaluate, make_book, tried


def facts(**values: Any) -> Facts:
    known = {name: values.pop(name) for name in ("email", "phone", "company", "country") if name in values}
    return facts_of(lead=CleanLead(**known, fields=values), source="demo-form")


def holds(condition: str, **values: Any) -> bool:
    field, operator, *value = condition.split(" ", 2)
    return compile_condition(Condition(field, operator, *value))(facts(**values))


@pytest.mark.parametrize(
    ("condition", "values", "held"),
    [
        ("company is acme", {"company": "ACME "}, True),
        ("company is acme", {"company": "Acme Ltd"}, False),
        ("company is_not acme", {"company": ""}, True),
        ("company contains Ltd", {"company": "Acme ltd."}, True),
        ("company contains_not Ltd", {"company": "Acme"}, True),
        ("company starts_with ac", {"company": "Acme"}, True),
        ("company ends_with me", {"company": "Acme"}, True),
        ("source is demo-form", {}, True),
        ("fields.plan one_of pro, team", {"plan": "Team"}, True),
        ("fields.plan none_of pro, team", {"plan": "free"}, True),
        ("fields.plan none_of pro, team", {"plan": ["free", "pro"]}, False),
        ("fields.topics is crm", {"topics": ["ERP", "CRM"]}, True),
        ("fields.utm.campaign is spring", {"utm": {"campaign": "Spring"}}, True),
        ("fields.utm.campaign is spring", {"utm": "spring"}, False),
        ("fields.optin is true", {"optin": True}, True),
        ("fields.employees at_least 200", {"employees": 200}, True),
        ("fields.employees at_least 200", {"employees": "1,200"}, True),
        ("fields.employees more_than 200", {"employees": "200"}, False),
        ("fields.employees at_most 1,000.5", {"employees": "1 000.5"}, True),
        ("fields.employees less_than 10", {"employees": "51-200"}, False),
        ("fields.employees less_than 10", {}, False),
        ("fields.employees less_than 10", {"employees": True}, False),
        ("country in_country Germany, at", {"country": "Österreich"}, True),
        ("country in_country Germany, AT", {"country": "DEU"}, True),
        ("country not_in_country Germany", {"country": "somewhere"}, True),
        ("country in_region dach", {"country": "Switzerland"}, True),
        ("country in_region EMEA", {"country": "US"}, False),
        ("country not_in_region EMEA", {"country": ""}, True),
        ("phone_country in_country UK", {"phone": "+442079460000"}, True),
        ("domain domain_is acme.example", {"email": "a@acme.example"}, True),
        ("email domain_is @acme.example", {"email": "a@eu.acme.example"}, False),
        ("email domain_under acme.example", {"email": "a@eu.acme.example"}, True),
        ("email domain_under acme.example", {"email": "a@notacme.example"}, False),
        ("email free_mail", {"email": "a@Gmail.com"}, True),
        ("email free_mail", {"email": "a@acme.example"}, False),
        ("email free_mail", {}, False),
        ("email company_mail", {"email": "a@acme.example"}, True),
        ("email company_mail", {}, False),
        ("phone present", {"phone": "+442079460000"}, True),
        ("phone missing", {}, True),
        ("fields.note present", {"note": "  "}, False),
    ],
)
def test_an_operator_means_what_it_says(condition: str, values: dict[str, Any], held: bool) -> None:
    assert holds(condition, **values) is held


@pytest.mark.parametrize(
    ("condition", "problem"),
    [
        (Condition("colour", "is", "red"), "colour is no field"),
        (Condition("fields.", "is", "red"), "fields. is no field"),
        (Condition("email", "like", "x"), "like is no operator"),
        (Condition("email", "is", " "), "needs a value"),
        (Condition("fields.size", "at_least", "many"), "needs a number"),
        (Condition("country", "in_country", "Germany, Atlantis"), "Atlantis is no country"),
        (Condition("country", "in_region", "Middle Earth"), "Middle Earth is no region"),
    ],
)
def test_a_condition_that_cannot_be_read_is_refused_in_words(condition: Condition, problem: str) -> None:
    with pytest.raises(BadCondition, match=problem):
        compile_condition(condition)


def test_a_book_adds_free_mail_domains_excepts_others_and_has_its_own_regions() -> None:
    boxes = Mailboxes(free=frozenset({"mail.example"}), company=frozenset({"hey.com"}))
    assert boxes.is_free("mail.example") and not boxes.is_free("hey.com") and boxes.is_free("gmail.com")
    test = compile_condition(Condition("country", "in_region", "home"), regions={"Home": ["DE"]})
    assert test(facts(country="Germany")) and not test(facts(country="France"))


def test_the_packaged_lists_are_tidy() -> None:
    assert all(domain == domain.lower() and "." in domain for domain in FREE_MAIL)
    assert all(len(code) == 2 and code.isupper() for region in REGIONS.values() for code in region)
    assert REGIONS["EMEA"].isdisjoint(REGIONS["Americas"]) and REGIONS["EMEA"] & REGIONS["APAC"] == set()
    assert country_code("Côte d'Ivoire") == "CI" and phone_country("+4930123456") == "DE"


def rule(position: int, *conditions: tuple[str, ...], **fields: Any) -> Rule:
    items = tuple(Condition(*condition) for condition in conditions)
    return Rule(id=position, position=position, name=f"r{position}", team=position, conditions=items, **fields)


def test_the_first_rule_that_holds_decides_and_no_other() -> None:
    book = make_book(rules=[rule(3), rule(1, ("company", "is", "x")), rule(2, ("company", "is", "acme"))])
    decision = evaluate(book, facts(company="Acme"))
    assert decision.rule and decision.rule.position == 2
    assert [step["holds"] for step in tried(book, facts(company="Acme"))] == [False, True]


def test_any_needs_one_condition_and_all_needs_each() -> None:
    conditions = (("company", "is", "acme"), ("country", "in_country", "DE"))
    for several, expected in ((True, 1), (False, 2)):
        book = make_book(rules=[rule(1, *conditions, any=several), rule(2)])
        decision = evaluate(book, facts(company="Acme"))
        assert decision.rule and decision.rule.position == expected


def test_without_a_rule_that_holds_the_catch_all_decides() -> None:
    assert evaluate(make_book(rules=[rule(1, ("company", "is", "x"))]), facts()).rule is None
    assert evaluate(make_book(), facts()).rule is None


def test_the_explanation_names_version_and_each_condition_with_the_value_seen() -> None:
    book = make_book(version=7, rules=[rule(1, ("company", "is", "acme"), ("country", "missing"), any=True)])
    assert evaluate(book, facts(company="Acme", country="x" * 100)).as_dict() == {
        "version": 7,
        "matched": {
            "id": 1,
            "position": 1,
            "name": "r1",
            "match": "any",
            "conditions": [
                {"field": "company", "operator": "is", "value": "acme", "seen": "Acme", "held": True},
                {"field": "country", "operator": "missing", "value": "", "seen": "x" * 100, "held": False},
            ],
        },
    }


@pytest.mark.parametrize(
    ("rules", "hidden"),
    [
        ([rule(1), rule(2)], {2}),
        ([rule(1, ("country", "in_region", "EMEA")), rule(2, ("country", "in_country", "DE, FR"))], {2}),
        ([rule(1, ("country", "in_country", "DE")), rule(2, ("country", "in_region", "DACH"))], set()),
        ([rule(1, ("fields.size", "at_least", "10")), rule(2, ("fields.size", "more_than", "50"))], {2}),
        ([rule(1, ("fields.size", "at_least", "50")), rule(2, ("fields.size", "at_least", "10"))], set()),
        ([rule(1, ("email", "present")), rule(2, ("email", "company_mail"))], {2}),
        ([rule(1, ("email", "domain_under", "acme.example")), rule(2, ("email", "domain_is", "eu.acme.example"))], {2}),
        ([rule(1, ("email", "free_mail"), ("email", "company_mail"))], {1}),
        ([rule(1, ("company", "is", "a"), ("company", "is", "b"))], {1}),
        ([rule(1, ("fields.topic", "is", "a"), ("fields.topic", "is", "b"))], set()),
        ([rule(1, ("fields.topic", "is", "a"), ("fields.topic", "none_of", "a, b"))], {1}),
        (
            [rule(1, ("company", "contains", "a"), ("phone", "present"), any=True), rule(2, ("company", "is", "acme"))],
            {2},
        ),
        ([rule(1, ("company", "contains", "a"), ("phone", "present")), rule(2, ("company", "is", "acme"))], set()),
        ([rule(1, ("company", "is", "a"), ("company", "is", "b")), rule(2, ("company", "is", "a"))], {1}),
    ],
)
def test_rules_that_are_never_reached_are_found(rules: list[Rule], hidden: set[int]) -> None:
    assert set(unreachable(rules)) == hidden


VALUES = {
    "at_least": ["1", "5"], "more_than": ["1", "5"], "at_most": ["1", "5"], "less_than": ["1", "5"],
    "in_country": ["DE", "DE, FR", "US"], "not_in_country": ["DE", "DE, FR", "US"], "in_region": ["DACH", "EMEA"],
    "not_in_region": ["DACH", "EMEA"], "domain_is": ["a.example", "b.a.example"], "domain_under": ["a.example"],
}  # fmt: skip
WORDS = ["a", "b", "a, b", "ab", "5", "1"]
FIELDS = ["email", "company", "country", "fields.x"]
CONDITIONS = st.sampled_from(FIELDS).flatmap(
    lambda field: st.sampled_from(list(OPERATORS)).flatmap(
        lambda operator: st.sampled_from([""] if operator in WITHOUT_VALUE else VALUES.get(operator, WORDS)).map(
            lambda value: Condition(field, operator, value)
        )
    )
)
TEXTS = st.sampled_from(
    ["", "a", "b", "ab", "DE", "FR", "US", "1", "5", "7", "x@a.example", "x@b.a.example", "x@gmail.com"]
)
LEADS = st.builds(
    lambda email, company, country, x: Facts({"email": email, "company": company, "country": country}, {"x": x}),
    TEXTS, TEXTS, TEXTS, TEXTS | st.lists(TEXTS, max_size=3),
)  # fmt: skip


def numbered(made: list[tuple[list[Condition], bool]]) -> list[Rule]:
    return [
        Rule(id=number, position=number, name=str(number), team=1, conditions=tuple(conditions), any=several)
        for number, (conditions, several) in enumerate(made)
    ]


RULES = st.lists(st.tuples(st.lists(CONDITIONS, max_size=3), st.booleans()), min_size=1, max_size=4).map(numbered)


@given(rules=RULES, leads=st.lists(LEADS, min_size=20, max_size=20))
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_lead_ever_reaches_a_rule_that_is_said_to_be_unreachable(rules: list[Rule], leads: list[Facts]) -> None:
    hidden = unreachable(rules)
    book = make_book(rules=rules)
    for lead in leads:
        decision = evaluate(book, lead)
        assert decision.rule is None or decision.rule.position not in hidden


@given(have=CONDITIONS, want=CONDITIONS, leads=st.lists(LEADS, min_size=20, max_size=20))
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_what_one_condition_implies_of_another_holds_for_every_lead(
    have: Condition, want: Condition, leads: list[Facts]
) -> None:
    if implies(have, want):
        one, two = compile_condition(have), compile_condition(want)
        assert all(two(lead) for lead in leads if one(lead))
