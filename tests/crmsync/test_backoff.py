"""What follows from each kind of failure."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from crmsync.backoff import Next, Patience, delay_ms, halvings, what_next
from crmsync.classify import Verdict
from crmsync.models import FailureKind as Kind

PATIENCE = Patience(first_ms=1_000, cap_ms=300_000, attempts_most=8, quarantine_ms=15_000)


def after(
    kind: Kind,
    *,
    attempts: int = 0,
    rows: int = 10,
    whole: bool = False,
    coming: bool = False,
    well: bool = True,
    down: bool = False,
) -> Next:
    verdict = Verdict(
        kind,
        org_wide=down or kind in (Kind.AUTH, Kind.RATE_LIMIT),
        may_have_arrived=down or kind == Kind.UNANSWERED,
    )
    return what_next(
        verdict,
        attempts=attempts,
        rows=rows,
        whole_request=whole,
        org_was_well=well,
        parent_coming=coming,
        patience=PATIENCE,
        dice=0.5,
    )


def test_waits_double_from_one_second_to_the_cap() -> None:
    waits = [delay_ms(n, first_ms=1_000, cap_ms=300_000, dice=1.0) for n in range(1, 12)]
    assert waits == [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 128_000, 256_000, 300_000, 300_000]


@given(failures=st.integers(0, 10_000), dice=st.floats(0, 1), first=st.integers(1, 10_000), cap=st.integers(1, 10**6))
def test_a_wait_is_never_nothing_never_above_the_cap_and_at_least_half_fixed(
    failures: int, dice: float, first: int, cap: int
) -> None:
    wait = delay_ms(failures, first_ms=first, cap_ms=cap, dice=dice)
    whole = delay_ms(failures, first_ms=first, cap_ms=cap, dice=1.0)
    assert 1 <= wait <= cap
    assert whole // 2 <= wait <= whole


def test_contention_waits_on_the_parent_halves_the_chunk_and_is_charged() -> None:
    assert after(Kind.CONTENTION, attempts=2) == Next(wait_ms=3_000, charge=1, lane_wait_ms=3_000, halve=True)
    assert after(Kind.CONTENTION, attempts=7).dead


def test_auth_and_limits_charge_nothing() -> None:
    assert after(Kind.AUTH, attempts=7) == after(Kind.RATE_LIMIT, attempts=7) == Next()


def test_a_governor_halves_until_the_row_is_alone_and_then_gives_up() -> None:
    assert after(Kind.GOVERNOR, attempts=7, rows=2) == Next(halve=True)
    assert after(Kind.GOVERNOR, rows=1).dead


def test_a_refused_request_is_halved_until_the_row_is_found() -> None:
    assert after(Kind.PERMANENT, whole=True, rows=200) == Next(halve=True)
    assert after(Kind.PERMANENT, whole=True, rows=1).dead
    assert after(Kind.PERMANENT, rows=200).dead


def test_a_missing_parent_is_waited_for_only_while_somebody_brings_it() -> None:
    assert after(Kind.DEPENDENCY).dead
    assert not after(Kind.DEPENDENCY, coming=True).dead
    assert after(Kind.DEPENDENCY, coming=True, attempts=7).dead


def test_silence_closes_the_lane_until_the_call_can_no_longer_commit() -> None:
    assert after(Kind.UNANSWERED, rows=1) == Next(wait_ms=15_000, charge=1, quarantine_ms=15_000)
    assert after(Kind.UNANSWERED, rows=2).halve


def test_a_row_that_fails_alone_is_blamed_only_if_the_org_was_well_before() -> None:
    def fails(**how: Any) -> Next:
        return after(Kind.TRANSIENT, down=True, whole=True, **how)

    assert fails(rows=200) == Next(wait_ms=15_000, halve=True, quarantine_ms=15_000)
    assert fails(rows=1, well=False, attempts=99).charge == 0
    assert not fails(rows=1, well=False, attempts=99).dead
    assert fails(rows=1).charge == 1
    assert fails(rows=1, attempts=7).dead


def test_halving_makes_the_next_chunk_at_most_half_of_the_one_that_failed() -> None:
    assert [halvings(rows) for rows in (200, 100, 99, 10, 3, 2, 1)] == [1, 2, 3, 6, 7, 7, 7]


def test_an_unknown_error_gets_three_tries() -> None:
    assert [after(Kind.UNKNOWN, attempts=n).dead for n in range(3)] == [False, False, True]
