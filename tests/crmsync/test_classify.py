"""The table of errors, in Salesforce's own words, is the test."""

import pytest

from crmsync.classify import classify, is_gone
from crmsync.errors import NO_ANSWER, NO_PARENT, NOT_CONNECTED, NOT_PROCESSED, Fault

DLRS = (
    "dlrs_X: execution of AfterUpdate caused by: System.DmlException: Update failed. First exception on row 0 with id "
    "001000000000001AAA; first error: {inner}: [] Class.dlrs.RollupService: line 1"
)
LOCKED = "unable to obtain exclusive access to this record or 1 records: a0r000000000001AAA"

TABLE = [
    ("contention", Fault("UNABLE_TO_LOCK_ROW", "unable to obtain exclusive access to this record")),
    ("contention", Fault("UNABLE_TO_LOCK_ROW", LOCKED, status=400)),
    ("contention", Fault("CANNOT_INSERT_UPDATE_ACTIVATE_ENTITY", DLRS.format(inner=f"UNABLE_TO_LOCK_ROW, {LOCKED}"))),
    ("contention", Fault("System.DmlException", f"Update failed. first error: UNABLE_TO_LOCK_ROW, {LOCKED}")),
    ("contention", Fault("CANNOT_EXECUTE_FLOW_TRIGGER", f"The flow failed: {LOCKED}")),
    ("contention", Fault("UNKNOWN_EXCEPTION", f"UNABLE_TO_LOCK_ROW: {LOCKED}")),
    ("contention", Fault("APEX_ERROR", f"System.QueryException: Record Currently Unavailable: {LOCKED}")),
    ("contention", Fault("FIELD_CUSTOM_VALIDATION_EXCEPTION", DLRS.format(inner=f"UNABLE_TO_LOCK_ROW, {LOCKED}"))),
    ("contention", Fault("TooManyLockFailure", "Too many lock failures while processing the current batch")),
    ("contention", Fault("UNKNOWN_EXCEPTION", "Group membership operation already in progress")),
    ("contention", Fault("UNKNOWN_EXCEPTION", "could not acquire lock")),
    ("collateral", Fault("ALL_OR_NONE_OPERATION_ROLLED_BACK", "Record rolled back because not all records were valid")),
    ("collateral", Fault("PROCESSING_HALTED")),
    (
        "rate_limit org_wide",
        Fault("REQUEST_LIMIT_EXCEEDED", "ConcurrentRequests (Concurrent API Requests) Limit exceeded.", status=403),
    ),
    ("rate_limit org_wide", Fault("REQUEST_LIMIT_EXCEEDED", "TotalRequests Limit exceeded.", status=403)),
    ("rate_limit org_wide", Fault("REQUEST_LIMIT_EXCEEDED", "ConcurrentPerOrgLongTxn Limit exceeded", status=503)),
    ("rate_limit org_wide", Fault("", "Too many requests", status=429)),
    ("rate_limit org_wide", Fault("LOGIN_RATE_EXCEEDED", status=403)),
    ("rate_limit org_wide", Fault("STORAGE_LIMIT_EXCEEDED", "storage limit exceeded")),
    ("auth org_wide", Fault("INVALID_SESSION_ID", "Session expired or invalid", status=401)),
    (
        "auth org_wide",
        Fault("INVALID_SESSION_ID", "This session is not valid for use with the REST API", status=401),
    ),
    ("auth org_wide", Fault("", "<html>Unauthorized</html>", status=401)),
    ("auth org_wide", Fault("invalid_grant", "authentication failure")),
    ("auth org_wide", Fault("invalid_client", "invalid client credentials")),
    ("auth org_wide", Fault("API_DISABLED_FOR_ORG", "API is not enabled for this Organization", status=403)),
    ("auth org_wide", Fault("UNSUPPORTED_API_VERSION", "The API version is retired", status=410)),
    ("transient org_wide may_have_arrived", Fault("", "<html>Service Unavailable</html>", status=503)),
    ("transient org_wide may_have_arrived", Fault("", "<html>Bad Gateway</html>", status=502)),
    ("transient org_wide may_have_arrived", Fault("SERVER_UNAVAILABLE", "Server unavailable", status=503)),
    ("transient org_wide may_have_arrived", Fault("UNKNOWN_EXCEPTION", "An unexpected error occurred", status=500)),
    ("transient", Fault("UNKNOWN_EXCEPTION", "An unexpected error occurred")),
    ("transient org_wide", Fault(NOT_CONNECTED, "NewConnectionError")),
    ("dependency", Fault(NO_PARENT, "The CRM has no Lead one yet, as far as Rota knows.")),
    ("unanswered may_have_arrived", Fault(NO_ANSWER, "ReadTimeout")),
    ("governor", Fault("LIMIT_EXCEEDED", "System.LimitException: Too many SOQL queries: 101")),
    (
        "governor",
        Fault("CANNOT_INSERT_UPDATE_ACTIVATE_ENTITY", "X: System.LimitException: Apex CPU time limit exceeded"),
    ),
    ("governor", Fault("CANNOT_INSERT_UPDATE_ACTIVATE_ENTITY", "X: Too many query rows: 50001")),
    ("governor", Fault("UNKNOWN_EXCEPTION", "Too many future calls: 51")),
    ("governor", Fault("INVALID", "Cannot have more than 10 chunks in a single operation.")),
    (
        "permanent",
        Fault("CANNOT_INSERT_UPDATE_ACTIVATE_ENTITY", "caused by: System.ListException: Duplicate id in list"),
    ),
    (
        "permanent",
        Fault("CANNOT_INSERT_UPDATE_ACTIVATE_ENTITY", DLRS.format(inner="FIELD_CUSTOM_VALIDATION_EXCEPTION, No.")),
    ),
    ("permanent", Fault("FIELD_CUSTOM_VALIDATION_EXCEPTION", "Say why")),
    ("permanent", Fault("FIELD_CUSTOM_VALIDATION_EXCEPTION", "Ask IT if you see UNABLE_TO_LOCK_ROW or Too many SOQL")),
    ("permanent", Fault("STRING_TOO_LONG", "Company: data value too large: unable to obtain exclusive access")),
    ("permanent", Fault("REQUIRED_FIELD_MISSING", "Required fields are missing: [LastName]", ("LastName",))),
    ("permanent", Fault("INVALID_EMAIL_ADDRESS", "Email: invalid email address: x")),
    ("permanent", Fault("INVALID_OR_NULL_FOR_RESTRICTED_PICKLIST", "bad value for restricted picklist field: x")),
    ("permanent", Fault("INVALID_TYPE_ON_FIELD_IN_RECORD", "value not of required type: x")),
    ("permanent", Fault("INVALID_FIELD", "No such column 'x' on sobject of type Lead", status=400)),
    ("permanent", Fault("INVALID_FIELD_FOR_INSERT_UPDATE", "Unable to create/update fields: Id")),
    ("permanent", Fault("NUMBER_OUTSIDE_VALID_RANGE", "value outside of valid range")),
    ("permanent", Fault("MALFORMED_ID", "Owner ID: id value of incorrect type: 1")),
    ("permanent", Fault("JSON_PARSER_ERROR", "Unexpected character", status=400)),
    ("permanent", Fault("INSUFFICIENT_ACCESS_ON_CROSS_REFERENCE_ENTITY", "insufficient access rights")),
    ("permanent", Fault("INSUFFICIENT_ACCESS_OR_READONLY", "insufficient access rights on object id")),
    ("permanent", Fault("CIRCULAR_DEPENDENCY", "attempt to violate hierarchy constraints")),
    ("permanent", Fault("DUPLICATES_DETECTED", "Use one of these records?")),
    ("permanent", Fault("ENTITY_IS_DELETED", "entity is deleted")),
    ("permanent", Fault("NOT_FOUND", "The requested resource does not exist", status=404)),
    ("permanent", Fault("DUPLICATE_EXTERNAL_ID", "More than one record has this external id.", status=300)),
    ("dependency", Fault("INVALID_CROSS_REFERENCE_KEY", "invalid cross reference id")),
    (
        "dependency",
        Fault("INVALID_FIELD", "Foreign key external ID: acme not found for field Rota_Id__c in entity Account"),
    ),
    (
        "race",
        Fault("DUPLICATE_VALUE", "duplicate value found: Rota_Id__c duplicates value on record with id: 00Q1"),
    ),
    ("race", Fault("DUPLICATE_VALUE", "Duplicate external id specified: x")),
    (
        "permanent",
        Fault("DUPLICATE_VALUE", "duplicate value found: Username duplicates value on record with id: 0051"),
    ),
    ("collateral", Fault(NOT_PROCESSED, "The job did not come to this row.")),
    ("rate_limit bulk_only", Fault("ExceededQuota", "ApiBatchItems Limit exceeded.")),
    ("rate_limit bulk_only", Fault("EXCEEDEDQUOTA", "The batches of the last 24 hours are used up", status=400)),
    ("rate_limit org_wide", Fault("LOGIN_RATE_EXCEEDED", "Login Rate Exceeded")),
    ("auth org_wide", Fault("InvalidSessionId", "Invalid session id", status=400)),
    (
        "auth org_wide",
        Fault("INVALID_LOGIN", "INVALID_LOGIN: Invalid username, password, security token; or locked out"),
    ),
    ("auth org_wide", Fault("LOGIN_MUST_USE_SECURITY_TOKEN", "LOGIN_MUST_USE_SECURITY_TOKEN: Invalid username")),
    ("auth org_wide", Fault("INVALID_OPERATION_WITH_EXPIRED_PASSWORD", "The users password has expired")),
    ("auth org_wide", Fault("FeatureNotEnabled", "Async API not enabled", status=400)),
    ("auth org_wide", Fault("", "Gone", status=410)),
    ("contention", Fault("TOOMANYLOCKFAILURE", "Too many lock failure 200 Trying again later.")),
    ("transient", Fault("InternalServerError", "Retried more than ten times")),
    ("transient", Fault("Timeout", "Batch timed out")),
    ("transient", Fault("QUERY_TIMEOUT", "Your query request was running for too long.")),
    ("transient", Fault("OPERATION_TOO_LARGE", "exceeded 20000 distinct ids")),
    ("permanent", Fault("InvalidBatch", "Field name not found : No_Such__c")),
    ("permanent", Fault("ClientInputError", "LineEnding is invalid on user data")),
    ("permanent", Fault("INVALIDJOB", "InvalidJob : Unable to find object: Nothing__c", status=400)),
    ("unknown", Fault("SOMETHING_NEW", "nobody has seen this before")),
    ("unknown", Fault("", "")),
]


@pytest.mark.parametrize(("wanted", "fault"), TABLE, ids=lambda value: getattr(value, "code", None) or str(value))
def test_each_error_means_what_the_table_says(wanted: str, fault: Fault) -> None:
    verdict = classify(fault, external_id_field="Rota_Id__c")
    flags = [name for name in ("org_wide", "may_have_arrived", "bulk_only") if getattr(verdict, name)]
    assert " ".join([verdict.kind, *flags]) == wanted


def test_the_status_alone_never_decides_against_a_code() -> None:
    for status in (0, 400, 403, 409, 500, 503):
        fault = Fault("UNABLE_TO_LOCK_ROW", LOCKED, status=status)
        assert classify(fault, external_id_field="Rota_Id__c").kind == "contention"


@pytest.mark.parametrize(
    ("code", "text", "gone"),
    [
        ("ENTITY_IS_DELETED", "entity is deleted", True),
        ("NOT_FOUND", "The requested resource does not exist", True),
        ("INVALID_CROSS_REFERENCE_KEY", "invalid cross reference id", True),
        ("UNABLE_TO_LOCK_ROW", LOCKED, False),
        ("DELETE_FAILED", "Your attempt to delete Acme could not be completed because it has opportunities", False),
        ("INSUFFICIENT_ACCESS_OR_READONLY", "insufficient access rights on object id", False),
    ],
)
def test_a_delete_is_done_where_the_record_is_not_there_and_only_there(code: str, text: str, gone: bool) -> None:
    assert is_gone(Fault(code, text)) is gone
