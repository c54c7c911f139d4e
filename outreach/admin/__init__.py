"""Outreach's part of the admin: campaigns, their mails, what is in doubt, who wants no mail, and the switch."""

from outreach.admin import campaigns, doubt, mails

__all__ = ["campaigns", "doubt", "mails"]
