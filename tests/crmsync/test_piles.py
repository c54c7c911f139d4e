"""Mass updates: whole parents, the longest first, parents before children, and what is passed over gets its turn."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models.functions import Now
from django.test.utils import CaptureQueriesContext

from crmsync.flows.reap import reap
from crmsync.models import Claim, Lane, OutboxMessage, Pile
from crmsync.moves import piles, plan
from crmsync.moves.begin import begin
from crmsync.moves.claim import Chunk, claim_next
from crmsync.moves.open_batches import with_unplanned
from crmsync.moves.settle import Outcome, settle
from tests.crmsync.piled import account_of, claim_all, no_more_statements_than, put_contacts_of, put_mass, sizes_of
from tests.crmsync.rows import put, put_contacts, run_sql

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def room(settings: Any) -> None:
    settings.CRM_CONCURRENCY_MOST = 100
    settings.CRM_ROADS = {"Contact": "collections", "Account": "collections", "CampaignMember": "collections"}
    run_sql("INSERT INTO crmsync_orgstate (id, concurrency) VALUES (1, 100)")


def deliver(chunk: Chunk) -> None:
    begin(chunk=chunk)
    settle(chunk=chunk, outcomes=[Outcome(row, crm_id=f"id-{row.message_id}") for row in chunk.rows])


def test_the_longest_parent_goes_first_in_full_chunks_and_the_rest_is_packed_whole() -> None:
    put_contacts_of({"small": 30, "hot": 450, "middle": 120, "tiny": 20})
    first, second, *others = claim_all()
    assert sizes_of(first) == {"hot": 200}
    assert sizes_of(second) == {"middle": 120, "small": 30, "tiny": 20}
    assert others == []  # the rest of the hot parent waits for the first chunk
    deliver(first)
    (third,) = claim_all()
    assert sizes_of(third) == {"hot": 200}
    deliver(third)
    assert [sizes_of(chunk) for chunk in claim_all()] == [{"hot": 50}]


def test_what_does_not_fit_whole_waits_for_another_chunk() -> None:
    put_contacts_of({"a": 120, "b": 100, "c": 60, "d": 20})
    assert [sizes_of(chunk) for chunk in claim_all()] == [{"a": 120, "c": 60, "d": 20}, {"b": 100}]


def test_parents_whose_failures_allow_less_than_the_chunk_go_by_themselves() -> None:
    """Nobody looks for ever for what may fill a chunk up."""
    put_contacts_of({"a": 75, "b": 50})
    for account, most_rows in (("a", 137), ("b", 100)):
        Lane.objects.create(key=f"Account:{account}", most_rows=most_rows)
    with no_more_statements_than(100):
        assert [sizes_of(chunk) for chunk in claim_all()] == [{"a": 75}, {"b": 50}]


def test_however_many_wait_for_their_parents_the_others_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the first could be looked at again before the last were."""
    monkeypatch.setattr(piles, "SEEN", 1)
    monkeypatch.setattr(piles, "SHUT_MS", 1)
    names = [f"new{n}" for n in range(40)]
    put_mass("Account", names, [[]] * len(names))
    put_contacts_of(dict.fromkeys(names, 5) | {"old": 2})
    OutboxMessage.objects.filter(record__object="Account").update(due_at=Now() + timedelta(hours=1))
    with no_more_statements_than(1_000):
        assert [sizes_of(chunk) for chunk in claim_all()] == [{"old": 2}]


def test_the_last_rows_are_shared_out_among_those_at_work() -> None:
    """Else the last full chunks are waited for by workers with nothing to do. Who comes first has more: the others are
    still at work on theirs."""
    put_contacts_of({f"a{n}": 4 for n in range(250)})
    assert [len(chunk.rows) for chunk in claim_all()] == [200, 200, 200, 172, 124, 100, 4]


def test_the_rows_of_one_parent_are_not_shared_out() -> None:
    """They can only follow one another, so the more in a chunk the sooner they are done."""
    put_contacts_of({"a": 200, "b": 200, "c": 200, "last": 150})
    assert [len(chunk.rows) for chunk in claim_all()] == [200, 200, 200, 150]


def test_rows_of_a_chunk_are_sorted_by_parent() -> None:
    put_contacts_of({"b": 2, "a": 2})
    (chunk,) = claim_all()
    assert [row.external_id for row in chunk.rows] == ["a-0", "a-1", "b-0", "b-1"]


def test_interactive_messages_go_before_a_mass_update() -> None:
    put_contacts_of({"a": 10})
    put("lead")
    assert [chunk.object for chunk in claim_all()] == ["Lead", "Contact"]


def test_a_host_keeps_a_worker_for_what_a_person_waits_for() -> None:
    put_contacts_of({"a": 10, "b": 300})
    assert len(claim_all(mass_here=1)) == 1
    put("lead")
    assert [chunk.object for chunk in claim_all(mass_here=1)] == ["Lead"]


def test_children_wait_for_their_own_parent_and_for_no_other() -> None:
    put_mass("Account", ["new"], [[]])
    put_contacts_of({"new": 5, "old": 5})
    by_object = {chunk.object: chunk for chunk in claim_all()}
    assert set(by_object) == {"Account", "Contact"} and sizes_of(by_object["Contact"]) == {"old": 5}
    deliver(by_object["Account"])
    run_sql("UPDATE crmsync_pile SET due_at = now()")  # it is looked at twice a second
    assert [sizes_of(chunk) for chunk in claim_all()] == [{"new": 5}]


def test_a_row_that_names_two_parents_waits_for_the_second_too() -> None:
    put_mass("Campaign", ["spring"], [[]])
    spring = {"relation": "Campaign", "object": "Campaign", "external_id": "spring"}
    put_mass("Opportunity", ["o-1", "o-2"], [[account_of("a"), spring], [account_of("a")]])
    first = claim_all()
    assert sorted(row.external_id for chunk in first for row in chunk.rows) == ["o-2", "spring"]
    for chunk in first:
        deliver(chunk)
    run_sql("UPDATE crmsync_outboxmessage SET due_at = now() WHERE status = 'pending'")
    assert [row.external_id for chunk in claim_all() for row in chunk.rows] == ["o-1"]


def test_members_are_piled_by_the_campaign_that_has_most_of_them() -> None:
    campaign = {"relation": "Campaign", "object": "Campaign", "external_id": "spring"}
    leads = [{"relation": "Lead", "object": "Lead", "external_id": f"l-{n}"} for n in range(50)]
    put_mass("CampaignMember", [f"m-{n}" for n in range(50)], [[campaign, lead] for lead in leads])
    (chunk,) = claim_all()
    assert len(chunk.rows) == 50
    assert list(Pile.objects.values_list("lane", "waiting")) == [("Campaign:spring", 0)]


def test_a_new_version_of_a_piled_row_is_counted_once() -> None:
    put_contacts_of({"a": 3})
    with transaction.atomic():
        assert piles.take_turn() and plan.plan_some(with_unplanned()) == 3
    put_contacts_of({"a": 3})
    (chunk,) = claim_all()
    assert len(chunk.rows) == 3 and {row.version for row in chunk.rows} == {2}
    assert Pile.objects.get().waiting == 0


def test_a_row_whose_lanes_are_never_free_at_once_has_them_reserved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two crowds, each of which takes its lane again as soon as it is free; the row needs both lanes."""
    both = [account_of("a"), {"relation": "Second__r", "object": "Account", "external_id": "b"}]
    put_mass("Opportunity", ["both"], [both])
    put_contacts_of({"a": 600, "b": 600})
    held = {next(iter(sizes_of(chunk))): chunk for chunk in claim_all()}
    assert set(held) == {"a", "b"}
    monkeypatch.setattr("random.random", lambda: 0.0)
    run_sql("UPDATE crmsync_pile SET since_at = now() - interval '2 minutes' WHERE object = 'Opportunity'")
    deliver(held["b"])
    (again_b,) = claim_all()  # it was the row's turn, but the other lane was not free
    assert sizes_of(again_b) == {"b": 200}
    blocked = OutboxMessage.objects.get(passed_at__isnull=False)
    assert blocked.record.external_id == "both"
    run_sql("UPDATE crmsync_outboxmessage SET due_at = now(), passed_at = now() - interval '3 seconds' WHERE id = %s",
            [blocked.pk])  # fmt: skip
    assert claim_all() == []  # too late for the two under way, but nobody comes after them
    assert set(Lane.objects.filter(reserved_for=blocked.pk).values_list("key", flat=True)) >= {"Account:a", "Account:b"}
    deliver(again_b)
    assert claim_all() == []
    deliver(held["a"])
    (first,) = claim_all()
    assert [row.external_id for row in first.rows] == ["both"]
    assert not Lane.objects.filter(reserved_for__isnull=False).exists()
    deliver(first)
    assert len(claim_all()) == 2


def test_a_reservation_whose_message_is_gone_ends_by_itself() -> None:
    run_sql(
        "INSERT INTO crmsync_lane (key, reserved_for, reserved_since, reserved_until)"
        " VALUES ('Account:a', 99, now(), now() + interval '5 seconds')"
    )
    put_contacts("a", 1)
    put_contacts_of({"a": 5})
    assert claim_all() == []
    run_sql("UPDATE crmsync_lane SET reserved_until = now()")
    assert claim_all() != []


def test_a_pile_left_for_long_goes_before_longer_ones_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    put_contacts_of({"hot": 300, "old": 150})
    with transaction.atomic():
        assert piles.take_turn() and plan.plan_some(with_unplanned()) == 450
    run_sql("UPDATE crmsync_pile SET since_at = now() - interval '2 minutes' WHERE lane = 'Account:old'")
    monkeypatch.setattr("random.random", lambda: 0.99)
    with transaction.atomic():
        assert [pile.lane for pile in piles.pick(limit_of=lambda *_: 200, dice=0.99)[0]] == ["Account:hot"]
        assert piles.pick(limit_of=lambda *_: 200, dice=0.01)[0][0].lane == "Account:old"


def test_piles_and_lanes_that_nobody_needs_are_pruned() -> None:
    put_contacts_of({"a": 3})
    deliver(claim_all()[0])
    assert Pile.objects.count() == 1
    run_sql("UPDATE crmsync_pile SET since_at = since_at - interval '1 hour'")
    run_sql("UPDATE crmsync_lane SET not_before = not_before - interval '1 hour'")
    harvest = reap()
    assert (harvest.piles_pruned, harvest.lanes_pruned) == (1, 4)


def test_a_row_lost_in_an_empty_pile_is_planned_anew() -> None:
    put_contacts_of({"a": 3})
    with transaction.atomic():
        assert piles.take_turn() and plan.plan_some(with_unplanned()) == 3
    run_sql("UPDATE crmsync_pile SET waiting = 0, since_at = since_at - interval '1 hour'")
    assert claim_all() == []
    reap()
    assert len(claim_all()[0].rows) == 3


def test_who_does_not_get_the_turn_leaves_the_work_to_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    put_contacts_of({"a": 3})
    monkeypatch.setattr(piles, "TURN_MS", 50)
    import psycopg

    from tests.database import database_url

    with psycopg.connect(database_url()) as other:
        other.execute("SELECT crm_turn(1000)")
        assert claim_next(worker="w:1") is None
        put("lead")
        assert claim_next(worker="w:1") is not None  # a person does not wait for the planner
        other.rollback()
    assert claim_next(worker="w:1") is not None
    assert Claim.objects.count() == 2


def test_enough_is_planned_to_know_the_longest_parent_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """The longest parent comes late in the file: a worker that began with the first batch would send it last."""
    monkeypatch.setattr("crmsync.moves.claim.PLAN_S", 60)
    put_contacts_of({**{f"a{n}": 1 for n in range(plan.PLANNED)}, "hot": 300})
    first = claim_next(worker="w:1")
    assert first is not None and sizes_of(first) == {"hot": 200}


def test_planning_and_choosing_read_by_index_at_twenty_thousand_rows() -> None:
    """20,000 mass messages over as many parents, half of them planned: nothing reads more than a batch of rows."""
    put_contacts_of({f"a{n}": 1 for n in range(20_000)})
    while OutboxMessage.objects.filter(pile__isnull=False).count() < 10_000:
        with transaction.atomic():
            assert piles.take_turn() and plan.plan_some(with_unplanned()) == plan.PLANNED
    run_sql("ANALYZE crmsync_outboxmessage, crmsync_crmrecord, crmsync_pile, crmsync_lane")
    with CaptureQueriesContext(connection) as queries, transaction.atomic():
        unplanned = plan.read_unplanned(with_unplanned())
        picked, most = piles.pick(limit_of=lambda *_: 200, dice=0.5)
        read = piles.read_piles(picked, most=most)
        assert (sum(len(kin.ids) for kin in unplanned), len(read), len(picked)) == (plan.PLANNED, 200, 200)
    plans = [explained(query["sql"])[0]["Plan"] for query in queries if " FROM " in query["sql"]]
    used = json.dumps(plans)
    for index in ("outbox_unplanned", "pile_longest", "outbox_of_pile"):
        assert index in used, index
    assert max(rows_read(plan, {"crmsync_outboxmessage", "crmsync_pile"}) for plan in plans) <= plan.PLANNED


def rows_read(plan: dict[str, Any], tables: set[str]) -> float:
    """The most rows that a node of the plan reads of these tables."""
    here = plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0) if plan.get("Relation Name") in tables else 0
    return max([here, *(rows_read(child, tables) for child in plan.get("Plans", []))])


def explained(statement: str) -> Any:
    ((plan,),) = run_sql("EXPLAIN (ANALYZE, FORMAT JSON) " + statement.replace("%", "%%"))
    return plan
