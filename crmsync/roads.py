"""Which road a chunk takes to the org, and how many rows it may have there. Pure: numbers in, a road or a number out.

The rules, in their order:

1. Interactive rows never wait for a job: one goes by REST, more by sObject Collections, as many as their lanes allow.
2. Mass rows that failed for locks `serial_after` times go by Bulk API 1.0, serial: the org itself then runs one batch
   at a time.
3. Mass rows under a lane that has failed less often, or for another reason (a governor limit), go by Collections,
   halved for each failure; the 200 rows of a bulk job's transactions cannot be made fewer.
4. Of mass rows under lanes that have not failed, `bulk_from` or more due at once go by Bulk API 2.0; fewer by
   Collections, whose answer comes in the same second. The job holds every lane of its rows, so two live jobs share no
   key.
5. A road that somebody has set for an object (CRM_ROADS) is taken instead of 2 and 4.

The planner sizes a chunk by `most_rows`, the claim puts `road` on it; whatever is claimed, the sender carries.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Road(StrEnum):
    """A way to write rows into Salesforce."""

    REST = "rest"
    COLLECTIONS = "collections"
    BULK2 = "bulk2"
    BULK1 = "bulk1"

    @property
    def is_bulk(self) -> bool:
        """The org answers with a job, and with the rows' outcomes minutes later."""
        return self in (Road.BULK2, Road.BULK1)


# Salesforce, sObject Collections (REST API guide) and Bulk API guide v66: 200 records of a call, 10,000 of a batch; a
# 2.0 job may have more, but runs each further 10,000 in parallel, which could make it meet itself.
MOST: Mapping[Road, int] = {Road.REST: 1, Road.COLLECTIONS: 200, Road.BULK2: 10_000, Road.BULK1: 10_000}
# What a person may set for an object: `auto` are the rules above.
SETTABLE = ("auto", Road.COLLECTIONS, Road.BULK2, Road.BULK1)


@dataclass(frozen=True, slots=True)
class Rules:
    """What the mass rows of one object may take.

    `always`: the one road somebody has set for it. `bulk_from`: rows due at once from which Bulk API 2.0 is worth its
    minutes (Salesforce calls more than 2,000 records a case for Bulk). `serial_after`: lock failures of one row after
    which only the org's own queue helps. `bulk_open`: false while the org has used up its batches of the day.
    """

    always: Road | None = None
    bulk_from: int = 2_000
    serial_after: int = 4
    bulk_open: bool = True


def rules_for(
    *, object: str, roads: Mapping[str, str], bulk_from: int, serial_after: int, bulk_open: bool = True
) -> Rules:
    """The rules of one object, from what is set for all (`roads`: object name to one of SETTABLE)."""
    chosen = roads.get(object, "auto")
    always = None if chosen == "auto" else Road(chosen)
    return Rules(always=always, bulk_from=bulk_from, serial_after=serial_after, bulk_open=bulk_open)


def most_rows(*, mass: bool, due: int, failures: int, lock_failures: int = 0, rules: Rules) -> int:
    """How many rows a chunk may have.

    `due`: mass rows of the same object and operation that are due and, as far as is known, free to go. `failures`: how
    often the chunk's lanes say to halve it, the most of any. `lock_failures`: attempts charged to a row whose last
    failure was a lock, the most of any.
    """
    if mass and rules.bulk_open:
        if is_serial(failures=failures, lock_failures=lock_failures, rules=rules):
            return MOST[Road.BULK1]
        if not failures and (rules.always == Road.BULK2 or (rules.always is None and due >= rules.bulk_from)):
            return MOST[Road.BULK2]
    return max(1, MOST[Road.COLLECTIONS] >> min(failures, 15))


def road(*, rows: int, mass: bool, failures: int, lock_failures: int = 0, rules: Rules) -> Road:
    """The road of a chunk that has been put together; `failures` and `lock_failures` as in `most_rows`."""
    if mass and rules.bulk_open:
        if is_serial(failures=failures, lock_failures=lock_failures, rules=rules):
            return Road.BULK1
        if rows > MOST[Road.COLLECTIONS] or (rules.always == Road.BULK2 and not failures):
            return Road.BULK2
    return Road.REST if rows == 1 else Road.COLLECTIONS


def is_serial(*, failures: int, lock_failures: int, rules: Rules) -> bool:
    if rules.always == Road.BULK1:
        return not failures or lock_failures > 0
    return rules.always is None and lock_failures >= rules.serial_after
