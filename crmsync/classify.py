"""What an error of the CRM means for the change it stopped: wait, pause, shrink, or give up.

One pure function, by the error's code and its words, row by row; the HTTP status decides only where there is neither,
and the exception's class never. The rows of its test are the table; Salesforce's own words are in quotes there.
"""

import re
from dataclasses import dataclass

from crmsync.errors import NO_ANSWER, NO_PARENT, NOT_CONNECTED, NOT_PROCESSED, Fault
from crmsync.models import FailureKind as Kind


@dataclass(frozen=True, slots=True)
class Verdict:
    kind: Kind
    org_wide: bool = False  # the whole org will not take writes for a while: pause it
    may_have_arrived: bool = False  # the org may have committed, or may still commit, what it did not confirm
    bulk_only: bool = False  # the org takes no more bulk jobs today; calls go on


def codes(*names: str) -> frozenset[str]:
    """In lower case: the Bulk API guide writes InvalidJobState, the org says INVALIDJOBSTATE."""
    return frozenset(name.casefold() for name in names)


LOCK_WORDS = re.compile(
    r"UNABLE_TO_LOCK_ROW|unable to obtain exclusive access|TooManyLockFailure|Too many lock failure"
    r"|Group membership operation already in progress|could not acquire lock",
    re.IGNORECASE,
)
GOVERNOR_WORDS = re.compile(
    r"System\.LimitException|CPU time limit exceeded|Too many (SOQL|DML|query rows|future calls|queueable)"
    r"|Cannot have more than 10 chunks",
    re.IGNORECASE,
)
RACE_WORDS = re.compile(r"Duplicate external id specified", re.IGNORECASE)
MISSING_PARENT_WORDS = re.compile(r"Foreign key external ID", re.IGNORECASE)
LOGIN_WORDS = re.compile(r"not valid for use with the (REST )?API", re.IGNORECASE)
# "...; first error: UNABLE_TO_LOCK_ROW, unable to obtain ...": the innermost is what happened, the rest is wrapping.
INNER = re.compile(r"first error:\s*([A-Z][A-Z0-9_]+)\s*[,:]\s*", re.IGNORECASE)

# Codes that say only "something in a trigger or flow"; what it was is in the words.
WRAPPERS = codes(
    "CANNOT_INSERT_UPDATE_ACTIVATE_ENTITY",
    "CANNOT_EXECUTE_FLOW_TRIGGER",
    "UNKNOWN_EXCEPTION",
    "APEX_ERROR",
    "System.DmlException",
)
LOCKED = codes("UNABLE_TO_LOCK_ROW", "TooManyLockFailure")
CONVERTED = "CANNOT_UPDATE_CONVERTED_LEAD"  # it has become a contact, which is written instead
COLLATERAL = codes("ALL_OR_NONE_OPERATION_ROLLED_BACK", "PROCESSING_HALTED", NOT_PROCESSED)
LIMITS = codes("REQUEST_LIMIT_EXCEEDED", "LOGIN_RATE_EXCEEDED", "STORAGE_LIMIT_EXCEEDED")
REFUSED_LOGIN = codes(
    "INVALID_SESSION_ID", "InvalidSessionId", "INVALID_LOGIN", "INVALID_CLIENT", "INVALID AUTH",
    "API_DISABLED_FOR_ORG", "API_CURRENTLY_DISABLED", "FeatureNotEnabled", "UNSUPPORTED_API_VERSION", "InvalidVersion",
    "INACTIVE_ORG_OR_USER", "LOGIN_MUST_USE_SECURITY_TOKEN", "PASSWORD_LOCKOUT", "ORG_LOCKED",
    "INVALID_OPERATION_WITH_EXPIRED_PASSWORD", "LOGIN_DURING_RESTRICTED_TIME", "LOGIN_DURING_RESTRICTED_DOMAIN",
    "invalid_grant", "invalid_client", "invalid_client_id", "invalid_app_access", "inactive_user", "inactive_org",
    "unauthorized_client", "unsupported_grant_type", "invalid_request",
)  # fmt: skip
TEMPORARY = codes(
    "SERVER_UNAVAILABLE", "UNKNOWN_EXCEPTION", "QUERY_TIMEOUT", "OPERATION_TOO_LARGE", "INTERNAL_SERVER_ERROR",
    "unknown_error", "InternalServerError", "Timeout", "Unknown",
)  # fmt: skip
REFUSED = codes(
    "FIELD_CUSTOM_VALIDATION_EXCEPTION", "FIELD_FILTER_VALIDATION_EXCEPTION", "REQUIRED_FIELD_MISSING",
    "STRING_TOO_LONG", "INVALID_EMAIL_ADDRESS", "INVALID_OR_NULL_FOR_RESTRICTED_PICKLIST",
    "INVALID_TYPE_ON_FIELD_IN_RECORD", "INVALID_FIELD", "INVALID_FIELD_FOR_INSERT_UPDATE", "INVALID_TYPE",
    "NUMBER_OUTSIDE_VALID_RANGE", "MALFORMED_ID", "JSON_PARSER_ERROR", "CIRCULAR_DEPENDENCY", "DUPLICATE_VALUE",
    "DUPLICATE_EXTERNAL_ID", "DUPLICATES_DETECTED", "ENTITY_IS_DELETED", "NOT_FOUND", "METHOD_NOT_ALLOWED",
    "INVALID_OPERATION", "FIELD_INTEGRITY_EXCEPTION", "INACTIVE_OWNER_OR_USER", "TRANSFER_REQUIRES_READ",
    "CANNOT_INSERT_UPDATE_ACTIVATE_ENTITY", "CANNOT_EXECUTE_FLOW_TRIGGER", "APEX_ERROR", "System.DmlException",
    "NO_MAPPING", "MISSING_ARGUMENT", "DELETE_FAILED", "INVALID_CSV_ROW",
    "InvalidBatch", "InvalidJob", "ClientInputError", "InvalidEntity", "InvalidUser",
)  # fmt: skip


def classify(fault: Fault, *, external_id_field: str) -> Verdict:
    code, words = fault.code.casefold(), fault.text
    if fault.code == NO_ANSWER:
        return Verdict(Kind.UNANSWERED, may_have_arrived=True)
    if fault.code == NO_PARENT:
        return Verdict(Kind.DEPENDENCY)
    if fault.code == NOT_CONNECTED:
        return Verdict(Kind.TRANSIENT, org_wide=True)
    if code == "field_custom_validation_exception" or code in WRAPPERS:
        inner = list(INNER.finditer(words))
        if inner:  # a person's validation text never has this form; a trigger that reports its own failure does
            code, words = inner[-1][1].casefold(), words[inner[-1].end() :]
    refused = code in REFUSED and code not in WRAPPERS
    if code in LOCKED or (not refused and LOCK_WORDS.search(words)):
        return Verdict(Kind.CONTENTION)
    if code in COLLATERAL:
        return Verdict(Kind.COLLATERAL)
    if code == "exceededquota":
        return Verdict(Kind.RATE_LIMIT, bulk_only=True)
    if code in LIMITS or (fault.status == 429 and not code):
        return Verdict(Kind.RATE_LIMIT, org_wide=True)
    if code in REFUSED_LOGIN or (code not in REFUSED and LOGIN_WORDS.search(words)):
        return Verdict(Kind.AUTH, org_wide=True)
    if code == "limit_exceeded" or (not refused and GOVERNOR_WORDS.search(words)):
        return Verdict(Kind.GOVERNOR)
    if code == "invalid_cross_reference_key" or (code == "invalid_field" and MISSING_PARENT_WORDS.search(words)):
        return Verdict(Kind.DEPENDENCY)
    if code == "duplicate_value" and (RACE_WORDS.search(words) or same_key(words, external_id_field)):
        return Verdict(Kind.RACE)
    if fault.code == CONVERTED:
        return Verdict(Kind.RACE)
    if code in TEMPORARY:
        return Verdict(Kind.TRANSIENT, org_wide=fault.status >= 500, may_have_arrived=fault.status >= 500)
    if code in REFUSED or code.startswith("insufficient_access"):
        return Verdict(Kind.PERMANENT)
    return by_status(fault)


def is_gone(fault: Fault) -> bool:
    """The record is not there (any more): a delete of it is done."""
    code = fault.code.casefold()
    return code in ("not_found", "entity_is_deleted") or (
        code == "invalid_cross_reference_key" and not fault.fields and "invalid cross reference id" in fault.text
    )


def by_status(fault: Fault) -> Verdict:
    """For answers whose code says nothing to us: a proxy's page, a code that is new."""
    if fault.status >= 500:
        return Verdict(Kind.TRANSIENT, org_wide=True, may_have_arrived=True)
    if fault.status == 401 or (fault.status == 410 and not fault.code):
        return Verdict(Kind.AUTH, org_wide=True)
    if fault.status == 300:
        return Verdict(Kind.PERMANENT)
    return Verdict(Kind.UNKNOWN)


def same_key(words: str, external_id_field: str) -> bool:
    """`duplicate value found: Rota_Id__c duplicates value on record with id: ...`: somebody created it meanwhile."""
    return re.search(rf"duplicate value found:\s*{re.escape(external_id_field)}\b", words, re.IGNORECASE) is not None
