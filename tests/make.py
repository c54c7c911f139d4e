"""Make what a test needs, in one line each; whatever the test does not care about is made up."""

import itertools
import uuid
from typing import Any

from django.db import transaction

from routing import members, rule_books
from routing.intake import accept
from routing.models import Account, AccountDomain, InboundSource, Lead, Membership, Rep, RuleBook, Team

_numbers = itertools.count(1)


def make_team(*, name: str = "", reps: int = 0, weights: tuple[int, ...] = (), outside_hours: str = "ignore") -> Team:
    """A team, with `reps` fresh members of weight 1 or with one fresh member for each of `weights`."""
    with transaction.atomic():
        team = Team.objects.create(name=name or f"Team {next(_numbers)}", outside_hours=outside_hours)
        for weight in weights or (1,) * reps:
            members.add_member(team=team, rep=make_rep(), weight=weight)
    return team


def make_rep(**fields: Any) -> Rep:
    """A rep. Caps given here count from nothing."""
    number = next(_numbers)
    return Rep.objects.create(**{"name": f"Rep {number}", "email": f"rep{number}@rota.example", **fields})


def make_member(*, team: Team, rep: Rep | None = None, weight: int = 1) -> Membership:
    """A member of a team, with a fresh rep unless one is given."""
    with transaction.atomic():
        return members.add_member(team=team, rep=rep or make_rep(), weight=weight)


def make_source(*, team: Team | None = None, **fields: Any) -> InboundSource:
    """A source of leads for a team."""
    number = next(_numbers)
    team = team or make_team(reps=1)
    return InboundSource.objects.create(
        **{"slug": f"source-{number}", "name": f"Source {number}", "team": team, **fields}
    )


def make_lead(*, team: Team, **fields: Any) -> Lead:
    """A waiting lead, without addresses and without an event."""
    return Lead.objects.create(**{"team": team, "email": make_email(), **fields})


def make_email() -> str:
    """An e-mail address nobody else has."""
    return f"{uuid.uuid4().hex[:12]}@acme.example"


def make_payload(**fields: Any) -> dict[str, Any]:
    """What a sender says of a lead."""
    return {"email": make_email(), "first_name": "Pat", "last_name": "Novák", "company": "Acme", **fields}


def make_account(*, domains: tuple[str, ...], owner: Rep | None = None, crm_id: str = "") -> Account:
    """An account known by these domains."""
    account = Account.objects.create(name=f"Account {next(_numbers)}", owner=owner, crm_id=crm_id)
    AccountDomain.objects.bulk_create(AccountDomain(account=account, domain=domain) for domain in domains)
    return account


def publish_rules(*rules: dict[str, Any], **book: Any) -> RuleBook:
    """Publish a book of just these rules: {"name", "team", "conditions": [(field, operator, value)], ...}."""
    with transaction.atomic():
        row = rule_books.draft()
        RuleBook.objects.filter(pk=row.pk).update(**book)
        rule_books.replace_rules(row=row, wanted=[{"name": f"Rule {next(_numbers)}", **rule} for rule in rules])
        return rule_books.publish(by="ops")


def send(*, source: InboundSource, event_id: str = "", **payload: Any) -> Lead:
    """What the webhook does with one event of a source; the lead as it stands afterwards."""
    payload = payload if "email" in payload or "phone" in payload else make_payload(**payload)
    event_id = event_id or uuid.uuid4().hex
    accepted = accept(source=source, event_id=event_id, body=event_id.encode(), payload=payload, request_id="test")
    return Lead.objects.get(uid=accepted.lead)
