"""What became of one row of a write."""

from dataclasses import dataclass

from crmsync.sandbox.errors import RowError


@dataclass
class Outcome:
    """The row's record id, whether it was made, and why it failed if it did."""

    record_id: str | None = None
    created: bool = False
    error: RowError | None = None
