"""Examine a real org step by step, and say what to fix. Writes nothing.

A step that the org does not answer is told as unknown with the org's own words, and the others go on; without a login,
or with a session that the org refuses, there are no others.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from django.conf import settings

from crmsync.describe import read_object
from crmsync.doctor import asking
from crmsync.doctor.contacts import Company, leads_of_accounts
from crmsync.doctor.findings import Finding, Verdict
from crmsync.doctor.objects import accounts, examine_object
from crmsync.errors import CallFailed, NoSuchObject, NotConfigured
from crmsync.field_map import mapping_of
from crmsync.gateway import NOT_SIGNED_IN, Org, connect
from crmsync.lockkeys import long_id
from crmsync.mapping import MAPPING
from crmsync.models import AccountLeads, Batch

LOW = 0.2
"""The share of a limit below which the doctor warns."""
WATCHED_LIMITS = {
    "DailyApiRequests": "API requests of these 24 hours",
    "DailyBulkApiBatches": "Bulk API batches of these 24 hours",
    "DataStorageMB": "megabytes of data storage",
}
LOGIN_FIXES = {
    "invalid_client_id": "Check CRM_CLIENT_ID against the Connected App's consumer key.",
    "invalid_client": "Check CRM_CLIENT_ID and CRM_CLIENT_SECRET against the Connected App.",
    "invalid_grant": "Enable the client credentials flow in the Connected App and name its run-as user.",
    "inactive_user": "Activate the run-as user of the Connected App, or name another one.",
    "invalid_app_access": "Let the run-as user use the Connected App (permitted users, IP ranges).",
}


@dataclass(frozen=True, slots=True)
class Person:
    """A rep, for the doctor: whom to name, and the CRM user that Rota would make the owner."""

    name: str
    crm_user_id: str


def examine(
    *, people: Sequence[Person], companies: Sequence[Company] = (), activities: bool = False
) -> Iterator[Finding]:
    """Every finding, as it is made. `activities`: campaign mail is logged there. Raises nothing that the org can
    cause."""
    try:
        org = connect()
        yield Finding("settings", Verdict.OK, f"CRM_URL is {settings.CRM_URL}.")
    except NotConfigured as error:
        yield Finding("settings", Verdict.PROBLEM, str(error), "Set CRM_URL, CRM_CLIENT_ID and CRM_CLIENT_SECRET.")
        return
    try:
        org.sign_in()
        yield Finding("login", Verdict.OK, "The org gave a session.")
    except CallFailed as failed:
        fix = LOGIN_FIXES.get(failed.fault.code, "Check CRM_URL, the Connected App and the network between.")
        yield Finding("login", Verdict.PROBLEM, f"The org gave no session. {failed}", fix)
        return
    first = asked("API version", lambda: version(org))
    yield from first
    if any(each.step == "session" for each in first):
        return
    yield from asked("limits", lambda: limits(org))
    for name in [name for name in MAPPING if name != "Task" or activities]:
        yield from asked(f"{name}: access", lambda name=name: one_object(org, name))  # type: ignore[misc]
    if AccountLeads.become_contacts():
        yield from asked("leads of accounts", lambda: leads_of_accounts(org, companies))
    yield from asked("assignment rules", lambda: assignment_rules(org))
    yield from asked("duplicate rules", lambda: duplicate_rules(org))
    yield from asked("validation rules", lambda: validation_rules(org))
    yield from asked("reps", lambda: reps(org, people))


def asked(step: str, question: Callable[[], Sequence[Finding]]) -> Sequence[Finding]:
    """The findings of one step; that the org did not answer is one, too."""
    try:
        return question()
    except CallFailed as failed:
        return [Finding(step, Verdict.UNKNOWN, f"The org did not answer: {failed}", "Ask again, or look in Setup.")]


def version(org: Org) -> Sequence[Finding]:
    try:
        org.call("GET", "", None, {})
    except CallFailed as failed:
        if failed.fault.code in NOT_SIGNED_IN:  # of a second session, too: the first was given back for a new one
            text = f"The org gives a session and refuses it in the next call. {failed}"
            fix = (
                "Give the run-as user the permission API Enabled, and see whether the IP ranges of its profile and "
                "the session settings (locked to an address or a domain) let this machine in."
            )
            return [Finding("session", Verdict.PROBLEM, text, fix)]
        if failed.fault.status not in (404, 410):
            raise
        text = f"The org does not speak version {settings.CRM_API_VERSION} ({failed.fault.code})."
        return [Finding("API version", Verdict.PROBLEM, text, "Set CRM_API_VERSION to one that it speaks.")]
    return [Finding("API version", Verdict.OK, f"The org speaks version {settings.CRM_API_VERSION}.")]


def limits(org: Org) -> Sequence[Finding]:
    found = asking.limits(org)
    findings = []
    for name, words in WATCHED_LIMITS.items():
        if name not in found:
            continue
        most, left = found[name]
        low = left < most * LOW
        fix = "Rota pauses when none are left: raise the limit, or see who uses them up." if low else ""
        says = f"{left:,} of {most:,} {words} are left."
        findings.append(Finding("limits", Verdict.WARNING if low else Verdict.OK, says, fix))
    return findings


def one_object(org: Org, name: str) -> Sequence[Finding]:
    try:
        described = read_object(org, name)
    except NoSuchObject:
        text = f"The org has no object {name}, or the user may not see it."
        return [Finding(f"{name}: access", Verdict.PROBLEM, text, f"Give the run-as user access to {name}.")]
    if name == "Account" and not accounts_are_written():
        return list(accounts(described, settings.CRM_EXTERNAL_ID_FIELD))
    return examine_object(described, mapping_of(name), external_id_field=settings.CRM_EXTERNAL_ID_FIELD)


def accounts_are_written() -> bool:
    """Whether a mass update has written accounts, or has named them as parents by their key."""
    by_key = Batch.objects.filter(columns__contains=[f"Account.{settings.CRM_EXTERNAL_ID_FIELD}"])
    return by_key.exists() or Batch.objects.filter(object="Account").exists()


def assignment_rules(org: Org) -> Sequence[Finding]:
    active = [rule for rule in asking.assignment_rules(org) if rule.object == "Lead"]
    says = f"{named(active)} would choose an owner; Rota's own calls switch that off." if active else "None is active."
    return [Finding("assignment rules", Verdict.OK, says)]


def duplicate_rules(org: Org) -> Sequence[Finding]:
    active = [rule for rule in asking.duplicate_rules(org) if rule.object in MAPPING]
    if not active:
        return [Finding("duplicate rules", Verdict.OK, "None is active.")]
    return [
        Finding(
            "duplicate rules",
            Verdict.WARNING,
            f"{named(active)} may refuse records with DUPLICATES_DETECTED; those become dead letters.",
            "Let the rule alert instead of block, or exempt the run-as user by a condition of the rule.",
        )
    ]


def validation_rules(org: Org) -> Sequence[Finding]:
    active = [rule for rule in asking.validation_rules(org) if rule.object in MAPPING]
    if not active:
        return [Finding("validation rules", Verdict.OK, "None is active.")]
    return [
        Finding(
            "validation rules",
            Verdict.WARNING,
            f"{named(active)} may refuse records; those become dead letters, with the field.",
            "Check that records as Rota writes them pass these rules, or exempt the run-as user.",
        )
    ]


def reps(org: Org, people: Sequence[Person]) -> Sequence[Finding]:
    """Each rep has a CRM user, an active one, and one of their own."""
    findings = []
    ids = [long_id(person.crm_user_id) for person in people]
    active = asking.active_users(org, sorted({crm_id for crm_id in ids if crm_id}))
    for person, crm_id in zip(people, ids, strict=True):
        if not crm_id:
            fix = "Give the user the rep's e-mail address, or put the user's id on the rep's page."
            findings.append(Finding("reps", Verdict.PROBLEM, f"{person.name} has no CRM user.", fix))
        elif crm_id not in active:
            says = f"{person.name}'s CRM user {person.crm_user_id} is inactive or unknown: the org refuses this owner."
            fix = "Activate the user, or name another one on the rep's page."
            findings.append(Finding("reps", Verdict.PROBLEM, says, fix))
    shared = [person.name for person, crm_id in zip(people, ids, strict=True) if crm_id and ids.count(crm_id) > 1]
    if shared:
        says = f"{', '.join(shared)} share a CRM user: their leads cannot be told apart there."
        findings.append(Finding("reps", Verdict.WARNING, says, "Give each rep a user of their own."))
    if not findings:
        findings.append(Finding("reps", Verdict.OK, f"All {len(people)} reps have an active CRM user of their own."))
    return findings


def named(built: Sequence[asking.Built]) -> str:
    return ", ".join(f"{each.name} ({each.object})" for each in built)
