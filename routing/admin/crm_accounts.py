"""Name the Accounts of the CRM for many accounts at once: by their websites, shown first and confirmed by a person."""

from typing import Any

from django.contrib import messages
from django.db import transaction
from django.http import HttpResponse

from crmsync.desk.confirm import Asked, Question
from crmsync.desk.words import plural
from crmsync.doctor.contacts import accounts_at
from routing.models import Account

OTHERS = "named already, or not exactly one Account of the CRM has its website at their domains"


def name_by_website(model_admin: Any, asked: Asked) -> HttpResponse | None:
    """The page that shows what was found, then the naming. An account that got an id meanwhile keeps it."""
    unnamed = Account.objects.filter(pk__in=asked.ids, crm_id="").prefetch_related("domains")
    domains = {account.pk: [domain.domain for domain in account.domains.all()] for account in unnamed}
    found = accounts_at(sorted({domain for several in domains.values() for domain in several}))
    if found.problem:
        model_admin.message_user(asked.request, found.problem, messages.ERROR)
        return None
    at = {
        pk: sorted({one for domain in several for one in found.at.get(domain, ())}) for pk, several in domains.items()
    }
    sure = {pk: ones[0] for pk, ones in at.items() if len(ones) == 1}
    if not asked.confirmed:
        question = Question(
            title=f"Name the Accounts of {plural(len(asked.ids), 'account')}",
            says="The CRM was asked for Accounts whose website is at a domain of these accounts. Where it has exactly "
            "one, that becomes the account's CRM account id.",
            button="Name",
            ready=len(sure),
            others=OTHERS,
        )
        return asked.page(model_admin, question, lambda account: in_a_line(account, at.get(account.pk)))
    with transaction.atomic(durable=True):
        unnamed = Account.objects.filter(crm_id="")
        done = sum(unnamed.filter(pk=pk).update(crm_id=crm_id) for pk, (crm_id, _) in sorted(sure.items()))
    return asked.tell(model_admin, done, "Named", OTHERS)


def in_a_line(account: Account, found: list[tuple[str, str]] | None) -> str:
    """An account, and what the CRM has for it: "Acme: Acme Holding (001…)". None: it has an id already."""
    if found is None:
        return f"{account}: {account.crm_id} already"
    return f"{account}: " + (" or ".join(f"{name} ({crm_id})" for crm_id, name in found) or "none found")
