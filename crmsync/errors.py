"""What can go wrong while writing to the CRM, by what the caller should do about it. The docstring is the message."""


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
