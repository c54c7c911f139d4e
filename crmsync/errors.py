"""What can go wrong while writing to the CRM, by what the caller should do about it. The docstring is the message."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fault:
    """What was said about one row or one request that the CRM did not take; `code` is Salesforce's, or one of ours.

    Ours: NOT_CONNECTED (nothing was sent), NO_ANSWER (sent, and nobody knows), NOT_PROCESSED (a job ended before it
    came to the row), NO_PARENT (not sent, for the org has no such parent yet). `status` is the HTTP status of a
    request, 0 for a row inside one that was answered.
    """

    code: str
    text: str = ""
    fields: tuple[str, ...] = ()
    status: int = 0
    retry_after_s: int = 0


NOT_CONNECTED = "NOT_CONNECTED"
NO_ANSWER = "NO_ANSWER"
NOT_PROCESSED = "NOT_PROCESSED"
NO_PARENT = "NO_PARENT"


class CrmSyncError(Exception):
    """Something went wrong while writing to the CRM."""

    def __init__(self, detail: str = "") -> None:
        says = (self.__doc__ or "").strip()
        super().__init__(f"{says} {detail}" if detail else says)


class ClaimLost(CrmSyncError):
    """The claim is not ours any more: whoever took it settles it, and we change nothing."""


class NotSendable(CrmSyncError, ValueError):
    """The CRM could never take this value; nothing was stored."""


class NotConfigured(CrmSyncError):
    """The CRM's address or credentials are missing or cannot be used."""


class CallFailed(CrmSyncError):
    """The CRM did not take the request as a whole."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(f"{fault.code or fault.status}: {fault.text[:200]}")
        self.fault = fault


class NoSuchObject(CrmSyncError):
    """The org has no such object, or our user may not see it:"""


class FileRefused(CrmSyncError):
    """Nothing was queued, for the file has problems:"""


class PushedBefore(CrmSyncError):
    """This file was pushed before."""


class WrongState(CrmSyncError):
    """That cannot be done now."""
