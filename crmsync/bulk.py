"""What the two Bulk APIs have in common: a job is made, filled, closed, looked at until it ends, and read.

`bulk2` and `bulk1` are the two ways to do each of it. Every call may be made again: what is done already is no error.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from crmsync.direct import Row, RowResult, Target
from crmsync.errors import CallFailed
from crmsync.gateway import Org

Headers = Mapping[str, str]
Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Ref:
    """The org's ids of a job and, in Bulk API 1.0, of its only batch."""

    job_id: str
    batch_id: str = ""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a look at a job showed. `ended`: nothing of it will be processed any more."""

    ended: bool
    state: str
    message: str = ""
    processed: int = 0
    failed: int = 0
    retries: int = 0


@dataclass
class Told:
    """What a job says of its rows, by the key they were sent with: the outcomes, and those it did not come to."""

    results: dict[str, RowResult] = field(default_factory=dict)
    unprocessed: set[str] = field(default_factory=set)
    contradicted: set[str] = field(default_factory=set)  # named more than once, or under an id that is another's

    def add(self, key: str, result: RowResult) -> None:
        if key in self.results or key in self.unprocessed:
            self.contradicted.add(key)
        self.results[key] = result

    def accounts_for(self, keys: set[str]) -> bool:
        return not self.contradicted and set(self.results) | self.unprocessed == keys


class BulkRoad(Protocol):
    """The steps of one Bulk API. Each raises CallFailed."""

    # How many bytes one job may have; what is more goes another time.
    BYTES_MOST: int

    def fits(self, record: Record) -> bool:
        """Whether the record keeps its meaning on this road."""

    def encode(self, records: Sequence[Record]) -> bytes: ...

    def create(self, org: Org, target: Target, headers: Headers) -> str:
        """Make an empty job; its id. Nothing can be processed yet."""

    def upload(self, org: Org, ref: Ref, data: bytes, headers: Headers) -> str:
        """Put the rows in; the id of their batch, if there is such a thing."""

    def arrived(self, org: Org, ref: Ref, headers: Headers) -> str:
        """After an upload nobody confirmed, and after `abort`: the batch that is there all the same, or ""."""

    def close(self, org: Org, ref: Ref, headers: Headers) -> None: ...

    def look(self, org: Org, ref: Ref, headers: Headers) -> Seen: ...

    def told(self, org: Org, ref: Ref, target: Target, rows: Sequence[Row], headers: Headers) -> Told: ...

    def abort(self, org: Org, ref: Ref, headers: Headers) -> None:
        """Nothing further is put in or begun. What has been committed stays."""


def key_of(row: Row, target: Target) -> str:
    """What names the row in the job and in its results."""
    return row.external_id if target.operation == "upsert" else row.crm_id


def key_field(target: Target) -> str:
    return target.external_id_field if target.operation == "upsert" else "Id"


def record_of(row: Row, target: Target) -> dict[str, Any]:
    named = {key_field(target): key_of(row, target)}
    return named if target.operation == "delete" else {**named, **row.body}


def is_wrong_state(failed: CallFailed) -> bool:
    """The job has gone on already: what was asked for has been done, or cannot be done any more."""
    return failed.fault.code.casefold() == "invalidjobstate"
