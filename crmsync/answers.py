"""What the org answered when it did not take a row or a request, as a Fault: its code, its words, its fields.

REST, Collections and both Bulk APIs each have a form of their own for it; here are all of them.
"""

import re
from collections.abc import Mapping
from typing import Any

import requests
from simple_salesforce.exceptions import SalesforceError
from urllib3.exceptions import MaxRetryError, NewConnectionError

from crmsync.errors import NO_ANSWER, NOT_CONNECTED, Fault

CODE = re.compile(r"\s*(?:sf:)?([A-Za-z_][\w.]*)\s*:\s*")


def as_fault(error: Mapping[str, Any], *, status: int) -> Fault:
    code = str(error.get("errorCode") or error.get("statusCode") or error.get("exceptionCode") or "")
    return Fault(
        code=code.removeprefix("sf:"),
        text=str(error.get("message") or error.get("exceptionMessage") or ""),
        fields=tuple(str(name) for name in error.get("fields") or ()),
        status=status,
    )


def fault_of(error: Exception) -> Fault:
    """What went wrong: by the code in the answer's body; by the kind of exception only where nothing was answered."""
    if isinstance(error, SalesforceError):
        content: Any = error.content
        if isinstance(content, list) and content and isinstance(content[0], dict):
            if "errorCode" in content[0]:
                return as_fault(content[0], status=error.status)
            return Fault("DUPLICATE_EXTERNAL_ID", "More than one record has this external id.", status=error.status)
        if isinstance(content, dict):
            return as_fault(content, status=error.status)
        if error.status == 300:
            return Fault("DUPLICATE_EXTERNAL_ID", str(content), status=error.status)
        return Fault("", str(content)[:2000], status=error.status)
    if isinstance(error, requests.exceptions.ConnectTimeout | requests.exceptions.SSLError):
        return Fault(NOT_CONNECTED, type(error).__name__)
    reason = error.args[0] if error.args else None
    if isinstance(reason, MaxRetryError) and isinstance(reason.reason, NewConnectionError):
        return Fault(NOT_CONNECTED, type(reason.reason).__name__)
    return Fault(NO_ANSWER, type(error).__name__)


def row_fault(text: str) -> Fault:
    """One row's error in a result of Bulk API 2.0: `CODE:message:Field1, Field2 --`, or `CODE:message:--`."""
    found = CODE.match(text)
    if not found:
        return Fault("", text)
    words, _, names = text[found.end() :].rpartition(":")
    if not names.rstrip().endswith("--"):
        return Fault(found[1], text[found.end() :])
    fields = tuple(name.strip() for name in names.rstrip().removesuffix("--").split(",") if name.strip())
    return Fault(found[1], words, fields)


def job_fault(message: str) -> Fault:
    """Why a job or batch as a whole failed: `TooManyLockFailure : Too many lock failures ...`."""
    found = CODE.match(message)
    return Fault(found[1], message[found.end() :]) if found else Fault("", message)
