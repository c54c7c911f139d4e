"""Campaigns and their steps, who is enrolled, every mail, who holds it, every try to send it, and who wants none.

Also the agents outside Rota that may do a part of it.
"""

from outreach.models.agent import Agent, AgentRequest
from outreach.models.attempt import SendAttempt
from outreach.models.campaign import Campaign, CampaignDay, Step
from outreach.models.claim import Claim, JobLock
from outreach.models.event import OutreachEvent
from outreach.models.feedback import ProviderEvent
from outreach.models.message import Enrolment, InDoubt, Message
from outreach.models.notice import Notice, NoticeMail
from outreach.models.recipient import Recipient, Suppression
from outreach.models.state import SendingState
from outreach.models.work import LeadClaim, LeadHold, LeadJob

__all__ = [
    "Agent",
    "AgentRequest",
    "Campaign",
    "CampaignDay",
    "Claim",
    "Enrolment",
    "InDoubt",
    "JobLock",
    "LeadClaim",
    "LeadHold",
    "LeadJob",
    "Message",
    "Notice",
    "NoticeMail",
    "OutreachEvent",
    "ProviderEvent",
    "Recipient",
    "SendAttempt",
    "SendingState",
    "Step",
    "Suppression",
]
