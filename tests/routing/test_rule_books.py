"""Rules are drafted, checked, published under a number, and never changed again."""

import threading
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction
from django.test.utils import CaptureQueriesContext

from routing import members, rule_books
from routing.errors import BadRules, NoDraft
from routing.models import InboundSource, Rule, RuleBook, RuleCondition
from tests.make import make_member, make_rep, make_source, make_team, publish_rules, send


@pytest.mark.django_db(transaction=True)
def test_a_change_makes_a_new_version_and_the_old_one_stays_as_it_was() -> None:
    source, team = make_source(), make_team(reps=1)
    first = publish_rules({"team": team, "conditions": [("company", "is", "acme")]})
    old = send(source=source, company="Acme")
    with transaction.atomic():
        draft = rule_books.draft()
        RuleCondition.objects.filter(rule__book=draft).update(value="other")
    assert send(source=source, company="Acme").why["version"] == 1
    with transaction.atomic():
        assert rule_books.publish(by="ops").version == 2
    new = send(source=source, company="Acme")
    assert (old.team, old.why["version"], old.why["matched"]["conditions"][0]["value"]) == (team, 1, "acme")
    assert (new.team, new.why["version"], new.why["matched"]) == (source.team, 2, None)
    first.refresh_from_db()
    assert first.status == "superseded" and first.rules.get().conditions.get().value == "acme"


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "change",
    [
        lambda book: Rule.objects.update(name="x"),
        lambda book: RuleCondition.objects.update(value="x"),
        lambda book: RuleCondition.objects.create(rule=book.rules.get(), field="company", operator="present"),
        lambda book: Rule.objects.create(book=book, position=9, name="x", team=make_team()),
        lambda book: RuleCondition.objects.all().delete(),
        lambda book: Rule.objects.update(book=RuleBook.objects.create()),
        lambda book: RuleBook.objects.update(free_mail=["acme.example"]),
    ],
)
def test_the_database_lets_nobody_change_a_published_rule(change: Any) -> None:
    book = publish_rules({"team": make_team(reps=1), "conditions": [("company", "is", "acme")]})
    with pytest.raises(DatabaseError, match="published_rules_never_change"), transaction.atomic():
        change(book)


@pytest.mark.django_db(transaction=True)
def test_a_book_is_deleted_whole_or_not_at_all() -> None:
    book = publish_rules({"team": make_team(reps=1), "conditions": [("company", "is", "acme")]})
    with transaction.atomic():
        book.delete()
    assert not Rule.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_lead_after_the_commit_of_new_rules_is_never_decided_by_the_old_ones_in_any_process() -> None:
    """Each process, here a thread with a warm cache, asks which book is published together with the source."""
    one, two = make_team(reps=1), make_team(reps=1)
    source = make_source()
    publish_rules({"team": one})
    published, seen = threading.Barrier(2), []

    def other_process() -> None:
        try:
            warm = InboundSource.objects.with_book().get(pk=source.pk)
            seen.append(send(source=warm).team_id)
            published.wait(10)
            published.wait(10)
            fresh = InboundSource.objects.with_book().get(pk=source.pk)
            seen.append(send(source=fresh).team_id)
        finally:
            connection.close()

    thread = threading.Thread(target=other_process)
    thread.start()
    published.wait(10)
    publish_rules({"team": two})
    published.wait(10)
    thread.join(10)
    assert seen == [one.pk, two.pk]


@pytest.mark.django_db(transaction=True)
def test_rules_are_read_once_and_cost_an_intake_no_statement_afterwards() -> None:
    source = make_source()
    publish_rules({"team": make_team(reps=1), "conditions": [("company", "is", "acme")]})
    send(source=InboundSource.objects.with_book().get(pk=source.pk))
    with CaptureQueriesContext(
        connection,
    ) as queries:
        warm = InboundSource.objects.with_book().get(pk=source.pk)
        rule_books.book(warm.book_id)
    assert len(queries) == 1


@pytest.mark.django_db
def test_conditions_that_cannot_be_read_are_all_named_and_nothing_is_published() -> None:
    with pytest.raises(BadRules) as refusal:
        publish_rules(
            {"team": make_team(), "name": "A", "conditions": [("country", "in_country", "Atlantis")]},
            {"team": make_team(), "name": "B", "members": [make_member(team=make_team())]},
        )
    assert len(refusal.value.problems) == 2
    assert "Rule 1 A: Atlantis is no country we know." in str(refusal.value)
    assert not RuleBook.objects.exclude(status="draft").exists()


@pytest.mark.django_db
def test_without_a_draft_there_is_nothing_to_publish_and_a_draft_can_be_thrown_away() -> None:
    with pytest.raises(NoDraft), transaction.atomic():
        rule_books.publish(by="ops")
    with transaction.atomic():
        rule_books.draft()
        assert rule_books.discard_draft()
        assert not rule_books.discard_draft()


@pytest.mark.django_db
def test_rules_that_nobody_can_serve_are_warned_about() -> None:
    """A rule with nobody in it, one whose members have left, a retired team, a rep in no team, a shadowed rule."""
    team, empty, closed = make_team(reps=1, name="Team A"), make_team(name="Empty"), make_team(reps=1, name="Closed")
    left = make_member(team=team, rep=make_rep(name="Lee"))
    with transaction.atomic():
        members.set_active(memberships=type(left).objects.filter(pk=left.pk), active=False)
        members.retire_teams(teams=type(team).objects.filter(pk=closed.pk))
        row = rule_books.draft()
        rule_books.replace_rules(
            row=row,
            wanted=[
                {"name": "skill", "team": team, "members": [left], "conditions": [("company", "is", "a")]},
                {"name": "nobody", "team": empty, "conditions": [("company", "is", "b")]},
                {"name": "retired", "team": closed, "conditions": [("company", "is", "c")]},
                {"name": "named", "team": team, "rep": left.rep, "conditions": [("company", "present")]},
                {"name": "hidden", "team": team, "conditions": [("company", "is", "d")]},
            ],
        )
    assert rule_books.warnings(row) == [
        "Rule 1 skill: none of its members takes leads any more; its leads will wait.",
        "Rule 2 nobody: nobody in Empty takes leads; its leads will wait.",
        "Rule 3 retired: Closed is retired; its leads go to the team of their source.",
        "Rule 4 named: Lee takes leads in no team; Team A will take them.",
        "Rule 5 hidden: Rule 4 “named” takes all of its leads before it.",
    ]


@pytest.mark.django_db(transaction=True)
def test_a_rule_whose_members_have_all_left_lets_its_leads_wait_visibly() -> None:
    team = make_team(reps=1)
    left = make_member(team=team)
    publish_rules({"team": team, "members": [left]})
    with transaction.atomic():
        members.set_active(memberships=type(left).objects.filter(pk=left.pk), active=False)
    assert send(source=make_source()).status == "waiting"
