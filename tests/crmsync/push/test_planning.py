"""What a mass update will take."""

from hypothesis import given
from hypothesis import strategies as st

from crmsync.backoff import MOST_ROWS
from crmsync.push.planning import Pace, calls_for, plan

PACE = Pace(call_s=1.0, row_s=0.01)


def test_parents_are_packed_whole_and_large_ones_split() -> None:
    assert calls_for({("a",): 450, ("b",): 150, ("c",): 100, ("d",): 50}) == 2 + 2
    assert calls_for({(): 401}) == 3
    assert calls_for({(): 60, ("a",): 140}) == 1
    assert calls_for({}) == 0


@given(st.dictionaries(st.integers(0, 50).map(lambda n: (str(n),)), st.integers(1, 700), max_size=30))
def test_there_are_never_fewer_calls_than_rows_fill_and_never_more_than_parents_ask_for(
    groups: dict[tuple[str, ...], int],
) -> None:
    calls = calls_for(groups)
    assert -(-sum(groups.values()) // MOST_ROWS) <= calls <= sum(-(-rows // MOST_ROWS) for rows in groups.values())


def test_the_busiest_parent_or_the_workers_decide_how_long_it_takes() -> None:
    spread = plan({(f"Account:{n}",): 100 for n in range(40)}, pace=PACE, workers=4)
    assert (spread.rows, spread.calls, spread.parents, spread.seconds) == (4_000, 20, 40, 15.0)
    skewed = plan({("Account:hot",): 2_000, ("Account:b",): 200}, pace=PACE, workers=4)
    assert (skewed.seconds, skewed.alone_s) == (30.0, 30.0)
    assert (skewed.hottest[0].parent, skewed.hottest[0].calls) == ("Account:hot", 10)
