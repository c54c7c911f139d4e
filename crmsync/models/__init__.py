"""What the CRM should hold, what is on its way there, and who is carrying it."""

from crmsync.models.account_leads import AccountLeads
from crmsync.models.batches import Batch, BatchPart, Operation
from crmsync.models.bulk import BulkJob
from crmsync.models.dead import DeadLetter, LockFailure
from crmsync.models.field_mapping import FieldMapping
from crmsync.models.interventions import Intervention, Pruning
from crmsync.models.lanes import Attempt, Claim, Lane, OrgState
from crmsync.models.outbox import FailureKind, OutboxMessage
from crmsync.models.piles import Pile
from crmsync.models.record import CrmRecord

__all__ = [
    "AccountLeads",
    "Attempt",
    "Batch",
    "BulkJob",
    "BatchPart",
    "Claim",
    "CrmRecord",
    "DeadLetter",
    "FailureKind",
    "FieldMapping",
    "Intervention",
    "Lane",
    "LockFailure",
    "Operation",
    "OrgState",
    "OutboxMessage",
    "Pile",
    "Pruning",
]
