"""Whatever comes in whatever order: no two chunks in flight share a key, every row is in one chunk at most, parents go
before children, nothing waits for ever, and no merge or retry loses a field or brings an old one back.
"""

import itertools
from collections import Counter
from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crmsync.errors import Fault
from crmsync.models import Lane, OutboxMessage
from crmsync.moves.begin import begin
from crmsync.moves.claim import Chunk, claim_next
from crmsync.moves.reap import reap_next
from crmsync.moves.retry import retry_dead
from crmsync.moves.settle import Outcome, settle
from crmsync.outbox import enqueue
from tests.crmsync.piled import claim_all, no_more_statements_than, put_contacts_of, sizes_of
from tests.crmsync.rows import age_claims, run_sql

pytestmark = pytest.mark.django_db(transaction=True)

TABLES = ("attempt", "lane", "outboxmessage", "claim", "crmrecord", "pile", "orgstate")
LOCKED = Fault("UNABLE_TO_LOCK_ROW", "unable to obtain exclusive access to this record")
REFUSED = Fault("FIELD_CUSTOM_VALIDATION_EXCEPTION", "no")
ROUNDS = 60
PATIENT: dict[str, Any] = {
    "deadline": None,
    "suppress_health_check": [HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
}

records = st.one_of(
    st.tuples(st.just("Account"), st.sampled_from("abc"), st.just(())),
    st.tuples(st.just("Campaign"), st.sampled_from("xy"), st.just(())),
    st.tuples(st.just("Contact"), st.sampled_from("12345"), st.tuples(st.sampled_from("abc"))),
    st.tuples(st.just("Opportunity"), st.sampled_from("678"), st.tuples(st.sampled_from("abc"), st.sampled_from("xy"))),
)
puts = st.tuples(
    st.just("put"), records, st.sets(st.sampled_from(("f", "g", "h")), min_size=1), st.sampled_from((0, 1, 1, 1))
)
steps = st.one_of(
    puts,
    puts,
    st.tuples(st.just("claim")),
    st.tuples(st.sampled_from(("deliver", "lock", "refuse", "die", "die unheard")), st.integers(0, 9)),
    st.tuples(st.just("wait")),
)


class World:
    """The outbox on one side, the org on the other, and what each record should hold in the end."""

    def __init__(self) -> None:
        run_sql("".join(f"DELETE FROM crmsync_{table};" for table in TABLES))
        run_sql("INSERT INTO crmsync_orgstate (id, concurrency) VALUES (1, 100)")
        self.flying: list[Chunk] = []
        self.org: dict[tuple[str, str], dict[str, int]] = {}
        self.wanted: dict[tuple[str, str], dict[str, int]] = {}
        self.values = itertools.count()

    def put(self, record: tuple[str, str, tuple[str, ...]], names: set[str], priority: int) -> None:
        object, key, above = record
        kinds = ("Account", "Campaign")[: len(above)]
        parents = [
            {"relation": kind, "object": kind, "external_id": parent} for kind, parent in zip(kinds, above, strict=True)
        ]
        fields = {name: next(self.values) for name in sorted(names)}
        with transaction.atomic():
            enqueue(
                object=object,
                external_id=key,
                fields=fields,
                parents=parents,
                priority=OutboxMessage.Priority(priority),
            )
        self.wanted.setdefault((object, key), {}).update(fields)

    def claim(self) -> bool:
        chunk = claim_next(worker=f"w:{len(self.flying)}")
        if chunk is None:
            return False
        for row in chunk.rows:
            self.parents_are_there(row)
        self.flying.append(chunk)
        keys = Counter(key for each in self.flying for key in {key for row in each.rows for key in row.keys})
        assert set(keys.values()) == {1}, "two chunks in flight share a key"
        rows = Counter(row.message_id for each in self.flying for row in each.rows)
        assert set(rows.values()) == {1}, "a row is in two chunks"
        return True

    def parents_are_there(self, row: Any) -> None:
        for parent in row.parents:
            older = OutboxMessage.objects.open().filter(
                record__object=parent["object"],
                record__external_id=parent["external_id"],
                record__delivered_version__isnull=True,
                pk__lt=row.message_id,
            )
            assert not older.exists(), "a child went before its parent"

    def land(self, what: str, which: int = 0) -> None:
        if not self.flying:
            return
        chunk = self.flying.pop(which % len(self.flying))
        begin(chunk=chunk)
        if what != "lock" and what != "refuse" and what != "die unheard":
            for row in chunk.rows:
                self.org.setdefault((row.object, row.external_id), {}).update(row.fields)
        if what.startswith("die"):
            age_claims()
            while reap_next():
                pass
            self.flying.clear()  # all of them had expired
        else:
            fault = {"lock": LOCKED, "refuse": REFUSED}.get(what)
            settle(chunk=chunk, outcomes=[Outcome(row, crm_id=None, fault=fault) for row in chunk.rows])

    def wait(self) -> None:
        """Everything that waits for a time has waited long enough."""
        run_sql("UPDATE crmsync_outboxmessage SET due_at = now() WHERE status = 'pending' AND due_at > now()")
        run_sql("UPDATE crmsync_outboxmessage SET passed_at = passed_at - interval '3 s' WHERE passed_at IS NOT NULL")
        run_sql("UPDATE crmsync_lane SET not_before = now(), quarantined_until = NULL WHERE claim_id IS NULL")
        run_sql("UPDATE crmsync_pile SET due_at = now()")
        run_sql("UPDATE crmsync_orgstate SET paused_until = NULL, paused_reason = '', failures = 0, concurrency = 100")

    def drain(self) -> None:
        """Deliver all, sending again what was refused; fails if something waits for ever."""
        for _ in range(ROUNDS):
            self.wait()
            while self.claim():
                pass
            while self.flying:
                self.land("deliver")
            if dead := list(OutboxMessage.objects.dead().values_list("pk", flat=True)):
                retry_dead(message_ids=dead, by="ops", reason="test")
            if not OutboxMessage.objects.open().exists():
                return
        raise AssertionError(f"still open: {list(OutboxMessage.objects.open().values())}")


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(story=st.lists(steps, min_size=5, max_size=30))
def test_any_story_ends_with_everything_delivered_in_its_newest_form(story: list[Any], settings_for: None) -> None:
    world = World()
    for step in story:
        match step:
            case ("put", record, names, priority):
                world.put(record, names, priority)
            case ("claim",):
                world.claim()
            case ("wait",):
                world.wait()
            case (what, which):
                world.land(what, which)
    world.drain()
    assert world.org == world.wanted
    assert run_sql("SELECT count(*) FROM crmsync_lane WHERE claim_id IS NOT NULL")[0][0] == 0


@pytest.fixture
def settings_for(settings: Any) -> None:
    settings.CRM_CONCURRENCY_MOST = 100
    settings.CRM_ATTEMPTS_MOST = 50
    settings.CRM_ROADS = dict.fromkeys(("Account", "Campaign", "Contact", "Opportunity"), "collections")
    settings.CRM_QUARANTINE_S = 5


sizes = st.dictionaries(st.text("abcdefgh", min_size=1, max_size=2), st.integers(1, 450), min_size=1, max_size=8)


@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(sizes=sizes)
def test_every_row_is_in_exactly_one_chunk_and_small_parents_are_never_split(
    sizes: dict[str, int], settings_for: None
) -> None:
    world = World()
    put_contacts_of(sizes)
    sent: Counter[str] = Counter()
    chunks = 0
    while found := claim_all():
        for chunk in found:
            of = sizes_of(chunk)
            assert len(chunk.rows) <= 200
            assert all(count in (sizes[name], 200, sizes[name] % 200) for name, count in of.items())
            assert len(of) == 1 or all(count == sizes[name] or count == sizes[name] % 200 for name, count in of.items())
            sent.update(row.external_id for row in chunk.rows)
            world.flying = [chunk]
            world.land("deliver")
            chunks += 1
    assert set(sent.values()) == {1} and len(sent) == sum(sizes.values())
    assert chunks <= sum(-(-size // 200) for size in sizes.values())


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(sizes=sizes, limits=st.lists(st.integers(20, 200), min_size=8, max_size=8))
def test_whatever_its_failures_left_of_a_parent_all_its_rows_are_sent(
    sizes: dict[str, int], limits: list[int], settings_for: None
) -> None:
    world = World()
    put_contacts_of(sizes)
    for name, most_rows in zip(sizes, limits, strict=False):
        Lane.objects.create(key=f"Account:{name}", most_rows=most_rows)
    sent: Counter[str] = Counter()
    with no_more_statements_than(2_000 + 10 * sum(sizes.values())):
        while found := claim_all():
            for chunk in found:
                allowed = Lane.objects.filter(key__in=[f"Account:{name}" for name in sizes_of(chunk)])
                assert len(chunk.rows) <= min(allowed.values_list("most_rows", flat=True))
                sent.update(row.external_id for row in chunk.rows)
                world.flying = [chunk]
                world.land("deliver")
    assert set(sent.values()) == {1} and len(sent) == sum(sizes.values())
