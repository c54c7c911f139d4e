"""Respect what people do in the CRM: a lead that somebody gave to another owner there is theirs here, too."""

from dataclasses import asdict, dataclass

from django.db import transaction

from crmsync.flows.owners import Changed, changed_owners
from crmsync.gateway import connect
from crmsync.moves.owners import acknowledge
from routing.choice import tell_owner
from routing.models import Lead
from routing.reassign import is_rep, respect_owner


@dataclass
class ReadBack:
    """Leads that have another owner in the CRM: now with that rep, or out of Rota's hands; `told` where they had an
    owner before Rota knew them who is no rep, so that the CRM is told whose turn it was; `late` where Rota had
    meanwhile decided anew.
    """

    moved: int = 0
    taken_over: int = 0
    told: int = 0
    late: int = 0

    def as_counts(self) -> dict[str, int]:
        return asdict(self)


def read_back_owners() -> ReadBack:
    """Look, and follow. Each lead in a transaction of its own. Raises NotConfigured and CallFailed."""
    done = ReadBack()
    for changed in changed_owners(connect()):
        follow(changed, done)
    return done


def follow(changed: Changed, done: ReadBack) -> None:
    with transaction.atomic(durable=True):
        lead = Lead.objects.filter(uid=changed.external_id, status__in=Lead.OPEN).first()
        outcome = followed(lead, changed) if lead else ""
        if not acknowledge(external_id=changed.external_id, owner=changed.owner):
            transaction.set_rollback(True)
            outcome = "late"
        elif outcome == "told" and lead:
            tell_owner(lead=lead)
    if outcome:
        setattr(done, outcome, getattr(done, outcome) + 1)


def followed(lead: Lead, changed: Changed) -> str:
    if changed.found and not is_rep(crm_user_id=changed.owner):
        return "told"
    if respect_owner(lead_id=lead.pk, crm_user_id=changed.owner):
        return "moved"
    return "" if Lead.objects.filter(pk=lead.pk, status__in=Lead.OPEN).exists() else "taken_over"
