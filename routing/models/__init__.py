"""The tables of routing. A promise stands in each as a constraint whose name says it."""

from routing.models.assignment import Assignment, Roster
from routing.models.credit import Credit
from routing.models.hand_over import HandOver
from routing.models.hours import Holiday, TimeOff, WorkingHours
from routing.models.imported import ColumnMap, Import, ImportRow
from routing.models.inbound import Delivery, Fetch, InboundEvent
from routing.models.lead import Account, AccountDomain, Lead, LeadAddress
from routing.models.rule import Rule, RuleBook, RuleCondition
from routing.models.run import Run
from routing.models.service import ServiceBreach
from routing.models.source import InboundSource
from routing.models.team import Membership, Rep, RepCount, Shift, Team, TeamPart, Turnstile

__all__ = [
    "Account",
    "AccountDomain",
    "Assignment",
    "ColumnMap",
    "Credit",
    "Delivery",
    "Fetch",
    "HandOver",
    "Holiday",
    "Import",
    "ImportRow",
    "InboundEvent",
    "InboundSource",
    "Lead",
    "LeadAddress",
    "Membership",
    "Rep",
    "RepCount",
    "Roster",
    "Rule",
    "RuleBook",
    "RuleCondition",
    "Run",
    "ServiceBreach",
    "Shift",
    "Team",
    "TeamPart",
    "TimeOff",
    "Turnstile",
    "WorkingHours",
]
