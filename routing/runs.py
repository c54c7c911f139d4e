"""A run of `assign_waiting` is noted while it gives out leads; one that gave out none is forgotten."""

from collections.abc import Iterator
from contextlib import contextmanager

from routing.models import Run, Team


@contextmanager
def noted(*, by: str, team: Team | None) -> Iterator[Run]:
    """A run for turns to be taken in. Call outside a transaction: it is there before its first turn, whatever dies."""
    run = Run.objects.create(by=by[:150], team=team)
    yield run
    if not run.assignments.exists():
        run.delete()
