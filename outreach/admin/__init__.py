"""Outreach's part of the admin: campaigns, their mails, what is in doubt, who wants no mail, and the switch."""

from outreach.admin import campaigns, claims, doubt, mails, notices, sending, suppressions

__all__ = ["campaigns", "claims", "doubt", "mails", "notices", "sending", "suppressions"]
