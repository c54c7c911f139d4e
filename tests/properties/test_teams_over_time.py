"""Whatever happens to teams, in whatever order and at the same time: what the README promises holds.

PROPERTIES=nightly looks ten times as long (about ten minutes).
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.conf import settings as django_settings
from django.db import connection
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TransactionTestCase
from hypothesis.stateful import run_state_machine_as_test

from routing.models import Assignment
from routing.sweep import sweep_team
from routing.turns import take_turns
from tests.make import make_lead, make_source, make_team
from tests.properties.ledger import read_ledger
from tests.properties.life import TeamsOverTime
from tests.races.crowd import at_once, faults, take_in

TIMES = 10 if os.environ.get("PROPERTIES") == "nightly" else 1
SLOW = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
HOW = settings(deadline=None, derandomize=True, database=None, suppress_health_check=SLOW)


CONTROLS = {
    "a cap is one too high": ("p.cap - n.count AS room", "p.cap - n.count + 1 AS room"),
    "newer leads first": (
        "ORDER BY id FOR NO KEY UPDATE SKIP LOCKED",
        "ORDER BY id DESC FOR NO KEY UPDATE SKIP LOCKED",
    ),
    "the winner keeps the lead's share": (
        "lags[v_best] := lags[v_best] - v_given",
        "lags[v_best] := lags[v_best] - scale / 2",
    ),
    "the CRM is not told": ("WHERE o.fields <> '{}'", "WHERE false"),
    "the rule's part is forgotten": ("SELECT members INTO v_members", "SELECT NULL::bigint[] INTO v_members"),
    "hours are forgotten": ("CASE WHEN NOT v_ignore_hours THEN off_because(r, v_now) END", "NULL"),
    "leads for a part are not found": ("p.members && v_present", "false"),
}


@contextmanager
def turns_taken_wrongly(right: str, wrong: str) -> Iterator[None]:
    """The SQL with a fault in it, for the time of a test."""
    sql = (django_settings.BASE_DIR / "routing" / "sql" / "take_turns.sql").read_text()
    assert right in sql
    with connection.cursor() as cursor:
        cursor.execute(sql.replace(right, wrong))
        try:
            yield
        finally:
            cursor.execute(sql)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("fault", CONTROLS)
def test_control_a_fault_in_the_turn_is_seen(fault: str) -> None:
    how = settings(HOW, max_examples=100, stateful_step_count=25, phases=[Phase.generate], report_multiple_bugs=False)
    with turns_taken_wrongly(*CONTROLS[fault]), pytest.raises(AssertionError):
        run_state_machine_as_test(TeamsOverTime, settings=how)


@pytest.mark.django_db(transaction=True)
def test_nothing_that_happens_to_teams_breaks_a_promise() -> None:
    run_state_machine_as_test(TeamsOverTime, settings=settings(HOW, max_examples=16 * TIMES, stateful_step_count=25))


class EqualWeights(TransactionTestCase):
    """Constant membership, equal weights; no caps, skills, credits or direct assignments."""

    @settings(HOW, max_examples=12 * TIMES)
    @given(
        reps=st.integers(1, 9),
        bursts=st.lists(st.tuples(st.sampled_from(["one", "batch", "crowd"]), st.integers(1, 12)), max_size=6),
    )
    def test_counts_differ_by_one_at_most_after_every_turn(self, reps: int, bursts: list[tuple[str, int]]) -> None:
        team = make_team(reps=reps)
        source = make_source(team=team)
        for how, count in bursts:
            if how == "crowd":
                assert not faults(at_once(count, lambda _: take_in(source)))
                continue
            for _ in range(count):
                make_lead(team=team)
                if how == "one":
                    take_turns(team_id=team.pk)
            take_turns(team_id=team.pk)
        sweep_team(team_id=team.pk)
        assert read_ledger(team).turns == sum(count for _, count in bursts)
        counts = dict.fromkeys(team.memberships.values_list("pk", flat=True), 0)
        for member in Assignment.objects.filter(team=team).order_by("turn").values_list("membership_id", flat=True):
            counts[member] += 1
            assert max(counts.values()) - min(counts.values()) <= 1
