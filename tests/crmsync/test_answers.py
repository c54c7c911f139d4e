"""Errors as each API writes them."""

import pytest

from crmsync.answers import as_fault, job_fault, row_fault
from crmsync.errors import Fault

LOCKED = "unable to obtain exclusive access to this record or 1 records: 0015R0000000001QAA"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (f"UNABLE_TO_LOCK_ROW:{LOCKED}:--", Fault("UNABLE_TO_LOCK_ROW", LOCKED)),
        ("STRING_TOO_LONG:Title: too large:Title --", Fault("STRING_TOO_LONG", "Title: too large", ("Title",))),
        ("REQUIRED_FIELD_MISSING:m:A, B --", Fault("REQUIRED_FIELD_MISSING", "m", ("A", "B"))),
        (
            f"CANNOT_INSERT_UPDATE_ACTIVATE_ENTITY:x: first error: UNABLE_TO_LOCK_ROW, {LOCKED}: []:--",
            Fault("CANNOT_INSERT_UPDATE_ACTIVATE_ENTITY", f"x: first error: UNABLE_TO_LOCK_ROW, {LOCKED}: []"),
        ),
        ("A_CODE:no end", Fault("A_CODE", "no end")),
        ("no code at all", Fault("", "no code at all")),
        ("", Fault("", "")),
    ],
)
def test_an_error_in_a_result_line_is_taken_apart(text: str, fault: Fault) -> None:
    assert row_fault(text) == fault


@pytest.mark.parametrize(
    ("message", "fault"),
    [
        ("TooManyLockFailure : Too many lock failure 200", Fault("TooManyLockFailure", "Too many lock failure 200")),
        ("InvalidBatch : Field name not found : X__c", Fault("InvalidBatch", "Field name not found : X__c")),
        ("ClientInputError:LineEnding is invalid", Fault("ClientInputError", "LineEnding is invalid")),
        ("something else", Fault("", "something else")),
    ],
)
def test_what_is_said_of_a_job_is_taken_apart(message: str, fault: Fault) -> None:
    assert job_fault(message) == fault


def test_the_prefix_of_a_soap_fault_is_dropped() -> None:
    assert as_fault({"exceptionCode": "sf:INVALID_LOGIN", "exceptionMessage": "m"}, status=500).code == "INVALID_LOGIN"
