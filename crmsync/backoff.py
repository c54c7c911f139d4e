"""What follows from a failure: how long the change waits, whether the try counted, and when Rota stops trying.

Pure: the settings and the dice are parameters.
"""

from dataclasses import dataclass

from crmsync.classify import Verdict
from crmsync.models import FailureKind as Kind
from crmsync.models.lanes import MOST_ROWS as MOST_ROWS

UNKNOWN_TRIES = 3
MOST_HALVINGS = 7  # 200 rows, halved seven times, are one
UNTIL_MORE = 5  # clean chunks under a lane before its chunks may grow again
MORE = 1.25


@dataclass(frozen=True, slots=True)
class Patience:
    """How patient Rota is, in milliseconds and tries. `quarantine_ms`: how long an unanswered call may still commit."""

    first_ms: int
    cap_ms: int
    attempts_most: int
    quarantine_ms: int


@dataclass(frozen=True, slots=True)
class Next:
    """What happens to one message and to the lanes it failed in."""

    dead: bool = False
    wait_ms: int = 0
    charge: int = 0
    lane_wait_ms: int = 0  # nobody writes under its lanes before
    halve: bool = False  # the next chunk that uses its lanes has half the rows
    quarantine_ms: int = 0


def delay_ms(failures: int, *, first_ms: int, cap_ms: int, dice: float) -> int:
    """1, 2, 4 ... times `first_ms`, at most `cap_ms`; half of it fixed, half by `dice` (0 to 1). Never at once."""
    whole = min(cap_ms, first_ms * 2 ** min(max(failures, 1) - 1, 30))
    return max(1, int(whole / 2 + whole / 2 * dice))


def halvings(rows: int) -> int:
    """How often the largest chunk is halved until it is no more than half of `rows`."""
    return next((n for n in range(MOST_HALVINGS) if MOST_ROWS >> n <= rows // 2), MOST_HALVINGS)


def what_next(
    verdict: Verdict,
    *,
    attempts: int,
    rows: int,
    whole_request: bool,
    org_was_well: bool,
    parent_coming: bool,
    patience: Patience,
    dice: float,
) -> Next:
    """`attempts` were charged before this one; `rows` were in the chunk; `parent_coming`: a parent is in the outbox.

    `whole_request`: the request was refused and says nothing about a row; then the chunk halves until the row is found.
    `org_was_well`: the org took the request before this one. A row that fails alone, and again and again, while the org
    takes what lies between, is at fault itself; while the org takes nothing, nobody is charged.
    """
    wait = delay_ms(attempts + 1, first_ms=patience.first_ms, cap_ms=patience.cap_ms, dice=dice)
    last = attempts + 1 >= patience.attempts_most
    quarantine = patience.quarantine_ms if verdict.may_have_arrived else 0
    match verdict.kind:
        case Kind.PERMANENT | Kind.UNKNOWN | Kind.DEPENDENCY | Kind.RACE if whole_request and rows > 1:
            return Next(halve=True)
        case Kind.PERMANENT:
            return Next(dead=True, charge=1)
        case Kind.AUTH | Kind.RATE_LIMIT:
            return Next()
        case Kind.COLLATERAL:
            return Next(wait_ms=wait)
        case Kind.CONTENTION:
            return Next(dead=last, wait_ms=wait, charge=1, lane_wait_ms=wait, halve=True)
        case Kind.GOVERNOR:
            return Next(halve=True) if rows > 1 else Next(dead=True, charge=1)
        case Kind.DEPENDENCY:
            return Next(dead=last or not parent_coming, wait_ms=wait, charge=1)
        case Kind.UNANSWERED:
            wait = max(wait, quarantine)
            return Next(dead=last, wait_ms=wait, charge=1, halve=rows > 1, quarantine_ms=quarantine)
        case Kind.TRANSIENT if verdict.org_wide and not verdict.may_have_arrived:  # the org pauses for it
            return Next()
        case Kind.TRANSIENT if verdict.org_wide:
            blamed = rows == 1 and org_was_well
            return Next(
                dead=blamed and last,
                wait_ms=max(wait, quarantine),
                charge=int(blamed),
                halve=rows > 1,
                quarantine_ms=quarantine,
            )
        case Kind.UNKNOWN:
            return Next(dead=attempts + 1 >= min(UNKNOWN_TRIES, patience.attempts_most), wait_ms=wait, charge=1)
        case _:  # transient on a row or of a whole job, or a race with another creator
            return Next(dead=last, wait_ms=wait, charge=1, halve=whole_request and rows > 1)
