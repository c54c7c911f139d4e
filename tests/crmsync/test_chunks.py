"""Which rows travel together."""

from dataclasses import replace

from crmsync.chunks import Candidate, LaneView, choose

FREE: dict[str, LaneView] = {}


def row(number: int, *parents: str, object: str = "Contact", operation: str = "upsert") -> Candidate:
    return Candidate(
        message_id=number,
        record_id=number,
        object=object,
        operation=operation,
        external_id=f"{number:05}",
        version=1,
        priority=0,
        attempts=0,
        fields={},
        parents=(),
        creating=True,
        record_key=f"{object}:{number:05}",
        parent_keys=tuple(sorted(f"Account:{parent}" for parent in parents)),
    )


def ids(chunk: list[Candidate]) -> list[int]:
    return [candidate.message_id for candidate in chunk]


def test_a_chunk_is_of_one_object_and_led_by_the_oldest() -> None:
    assert ids(choose([row(1, object="Lead"), row(2), row(3, object="Lead")], FREE)) == [1, 3]


def test_a_chunk_is_of_one_operation() -> None:
    rows = [row(1), row(2, operation="delete"), row(3), row(4, operation="update"), row(5, "a", operation="delete")]
    assert ids(choose(rows, FREE)) == [1, 3]
    assert ids(choose(rows[1:2] + rows[3:], FREE)) == [2, 5]


def test_rows_are_sent_sorted_by_parent_and_then_by_external_id() -> None:
    assert ids(choose([row(5, "b"), row(4, "a"), row(3, "b"), row(9, "a")], FREE)) == [4, 9, 3, 5]


def test_a_parent_is_not_split_over_chunks_unless_it_fills_one() -> None:
    small = [row(n, "small") for n in range(150)]
    large = [row(1_000 + n, "large") for n in range(100)]
    assert ids(choose(small + large, FREE)) == list(range(150))
    huge = [row(n, "huge") for n in range(500)]
    assert len(choose(huge, FREE)) == 200


def test_children_of_one_parent_that_are_of_different_objects_do_not_mix() -> None:
    chunk = choose([row(1, "a"), row(2, "a", object="Opportunity")], FREE)
    assert {candidate.object for candidate in chunk} == {"Contact"}


def test_a_row_whose_lane_somebody_else_has_is_left_out() -> None:
    lanes = {"Account:busy": LaneView(free=False)}
    assert ids(choose([row(1, "busy"), row(2, "idle")], lanes)) == [2]


def test_a_lane_takes_no_more_rows_than_its_failures_have_left_it() -> None:
    rows = [row(n, "hot") for n in range(300)]
    for most in (200, 100, 50, 1):
        assert len(choose(rows, {"Account:hot": LaneView(free=True, most_rows=most)})) == most


def test_a_failing_lane_does_not_ride_in_a_chunk_that_is_too_large_for_it() -> None:
    lanes = {"Account:hot": LaneView(free=True, most_rows=25)}
    rows = [row(n, "cold") for n in range(100)] + [row(500, "hot")]
    assert len(choose(rows, lanes)) == 100


def test_a_lane_that_is_reserved_is_for_the_message_that_waited_and_its_siblings() -> None:
    lanes = {"Account:a": LaneView(free=True, reserved_for=3)}
    assert ids(choose([row(1, "a"), row(2, "b"), row(3, "a", "b"), row(4, "a", "b")], lanes)) == [3, 4, 2]
    assert ids(choose([row(1, "a"), row(2, "b")], lanes)) == [2]


def test_the_limit_of_a_chunk_is_asked_with_the_worst_lane_and_row() -> None:
    asked = []

    def limit(kind: tuple[str, str], lock_failures: int, most_rows: int) -> int:
        asked.append((kind, lock_failures, most_rows))
        return 3

    lanes = {"Account:a": LaneView(free=True, most_rows=50), "Contact:00007": LaneView(True, 25)}
    rows = [replace(row(n, "a"), lock_failures=n) for n in range(10)]
    assert len(choose(rows, lanes, limit)) == 3
    assert asked == [(("Contact", "upsert"), 9, 25)]
