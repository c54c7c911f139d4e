"""Rules by form: written as a draft, tried on a lead, published after asking, and never changed afterwards."""

import pytest
from django.core.cache import cache
from django.db import transaction
from django.test import Client
from django.urls import reverse

from routing import rule_books
from routing.models import Lead, Rule, RuleBook, Team
from tests.make import make_member, make_source, make_team, publish_rules, send
from tests.staff import ask, confirm, hands_on, listed, logged_in, page_of, said

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _nothing_remembered() -> None:
    cache.clear()


@pytest.fixture
def staff() -> Client:
    return logged_in()


def conditions(*rows: tuple[str, ...]) -> dict[str, object]:
    given: dict[str, object] = {"conditions-TOTAL_FORMS": len(rows), "conditions-INITIAL_FORMS": 0}
    for number, (field, operator, value) in enumerate(rows):
        given |= {f"conditions-{number}-field": field, f"conditions-{number}-operator": operator}
        given |= {f"conditions-{number}-value": value}
    return given


def write_rule(staff: Client, team: Team, *rows: tuple[str, ...], **more: object) -> Rule:
    given = {"name": "Big", "position": 1, "match": "all", "team": team.pk, "owners_first": "on", **more}
    hands_on(staff, reverse("admin:routing_rule_add"), {**given, **conditions(*rows)})
    return Rule.objects.latest("pk")


def test_a_draft_is_begun_written_and_published_and_then_decides(staff):
    team, source = make_team(reps=1), make_source()
    hands_on(staff, reverse("admin:routing_rulebook_add"), {"note": "Large companies apart"})
    write_rule(staff, team, ("fields.employees", "at_least", "250"))
    assert send(source=source, employees=300).team == source.team

    answer = confirm(staff, "routing_rulebook", "publish_draft", RuleBook.objects.get().pk)

    assert said(answer) == ["Published 1. Version 1 decides from now on."]
    assert RuleBook.objects.get().published_by == "robin"
    assert send(source=source, employees=300).team == team


def test_a_new_draft_is_a_copy_and_the_published_book_is_read_only(staff):
    book = publish_rules({"name": "Acme", "team": make_team(reps=1), "conditions": [("company", "is", "acme")]})

    page = staff.get(page_of("routing_rulebook", book.pk)).content.decode()
    refused = staff.post(page_of("routing_rulebook", book.pk), {"note": "changed"})
    hands_on(staff, reverse("admin:routing_rulebook_add"), {"note": ""})

    assert "New draft from the published book" in page and "company is acme" in page
    assert 'name="_save"' not in page and refused.status_code == 403
    rule = book.rules.get()
    assert staff.post(page_of("routing_rule", rule.pk), {"name": "changed"}).status_code == 403
    assert RuleBook.objects.get(status="draft").rules.get().conditions.get().value == "acme"


def test_a_rule_moved_up_goes_before_the_one_whose_place_it_took_and_one_moved_down_behind_it(staff):
    with transaction.atomic():
        draft = rule_books.draft()
        rule_books.replace_rules(row=draft, wanted=[{"name": name, "team": make_team()} for name in "abc"])
    a, b, c = draft.rules.all()

    def move(**places: int) -> str:
        given: dict[str, object] = {"note": "", "free_mail": "", "company_mail": "", "regions": "{}"}
        given |= {"rules-TOTAL_FORMS": 3, "rules-INITIAL_FORMS": 3}
        for number, rule in enumerate(draft.rules.all()):
            given |= {f"rules-{number}-id": rule.pk, f"rules-{number}-book": draft.pk}
            given |= {f"rules-{number}-position": places.get(rule.name, rule.position)}
        hands_on(staff, page_of("routing_rulebook", draft.pk), given)
        return "".join(draft.rules.values_list("name", flat=True))

    assert move(c=1) == "cab"
    assert move(c=2) == "acb"
    assert move(a=3) == "cba"
    assert list(draft.rules.values_list("position", flat=True)) == [1, 2, 3]
    staff.post(reverse("admin:routing_rule_delete", args=[c.pk]), {"post": "yes"})
    assert list(draft.rules.values_list("name", "position")) == [("b", 1), ("a", 2)]


def test_a_condition_that_cannot_be_read_and_a_member_of_another_team_are_refused_by_the_form(staff):
    team, stranger = make_team(reps=1), make_member(team=make_team(name="Elsewhere"))
    hands_on(staff, reverse("admin:routing_rulebook_add"), {"note": ""})
    given = {"name": "x", "position": 1, "match": "all", "team": team.pk, "members": [stranger.pk]}

    page = staff.post(
        reverse("admin:routing_rule_add"), {**given, **conditions(("country", "in_country", "Atlantis"))}
    ).content.decode()

    assert "Atlantis is no country we know." in page and "Choose members of the rule" in page
    assert not Rule.objects.exists()


def test_warnings_stand_on_the_drafts_page_and_on_the_question_before_publishing(staff):
    hands_on(staff, reverse("admin:routing_rulebook_add"), {"note": ""})
    write_rule(staff, make_team(reps=1), name="All")
    write_rule(staff, make_team(reps=1), ("company", "is", "acme"), name="Acme", position=2)
    draft = RuleBook.objects.get()
    warning = "Rule 2 Acme: Rule 1 “All” takes all of its leads before it."

    assert warning in staff.get(page_of("routing_rulebook", draft.pk)).content.decode()
    assert warning in ask(staff, "routing_rulebook", "publish_draft", draft.pk).content.decode()


def test_a_discarded_draft_is_gone_and_a_published_book_cannot_be_discarded(staff):
    book = publish_rules({"team": make_team(reps=1)})
    hands_on(staff, reverse("admin:routing_rulebook_add"), {"note": ""})

    assert said(confirm(staff, "routing_rulebook", "discard_draft", book.pk)) == ["Discarded 0. Skipped 1 published."]
    draft = RuleBook.objects.get(status="draft")
    assert said(confirm(staff, "routing_rulebook", "discard_draft", draft.pk)) == ["Discarded 1."]
    assert RuleBook.objects.get() == book


def test_a_lead_is_tested_and_every_condition_is_shown_with_the_value_seen(staff):
    team, source = make_team(reps=1, name="Enterprise"), make_source()
    book = publish_rules(
        {"name": "Huge", "team": team, "conditions": [("fields.employees", "at_least", "1000")]},
        {"name": "Abroad", "team": team, "conditions": [("country", "in_region", "DACH")]},
    )
    path = reverse("admin:routing_rulebook_try", args=[book.pk])
    given = {"source": source.pk, "country": "Austria", "more": '{"email": "a@acme.example", "employees": 400}'}

    page = staff.post(path, given).content.decode()
    wrong = staff.post(path, {"source": source.pk, "more": '{"email": "nobody"}'}).content.decode()

    assert "Rule 2 “Abroad” takes it." in page and "<strong>Enterprise</strong>" in page
    assert "<td>400</td>" in page and "<td>Austria</td>" in page
    assert "email is not an e-mail address" in wrong


def test_who_may_only_look_can_test_a_lead_but_not_publish(staff):
    make_source()
    book = publish_rules({"team": make_team(reps=1)})
    looker = logged_in("lee", may=("view_rulebook",))

    assert looker.get(listed("routing_rulebook")).status_code == 200
    assert looker.get(page_of("routing_rule", book.rules.get().pk)).status_code == 200
    assert looker.get(reverse("admin:routing_rulebook_try", args=[book.pk])).status_code == 200
    assert looker.get(reverse("admin:routing_rulebook_add")).status_code == 403
    assert looker.get(reverse("admin:routing_rule_add")).status_code == 403


@pytest.mark.django_db(transaction=True)
def test_a_draft_is_rehearsed_on_past_leads_and_nothing_is_written(staff):
    team, source = make_team(reps=1, name="Enterprise"), make_source()
    for employees in (10, 300, 400):
        send(source=source, employees=employees)
    before = list(Lead.objects.order_by("pk").values())
    hands_on(staff, reverse("admin:routing_rulebook_add"), {"note": ""})
    write_rule(staff, team, ("fields.employees", "at_least", "250"))

    address = reverse("admin:routing_rulebook_rehearse", args=[RuleBook.objects.get().pk])
    page = staff.get(address)

    found = page.context["found"]
    assert (found.leads, found.different, found.by_rule["Big"]) == (3, 2, (0, 2))
    assert "<strong>2</strong> decided differently" in page.content.decode()
    assert list(Lead.objects.order_by("pk").values()) == before
    assert logged_in("lee", may=("view_rulebook",)).get(address).status_code == 403
