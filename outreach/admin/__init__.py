"""Outreach's part of the admin: campaigns, their mails, what is in doubt, who wants no mail, the switch, and agents."""

from outreach.admin import agents, campaigns, claims, doubt, lead_work, mails, notices, reports, sending, suppressions

__all__ = [
    "agents",
    "campaigns",
    "claims",
    "doubt",
    "lead_work",
    "mails",
    "notices",
    "reports",
    "sending",
    "suppressions",
]
