"""What the org says when it refuses: Salesforce's own codes and words, once for each way they can be answered."""

from collections.abc import Sequence
from dataclasses import dataclass, field

# REST answers a refused row with 400 except for these (REST API guide, "Status Codes and Error Responses").
ROW_STATUS = {"NOT_FOUND": 404, "ENTITY_IS_DELETED": 404}


@dataclass
class RowError(Exception):
    """One row was refused; the rows beside it may go on."""

    code: str
    message: str
    fields: Sequence[str] = field(default_factory=tuple)

    @property
    def status(self) -> int:
        return ROW_STATUS.get(self.code, 400)


@dataclass
class CallError(Exception):
    """The whole call was refused with this HTTP status; no row was looked at."""

    status: int
    code: str
    message: str


class Stopping(Exception):
    """The org is being stopped; whoever waits gives up without a trace."""


def not_found(message: str = "The requested resource does not exist") -> CallError:
    return CallError(404, "NOT_FOUND", message)


def bad_session() -> CallError:
    return CallError(401, "INVALID_SESSION_ID", "Session expired or invalid")


def no_such_column(name: str, sobject: str) -> RowError:
    return RowError("INVALID_FIELD", f"No such column '{name}' on sobject of type {sobject}")


def duplicate_value(field_name: str, short_id: str) -> RowError:
    text = f"duplicate value found: {field_name} duplicates value on record with id: {short_id}"
    return RowError("DUPLICATE_VALUE", text)


def row_is_locked(record_id: str | None) -> RowError:
    """The wait for a lock ran out ("Apex Locking Statements"). None: a unique value was locked, not a record."""
    text = "unable to obtain exclusive access to this record"
    return RowError("UNABLE_TO_LOCK_ROW", f"{text} or 1 records: {record_id}" if record_id else text)


def rolled_back() -> RowError:
    text = "Record rolled back because not all records were valid and the request was using AllOrNone header"
    return RowError("ALL_OR_NONE_OPERATION_ROLLED_BACK", text)
