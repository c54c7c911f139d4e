"""What can go wrong while a lead is taken in or given out; each docstring is the message people read."""


class RoutingError(Exception):
    """Routing could not do what was asked."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (self.__doc__ or "").strip())


class Busy(RoutingError):
    """Another delivery of this event, or of this address, is still being taken in. Send it again in a moment."""


class EventConflict(RoutingError):
    """This event id was delivered before with another body. Both bodies are kept; send a new event id for new data."""


class InvalidLead(RoutingError):
    """The lead cannot be taken in: see the fields named."""

    def __init__(self, problems: list[dict[str, str]]) -> None:
        super().__init__()
        self.problems = problems


class TurnFault(RoutingError):
    """The turns of this team failed three times; its leads stay waiting and the sweep takes them singly."""


class TurnstileBusy(RoutingError):
    """Leads are being given out in its team right now; try again in a moment."""


class UnknownCalendar(RoutingError):
    """No public holidays are known for this country or region. Choose another, or none and enter time off."""


class NoCredit(RoutingError):
    """A credit needs a reason, a giver and an amount: up to 1,000 leads, more or fewer, but not none."""


class BadCondition(RoutingError):
    """This condition of a rule cannot be read."""


class BadRules(RoutingError):
    """The rules cannot be published as they are: see what is said of each."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__(" ".join(problems))
        self.problems = problems


class NoDraft(RoutingError):
    """There is no draft of the rules. Begin one first."""


class LeadClosed(RoutingError):
    """The lead was closed meanwhile. Nothing was changed."""


class NobodyElse(RoutingError):
    """Nobody else may take this lead: its rep is the only one the rule allows. Choose a rep by hand."""


class NoReason(RoutingError):
    """Say who does this, and why: it stays in the lead's history."""


class NotUndone(RoutingError):
    """This hand-over was taken back before, or is more than a day old. Give its leads by hand instead."""


class RunNotUndone(RoutingError):
    """There is no such run, it was undone before, or it is more than a day old. Give its leads by hand instead."""


class HasLeft(RoutingError):
    """This rep has left, or was taken out of service. Choose another."""


class BadMapping(RoutingError):
    """The columns of the file are not mapped so that its rows can be leads."""


class BadFile(RoutingError):
    """The file cannot be imported."""


class ImportTaken(RoutingError):
    """Another process works on this import, or it is not running any more. Nothing was changed."""


class WrongImportState(RoutingError):
    """The import is not in a state in which this can be done."""
