"""The rules of the roads, one line each."""

import pytest

from crmsync.roads import MOST, Road, Rules, most_rows, road, rules_for

AUTO = Rules(bulk_from=2_000, serial_after=4)
SERIAL, PLAIN = Rules(always=Road.BULK1), Rules(always=Road.COLLECTIONS)


@pytest.mark.parametrize(
    ("rows", "mass", "failures", "lock_failures", "rules", "taken"),
    [
        (1, False, 0, 0, AUTO, "rest"),
        (1, True, 0, 0, AUTO, "rest"),
        (2, False, 0, 0, AUTO, "collections"),
        (200, False, 9, 9, AUTO, "collections"),
        (200, False, 0, 0, SERIAL, "collections"),
        (200, True, 0, 0, AUTO, "collections"),
        (201, True, 0, 0, AUTO, "bulk2"),
        (10_000, True, 0, 0, AUTO, "bulk2"),
        (25, True, 3, 3, AUTO, "collections"),
        (25, True, 4, 4, AUTO, "bulk1"),
        (25, True, 4, 0, AUTO, "collections"),
        (1, True, 4, 4, AUTO, "bulk1"),
        (5, True, 0, 0, SERIAL, "bulk1"),
        (5, True, 2, 1, SERIAL, "bulk1"),
        (5, True, 2, 0, SERIAL, "collections"),
        (5, True, 0, 0, Rules(always=Road.BULK2), "bulk2"),
        (5, True, 1, 0, Rules(always=Road.BULK2), "collections"),
        (200, True, 9, 9, PLAIN, "collections"),
        (200, True, 9, 9, Rules(bulk_open=False), "collections"),
        (1, True, 0, 0, Rules(always=Road.BULK1, bulk_open=False), "rest"),
    ],
)
def test_each_chunk_takes_the_road_that_the_rules_name(
    rows: int, mass: bool, failures: int, lock_failures: int, rules: Rules, taken: str
) -> None:
    assert road(rows=rows, mass=mass, failures=failures, lock_failures=lock_failures, rules=rules) == taken


@pytest.mark.parametrize(
    ("mass", "due", "failures", "lock_failures", "rules", "most"),
    [
        (False, 50_000, 0, 0, AUTO, 200),
        (False, 50_000, 3, 3, AUTO, 25),
        (False, 50_000, 12, 12, SERIAL, 1),
        (True, 1_999, 0, 0, AUTO, 200),
        (True, 2_000, 0, 0, AUTO, 10_000),
        (True, 50_000, 1, 1, AUTO, 100),
        (True, 1, 4, 4, AUTO, 10_000),
        (True, 50_000, 4, 0, AUTO, 12),
        (True, 1, 0, 0, SERIAL, 10_000),
        (True, 50_000, 0, 0, PLAIN, 200),
        (True, 50_000, 7, 7, PLAIN, 1),
        (True, 50_000, 0, 0, Rules(bulk_open=False), 200),
        (True, 50_000, 5, 5, Rules(bulk_open=False), 6),
    ],
)
def test_a_chunk_is_as_large_as_its_road_takes(
    mass: bool, due: int, failures: int, lock_failures: int, rules: Rules, most: int
) -> None:
    assert most_rows(mass=mass, due=due, failures=failures, lock_failures=lock_failures, rules=rules) == most


def test_what_is_built_to_size_takes_the_road_it_was_sized_for() -> None:
    for failures, lock_failures in [(n, m) for n in range(9) for m in range(9)]:
        for rules in (AUTO, SERIAL, PLAIN, Rules(always=Road.BULK2), Rules(bulk_open=False)):
            for mass in (False, True):
                what = {"mass": mass, "failures": failures, "lock_failures": lock_failures, "rules": rules}
                most = most_rows(due=50_000, **what)
                assert MOST[road(rows=most, **what)] >= most


def test_the_road_of_an_object_is_the_one_that_was_set_for_it() -> None:
    roads = {"CaseTeamMember": "bulk1", "Lead": "auto"}
    for name, always in (("CaseTeamMember", Road.BULK1), ("Lead", None), ("Contact", None)):
        assert rules_for(object=name, roads=roads, bulk_from=7, serial_after=2) == Rules(always, 7, 2)
