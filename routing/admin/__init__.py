"""Routing's part of the admin: leads and why they went where they went, teams, reps and sources."""

from routing.admin import (
    accounts,
    credits,
    hand_overs,
    holidays,
    imports,
    inbound,
    late,
    leads,
    reps,
    rule_books,
    rules,
    runs,
    shifts,
    sources,
    teams,
)

__all__ = [
    "accounts",
    "credits",
    "hand_overs",
    "holidays",
    "imports",
    "inbound",
    "late",
    "leads",
    "reps",
    "rule_books",
    "rules",
    "runs",
    "shifts",
    "sources",
    "teams",
]
