"""What can go wrong while campaigns are launched and sent; each docstring is the message people read."""

from collections.abc import Mapping, Sequence


class OutreachError(Exception):
    """Outreach could not do what was asked."""

    def __init__(self, detail: str = "") -> None:
        says = (self.__doc__ or "").strip()
        super().__init__(f"{says} {detail}" if detail else says)


class ClaimLost(OutreachError):
    """The claim is not ours any more: whoever took it settles it, and we change nothing."""


class LaunchRefused(OutreachError):
    """The campaign cannot be launched as it stands."""

    def __init__(self, problems: Mapping[str, int | str]) -> None:
        super().__init__("; ".join(f"{what}: {many}" for what, many in problems.items()))
        self.problems = dict(problems)


class SameListAndContent(OutreachError):
    """The same list was already launched with the same content. Give a reason to do it again."""


class ChangedMeanwhile(OutreachError):
    """The list or the content is not what was looked at any more. Look at it again."""


class BadList(OutreachError):
    """The file cannot be taken as a list of leads."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__(" ".join(problems))
        self.problems = list(problems)


class WrongState(OutreachError):
    """That is not possible in its present state."""


class TooEarly(OutreachError):
    """The mail may still be on its way out. Wait until the longest possible hand-over has passed."""


class ReasonMissing(OutreachError):
    """Say why."""


class BadTemplate(OutreachError):
    """The template cannot be used."""


class BadAddress(OutreachError):
    """No mail can be sent to this address."""


class BadHeader(OutreachError):
    """A header would run over several lines."""


class RoadClosed(OutreachError):
    """The relay takes nothing at the moment; no mail was begun."""


class CredentialsRefused(RoadClosed):
    """The relay refuses our credentials or our sender address: sending stops, no lead is charged."""


class TokenRefused(OutreachError):
    """This token is not known, or it was revoked. A person makes one in the admin, under Agents."""


class RateReached(OutreachError):
    """Too many requests. Wait as Retry-After says."""

    def __init__(self, *, retry_after_s: int) -> None:
        super().__init__()
        self.retry_after_s = retry_after_s


class NotAllowed(OutreachError):
    """This agent may not do that."""


class NotFound(OutreachError):
    """There is no such thing."""


class GateClosed(OutreachError):
    """The gate refuses it: do not act."""

    def __init__(self, reason: str) -> None:
        super().__init__()
        self.reason = reason


class KeyUsedOtherwise(OutreachError):
    """This Idempotency-Key came with another request before. Use a fresh one for each thing you want done."""


class StillUnderWay(OutreachError):
    """The first request with this Idempotency-Key has no answer yet. Send it again in a moment."""


class BadReport(OutreachError):
    """This is no report on a mail."""


class NotAllTakenIn(OutreachError):
    """Not all was taken in."""

    def __init__(self, places: Sequence[int], *, again: bool) -> None:
        super().__init__("Send it again." if again else "To send it again would not help.")
        self.places = tuple(places)
        self.again = again


class NotALog(Exception):
    """The file is no mail log that can be read; the message says what would be."""
