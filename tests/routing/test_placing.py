"""Where a new lead goes: rules, then the people who already know it."""

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from routing import leads, members
from routing.intake import accept
from routing.models import InboundSource, Lead, Membership, Rep, Team
from routing.turns import take_turns
from tests.make import (
    make_account,
    make_lead,
    make_member,
    make_payload,
    make_rep,
    make_source,
    make_team,
    publish_rules,
    send,
)

pytestmark = pytest.mark.django_db(transaction=True)


def holder(lead: Lead) -> Rep | None:
    current = lead.assignments.filter(ended_at=None).first()
    return current.membership.rep if current else None


def steps(lead: Lead) -> list[tuple[str, str]]:
    return [(step["step"], step["outcome"]) for step in lead.why["steps"]]


def close(lead: Lead) -> None:
    with transaction.atomic():
        leads.close(lead_ids=[lead.pk])


def leave(membership: Membership) -> None:
    with transaction.atomic():
        members.set_active(memberships=Membership.objects.filter(pk=membership.pk), active=False)


def test_a_rule_sends_a_lead_to_its_team_and_the_rest_goes_to_the_team_of_the_source() -> None:
    source, dach = make_source(), make_team(reps=2)
    publish_rules({"name": "DACH", "team": dach, "conditions": [("country", "in_region", "DACH")]})
    ruled, rest = send(source=source, country="Austria"), send(source=source, country="Chile")
    assert (ruled.team, ruled.why["rule"]) == (dach, "rule 1 “DACH” of version 1")
    assert ruled.why["matched"]["conditions"] == [
        {"field": "country", "operator": "in_region", "value": "DACH", "seen": "Austria", "held": True}
    ]
    assert (rest.team, rest.why["matched"]) == (source.team, None)
    assert ruled.status == rest.status == "assigned"


def test_a_rule_for_part_of_a_team_reaches_only_those_members() -> None:
    team = make_team(reps=2)
    spanish = [make_member(team=team), make_member(team=team)]
    publish_rules({"team": team, "members": spanish, "conditions": [("fields.language", "is", "es")]})
    source = make_source(team=team)
    got = [holder(send(source=source, language="es")) for _ in range(4)]
    assert sorted(rep.pk for rep in got if rep) == sorted([member.rep_id for member in spanish] * 2)


def test_a_named_rep_elsewhere_brings_the_lead_into_a_team_of_theirs() -> None:
    team = make_team(reps=1)
    elsewhere = make_member(team=make_team())
    publish_rules({"team": team, "rep": elsewhere.rep})
    lead = send(source=make_source())
    assert (lead.team, lead.preferred, holder(lead)) == (elsewhere.team, elsewhere, elsewhere.rep)
    assert (lead.why["preferred"], steps(lead)) == ("named rep", [("named rep", "preferred")])


def test_a_named_rep_in_no_team_leaves_the_lead_to_the_team_of_the_rule_and_says_so() -> None:
    team = make_team(reps=1)
    publish_rules({"team": team, "rep": make_rep(name="Ann")})
    lead = send(source=make_source())
    assert (lead.team, lead.preferred, steps(lead)) == (team, None, [("named rep", "takes no leads")])
    assert lead.status == "assigned"


def test_a_rule_to_a_team_retired_since_gives_its_leads_to_the_team_of_the_source() -> None:
    team, source = make_team(reps=1), make_source()
    publish_rules({"team": team})
    with transaction.atomic():
        members.retire_teams(teams=Team.objects.filter(pk=team.pk))
    lead = send(source=source)
    assert (lead.team, lead.why["retired_team"], lead.status) == (source.team, team.pk, "assigned")


def test_a_lead_of_a_known_company_goes_to_the_owner_of_the_account() -> None:
    team = make_team(reps=3)
    owner = make_member(team=team)
    account = make_account(domains=("acme.example", "acme.test"), owner=owner.rep)
    source = make_source(team=team)
    for email in ("a@acme.example", "b@acme.test", "c@mail.eu.acme.example"):
        lead = send(source=source, email=email)
        assert (lead.account, holder(lead)) == (account, owner.rep)
        assert steps(lead) == [("account owner", "preferred")]
        assert lead.assignments.get().preferred
    assert {member.lag for member in team.memberships.all()} == {0}


def test_the_longest_known_domain_decides() -> None:
    source = make_source()
    make_account(domains=("acme.example",), owner=make_member(team=source.team).rep)
    closer = make_member(team=source.team)
    make_account(domains=("eu.acme.example",), owner=closer.rep)
    assert holder(send(source=source, email="a@x.eu.acme.example")) == closer.rep
    assert holder(send(source=source, email="a@xeu.acme.example")) != closer.rep


def test_a_free_mail_address_belongs_to_no_account() -> None:
    source = make_source()
    make_account(domains=("gmail.com",), owner=make_member(team=source.team).rep)
    lead = send(source=source, email="someone@gmail.com")
    assert (lead.account, lead.preferred, lead.why["steps"]) == (None, None, [])


def test_an_account_owner_who_is_away_leaves_the_lead_to_their_team() -> None:
    source = make_source()
    team = make_team(reps=1, outside_hours="wait")
    present, owner = team.memberships.get(), make_member(team=team)
    with transaction.atomic():
        now = datetime.now(UTC)
        members.set_shifts(rep=present.rep, ranges=[(now - timedelta(hours=1), now + timedelta(hours=1))])
    make_account(domains=("acme.example",), owner=owner.rep)
    lead = send(source=source, email="a@acme.example")
    assert (lead.team, lead.preferred, holder(lead)) == (team, owner, present.rep)


def test_who_comes_back_goes_to_the_rep_of_before_and_nobody_loses_a_turn() -> None:
    team = make_team(reps=3)
    source = make_source(team=team)
    first = send(source=source, email="pat@acme.example")
    close(first)
    before = dict(team.memberships.values_list("pk", "lag"))
    again = send(source=source, email="pat@acme.example")
    assert (again.previous, holder(again)) == (first, first.assignments.get().membership.rep)
    assert steps(again) == [("sticky owner", "preferred")] and again.why["steps"][0]["lead"] == first.pk
    assert dict(team.memberships.values_list("pk", "lag")) == before


def test_the_rep_of_before_who_has_left_is_passed_over_for_the_account_owner() -> None:
    source = make_source()
    first = send(source=source, email="pat@acme.example")
    close(first)
    leave(first.assignments.get().membership)
    owner = make_member(team=source.team)
    make_account(domains=("acme.example",), owner=owner.rep)
    again = send(source=source, email="pat@acme.example")
    assert holder(again) == owner.rep
    assert steps(again) == [("sticky owner", "takes no leads"), ("account owner", "preferred")]


def test_the_rep_of_before_comes_before_the_account_owner_and_both_before_the_rule() -> None:
    source = make_source()
    first = send(source=source, email="pat@acme.example")
    close(first)
    make_account(domains=("acme.example",), owner=make_member(team=make_team()).rep)
    publish_rules({"team": make_team(reps=1), "rep": make_member(team=make_team()).rep})
    again = send(source=source, email="pat@acme.example")
    assert (again.team, holder(again)) == (source.team, first.assignments.get().membership.rep)
    assert steps(again) == [
        ("sticky owner", "preferred"), ("account owner", "comes later"), ("named rep", "comes later"),
    ]  # fmt: skip


def test_a_rule_may_come_before_the_owners() -> None:
    source, hiring = make_source(), make_team(reps=1)
    make_account(domains=("acme.example",), owner=make_member(team=source.team).rep)
    publish_rules({"team": hiring, "owners_first": False, "conditions": [("fields.topic", "is", "job")]})
    lead = send(source=source, email="a@acme.example", topic="job")
    assert (lead.team, lead.why["steps"], lead.account is not None) == (hiring, [], True)


def test_each_owner_step_can_be_switched_off_for_a_source() -> None:
    source = make_source(sticky_owner=False, account_owner=False)
    make_account(domains=("acme.example",), owner=make_member(team=source.team).rep)
    first = send(source=source, email="pat@acme.example")
    close(first)
    assert send(source=source, email="pat@acme.example").why["steps"] == []


def test_an_owner_without_the_skill_that_the_rule_asks_for_is_passed_over() -> None:
    team = make_team(reps=1)
    source, skilled = make_source(team=team), make_member(team=team)
    make_account(domains=("acme.example",), owner=team.memberships.exclude(pk=skilled.pk).get().rep)
    publish_rules({"team": team, "members": [skilled]})
    lead = send(source=source, email="a@acme.example")
    assert (holder(lead), steps(lead)) == (skilled.rep, [("account owner", "not among those allowed")])


def test_a_preferred_member_outside_the_leads_part_gets_nothing_by_preference() -> None:
    team = make_team(reps=3)
    one, two, three = team.memberships.order_by("pk")
    with transaction.atomic():
        part = members.part_of(team=team, memberships=[one, two])
    lead = make_lead(team=team, part=part, preferred=three)
    assert take_turns(team_id=team.pk, lead_id=lead.pk).membership_id in (one.pk, two.pk)


def test_part_and_preference_with_the_same_number_are_not_taken_for_one_another() -> None:
    """Both make rosters of their own within one call, also where a part's key equals a membership's."""
    team = make_team(reps=3)
    one, two, _ = team.memberships.order_by("pk")
    with transaction.atomic():
        part = members.part_of(team=team, memberships=[one, two])
    type(part).objects.filter(pk=part.pk).update(id=one.pk)
    skilled, owned = make_lead(team=team, part_id=one.pk), make_lead(team=team, preferred=one)
    take_turns(team_id=team.pk)
    assert set(skilled.assignments.get().roster.candidates) == {str(one.pk), str(two.pk)}
    assert set(owned.assignments.get().roster.candidates) == {str(one.pk)}


def test_an_intake_takes_as_few_round_trips_with_rules_and_owners_as_without() -> None:
    source = make_source()
    make_account(domains=("acme.example",), owner=make_member(team=source.team).rep)
    counts = []
    for rules in (0, 20):
        if rules:
            publish_rules(*({"team": source.team, "conditions": [("company", "is", str(n))]} for n in range(rules)))
            send(source=InboundSource.objects.with_book().get(pk=source.pk))
        with CaptureQueriesContext(connection) as queries:
            fresh = InboundSource.objects.with_book().filter(slug=source.slug).first()
            assert fresh
            send_only(fresh, email=f"a{rules}@acme.example")
        counts.append(len(queries))
    assert counts == [7, 7]  # source; BEGIN, event, lead, COMMIT; turn; nudge


def send_only(source: InboundSource, **payload: Any) -> None:
    event = uuid.uuid4().hex
    accept(source=source, event_id=event, body=b"x", payload=make_payload(**payload), request_id="test")
