"""A lead in a line: who it is, where it is and how it stands."""

from routing.models import Lead


def describe(lead: Lead) -> str:
    """A lead in a line of a question."""
    return f"{lead}, {lead.company or lead.email or lead.phone}: {lead.get_status_display().lower()} in {lead.team}"
