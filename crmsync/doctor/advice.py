"""What to do about lock failures, from where they happened and from what is built into the org. Pure."""

from collections.abc import Iterator, Sequence

from crmsync.contention import ITSELF, Contention
from crmsync.doctor.asking import Built

HOT = 0.3
"""The share of all lock failures from which on one parent, or three neighbouring hours, is where they happen."""
FEW = 5
"""Below as many lock failures nothing can be said of a parent or an hour."""
SPAN = 3


def advice(found: Contention, built: Sequence[Built]) -> list[str]:
    """Sentences, the most certain first; empty where no lock was met."""
    return list(_advice(found, built)) if found.failures else []


def _advice(found: Contention, built: Sequence[Built]) -> Iterator[str]:
    if found.ours:
        yield (
            f"{found.ours:,} of {found.failures:,} lock failures met a call of Rota's own that nobody answered any "
            "more: look at the network between and at CRM_TIMEOUT_S before anything else."
        )
    if found.failures < FEW:
        yield f"{found.failures:,} lock failures are too few to say where they come from."
        return
    if found.membership:
        yield (
            f"{found.membership:,} tell of sharing or group membership: defer sharing calculations (Setup, Defer "
            "Sharing Calculations) while owners and roles change in bulk, and do not change both at once."
        )
    worst = found.parents[0] if found.parents else None
    if worst and worst.key != ITSELF and worst.failures >= FEW and worst.failures >= HOT * found.failures:
        yield (
            f"{worst.label} has {worst.failures / found.failures:.0%} of them. Who else writes its children? Give "
            f"that job Bulk API serial mode or smaller batches for this object only; or hold the parent here "
            "while it runs."
        )
    start, most = busiest(found.hours)
    if most >= FEW and most >= HOT * found.failures and most > sum(found.hours) * SPAN / 24 * 2:
        yield (
            f"{most / found.failures:.0%} happened between {start:02}:00 and {(start + SPAN) % 24:02}:00 UTC: move the "
            "job that runs then, or push mass updates at another time."
        )
    for counted in found.objects:
        if counted.failures >= FEW and counted.failures > 0.02 * counted.attempts:
            yield (
                f"{counted.object}: {counted.failures:,} of {counted.attempts:,} attempts met a lock. Smaller chunks "
                "of this object hold its parents for less time."
            )
            yield from of_object(counted.object, built)
    if not found.ours:
        yield "None of them overlapped with a call of Rota's own: the other side is a person, a job or an integration."


def of_object(name: str, built: Sequence[Built]) -> Iterator[str]:
    """What runs, and holds the locks longer, when a record of this object is saved."""
    for kind in ("trigger", "flow", "roll-up"):
        names = [each.name for each in built if each.kind == kind and each.object == name]
        if names and kind == "roll-up":
            yield f"Roll-ups on {name} ({', '.join(names)}) lock it whenever a child changes: fewer of them, or later."
        elif names:
            yield f"Each save of {name} also runs {kind} {', '.join(names)}: what it writes is locked as well."


def busiest(hours: Sequence[int]) -> tuple[int, int]:
    """The SPAN neighbouring hours with the most failures, around the clock: the first of them, and how many."""
    sums = [sum(hours[(start + step) % 24] for step in range(SPAN)) for start in range(24)]
    most = max(sums)
    return sums.index(most), most
