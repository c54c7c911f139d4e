"""May Rota create contacts under accounts in this org, and does the org know the accounts that people named?

Asked before people's choice is believed, and by the doctor as long as it stands.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from django.conf import settings

from crmsync.describe import ObjectInfo, read_object
from crmsync.doctor.findings import Finding, Verdict
from crmsync.doctor.objects import examine_object
from crmsync.errors import CallFailed, NoSuchObject, NotConfigured
from crmsync.field_map import mapping_of
from crmsync.gateway import Org, connect, soql
from crmsync.lockkeys import long_id

STEP = "leads of accounts"
WEBSITES_PER_QUERY = 25


@dataclass(frozen=True, slots=True)
class Company:
    """An account of Rota's, for the doctor: its name, and the org's id that a person gave it."""

    name: str
    crm_id: str


@dataclass(frozen=True, slots=True)
class Looked:
    """`problem`: why it cannot be; "": nothing is known against it. `asked`: the org answered at all. `crm_id` and
    `name`: of the account that was asked for, as the org has them."""

    asked: bool
    problem: str = ""
    crm_id: str = ""
    name: str = ""


def look_at_contacts() -> Looked:
    """Would the org take contacts under accounts from Rota?"""
    try:
        described = read_object(connect(), "Contact")
    except (CallFailed, NotConfigured, NoSuchObject) as error:
        return Looked(asked=False, problem=f"The org was not asked: {error}")
    found = examine_object(described, mapping_of("Contact"), external_id_field=settings.CRM_EXTERNAL_ID_FIELD)
    wrong = [each for each in (*found, under_account(described)) if each.verdict == Verdict.PROBLEM]
    return Looked(asked=True, problem=" ".join(f"{each.says} {each.fix}" for each in wrong))


def look_at_account(crm_id: str) -> Looked:
    """The account with this id of 15 or 18 letters. The three letters after 15 are worked out, not believed."""
    crm_id = long_id(crm_id[:15])
    try:
        name = connect().names_of("Account", [crm_id]).get(crm_id)
    except (CallFailed, NotConfigured) as error:
        return Looked(asked=False, problem=f"The org was not asked: {error}", crm_id=crm_id)
    if name is None:
        problem = f"The CRM has no Account {crm_id}, or Rota's user there may not see it."
        return Looked(asked=True, problem=problem, crm_id=crm_id)
    return Looked(asked=True, crm_id=crm_id, name=name)


@dataclass(frozen=True, slots=True)
class AtWebsites:
    """The org's accounts (id, name) by the domain of their website; `problem`: why the org was not asked."""

    at: Mapping[str, Sequence[tuple[str, str]]]
    problem: str = ""


def accounts_at(domains: Sequence[str]) -> AtWebsites:
    """The accounts whose website is at exactly one of these domains, with or without www."""
    at: dict[str, list[tuple[str, str]]] = {}
    try:
        org = connect()
        for start in range(0, len(domains), WEBSITES_PER_QUERY):
            part = domains[start : start + WEBSITES_PER_QUERY]
            query = "SELECT Id, Name, Website FROM Account WHERE " + " OR ".join(
                ["Website LIKE '%{:like}%'"] * len(part)
            )
            for account in org.query(soql(query, *part)):
                at.setdefault(host_of(account["Website"]), []).append((account["Id"], account["Name"]))
    except (CallFailed, NotConfigured) as error:
        return AtWebsites({}, f"The org was not asked: {error}")
    return AtWebsites(at)


def host_of(website: str) -> str:
    """The domain of a website as people write it: https://www.Acme.example/en is acme.example."""
    text = website.strip()
    try:
        host = urlsplit(text if "://" in text else f"//{text}").hostname or ""
    except ValueError:
        return ""
    return host.lower().removeprefix("www.")


def under_account(described: ObjectInfo) -> Finding:
    field = described.fields.get("AccountId")
    if field is None or not field.createable:
        fix = "Let the run-as user read and edit the field Account Name of Contact (AccountId)."
        return Finding(STEP, Verdict.PROBLEM, "Contacts cannot be put under an account by this user.", fix)
    return Finding(STEP, Verdict.OK, "New leads of known accounts are written as contacts under them.")


def leads_of_accounts(org: Org, companies: Sequence[Company]) -> Sequence[Finding]:
    """For an org in which people chose contacts."""
    findings = [under_account(read_object(org, "Contact"))]
    ids = {company: long_id(company.crm_id[:15]) for company in companies if company.crm_id}
    known = org.names_of("Account", sorted(set(ids.values())))
    for company in (company for company, crm_id in ids.items() if crm_id not in known):
        says = f"{company.name}'s account {company.crm_id} is not in the org, or not visible: its leads stay leads."
        findings.append(Finding(STEP, Verdict.WARNING, says, "Correct the id on the account's page in Rota."))
    if without := len(companies) - len(ids):
        says = f"{without} of {len(companies)} accounts have no id of the org: their leads stay leads."
        findings.append(Finding(STEP, Verdict.OK, says))
    return findings
