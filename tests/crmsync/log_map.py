"""The public reports behind Rota, by number, and the test that shows the right behaviour for each kind.

Reports: simple-salesforce, jsforce, Data Loader, CumulusCI, DLRS, NPSP and others; what each is about stands beside it.
A test checks that every test named here exists.
"""

JOBS, LOG, DELIVERY = "tests/crmsync/test_jobs.py", "tests/crmsync/test_log.py", "tests/crmsync/test_delivery.py"
TABLE = "tests/crmsync/test_classify.py::test_each_error_means_what_the_table_says"
LANES = "tests/races/test_crm_lanes.py::test_eight_workers_deliver_each_row_once_and_never_wait_for_each_other"
KEYS = f"{JOBS}::test_each_row_of_a_job_gets_the_outcome_of_its_own_key"
VALUES = f"{JOBS}::test_a_value_arrives_the_same_by_every_road"
MATRIX = "tests/crmsync/test_fault_matrix.py::test_whatever_the_org_does_each_record_ends_once_and_newest"
HALVES = f"{LOG}::test_a_governor_limit_halves_the_chunk_until_it_passes"
LOCKED = f"{LOG}::test_a_row_that_somebody_holds_stays_pending_and_lands_when_he_lets_go"
EXPIRY = f"{JOBS}::test_a_session_that_ends_mid_job_is_renewed_and_the_job_goes_on"
NEIGHBOURS = f"{DELIVERY}::test_a_refused_row_dies_at_once_with_its_field_and_its_neighbours_land"
ABORTED = f"{JOBS}::test_an_aborted_job_is_read_and_only_what_it_did_not_come_to_is_sent_again"
FAILED = f"{JOBS}::test_a_failed_job_keeps_its_id_and_what_it_saved_and_only_the_rest_is_sent_again"

LOG_MAP: dict[int, str] = {
    1: LANES,  # children of one parent in parallel batches
    2: f"{DELIVERY}::test_a_lock_failure_waits_on_the_parent_and_sends_back_only_the_failed_rows",
    4: f"{LOG}::test_a_lock_on_a_record_we_never_heard_of_is_still_a_lock",
    5: TABLE,  # a lock failure wrapped three times
    7: TABLE,  # System.DmlException with the lock in its words
    8: TABLE,  # the same wrapping around something permanent
    10: LANES,  # two events, one parent
    11: f"{JOBS}::test_a_job_keeps_its_lanes_past_every_lease_until_it_is_read",
    13: HALVES,  # too many query rows
    14: "tests/crmsync/test_chunks.py::test_a_chunk_is_of_one_object_and_led_by_the_oldest",
    16: LOCKED,  # a lock failure that nobody tried again
    17: HALVES,  # too many future calls
    19: LOCKED,  # a person saves the same record
    20: LOCKED,  # logged and never sent again
    22: "tests/crmsync/test_classify.py::test_the_status_alone_never_decides_against_a_code",
    23: f"{JOBS}::test_too_many_lock_failures_end_the_job_and_the_rows_go_on_by_calls_then_serially",
    25: NEIGHBOURS,  # one bad record fails 200
    26: f"{JOBS}::test_a_serial_batch_that_completes_with_a_message_is_judged_by_its_rows",
    28: f"{DELIVERY}::test_an_answer_that_got_lost_is_sent_again_and_makes_no_second_record",
    29: KEYS,  # results in another order
    31: f"{JOBS}::test_a_text_that_csv_would_take_for_nothing_goes_by_a_call_instead",
    32: "tests/crmsync/test_outbox.py::test_what_no_crm_could_take_is_refused_at_the_door",
    34: f"{JOBS}::test_a_job_that_never_ends_is_aborted_its_outcomes_read_and_the_rest_sent_again",
    35: FAILED,  # retried more than n times, job id lost
    37: KEYS,  # some rows missing, nobody says which
    38: f"{JOBS}::test_a_column_that_the_org_does_not_know_blames_the_rows_that_have_it",
    40: EXPIRY,
    41: EXPIRY,  # Bulk API 1.0 says so with a 400
    43: "tests/crmsync/test_gateway.py::test_a_session_that_stays_refused_is_told_after_two_calls",
    44: "tests/crmsync/test_gateway.py::test_a_stalled_org_is_given_up_within_the_deadline",
    46: f"{LOG}::test_a_call_without_an_answer_is_not_sent_again_by_itself",
    47: MATRIX,  # the client gives up, the org commits later
    49: TABLE,  # more than one record has the key
    50: "tests/crmsync/test_gateway.py::test_any_external_id_reaches_the_record_it_names",
    52: ABORTED,  # what an aborted job committed stays
    53: FAILED,  # a failure swallowed while polling
    55: VALUES,  # a newline splits a record
    56: VALUES,  # UTF-8 taken for Latin-1
    58: f"{JOBS}::test_a_job_is_cut_at_its_bytes_and_the_rest_follows",
    59: "tests/crmsync/test_bulk_csv.py::test_a_value_has_one_text",
    61: "tests/crmsync/test_gateway.py::test_the_assignment_rule_header_survives_the_renewal",
    62: "tests/crmsync/test_limits.py::test_the_two_request_limits_are_two_things",
    64: NEIGHBOURS,  # mixed results of one Collections call
    65: f"{DELIVERY}::test_two_hundred_rows_are_one_request_and_each_gets_its_own_id",
    67: KEYS,  # the header taken for a row
    68: f"{LOG}::test_a_retired_api_version_pauses_the_org_and_says_so",
    70: LANES,  # many workers of 200 rows
    71: LANES,  # a thousand contacts of one account
}
