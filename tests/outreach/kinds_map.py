"""Which test shows each invariant, and each kind of fault that others have reported; or why a kind cannot occur here.

The invariants are those of the sender's design (I1 to I17). The numbers of the kinds are those of the list of public
reports that Rota's sender was designed against: A mails doubled or lost, B leases and crashes, C the database, D order
and poison, E SMTP and addresses.
"""

from dataclasses import dataclass

LAUNCHING = "tests/outreach/test_launching.py"
SENDER = "tests/outreach/test_sender.py"
SETTLING = "tests/outreach/test_settling.py"
GATE = "tests/outreach/test_gate.py"
SMTP = "tests/outreach/test_smtp.py"
MAIL = "tests/outreach/test_mail.py"
CHECKS = "tests/outreach/test_checks.py"
ROWS = "tests/outreach/test_constraints.py"
WHOLE = "tests/outreach/test_invariants.py"
CLAIMS = "tests/races/test_outreach_claims.py"
LAYERS = "tests/races/test_outreach_layers.py"
SENDERS = "tests/races/test_outreach_senders.py"
KILLS = "tests/drills/test_outreach_kills.py"
STOPS = "tests/drills/test_outreach_stops.py"
UNSUBSCRIBE = "tests/outreach/test_unsubscribe.py"


@dataclass(frozen=True)
class CannotOccur:
    """Why a kind has no test."""

    because: str


INVARIANTS: dict[str, tuple[str, ...]] = {
    "I1": (
        f"{KILLS}::test_a_sender_killed_there_mails_nobody_twice_and_loses_nobody_i1",
        f"{KILLS}::test_a_sender_stopped_there_beyond_its_lease_mails_nobody_twice_i1",
    ),
    "I2": (
        f"{CLAIMS}::test_claims_taken_at_once_are_disjoint_and_complete_i2",
        f"{CLAIMS}::test_a_claim_never_exceeds_its_limit_under_stale_statistics_and_nested_loops_i2",
    ),
    "I3": (
        f"{GATE}::test_a_message_of_another_claim_does_not_pass_i3",
        f"{GATE}::test_an_expired_lease_does_not_pass_whatever_the_workers_clock_says_i3",
    ),
    "I4": (
        f"{SETTLING}::test_the_reaper_makes_due_what_was_not_begun_and_puts_in_doubt_what_was_i4",
        f"{SETTLING}::test_send_again_asks_why_and_unlocks_only_after_the_longest_hand_over_i4",
    ),
    "I5": (
        f"{SETTLING}::test_an_outcome_settles_try_and_message_together_i5",
        f"{WHOLE}::test_sent_messages_and_accepted_tries_are_the_same_and_no_lead_is_missing_i5_i9_i10",
    ),
    "I6": (
        f"{SETTLING}::test_settle_before_reap_leaves_the_reaper_nothing_i6",
        f"{SETTLING}::test_reap_before_settle_is_settled_by_the_late_report_i6",
    ),
    "I7": (
        f"{CLAIMS}::test_two_reapers_at_once_end_each_claim_once_i7",
        f"{SETTLING}::test_each_expiry_is_logged_once_with_the_losers_name_i7",
    ),
    "I8": (
        f"{SETTLING}::test_a_stale_worker_changes_nothing_i8",
        f"{SETTLING}::test_a_later_claim_is_a_larger_number_and_no_token_comes_twice_i8",
    ),
    "I9": (f"{WHOLE}::test_sent_messages_and_accepted_tries_are_the_same_and_no_lead_is_missing_i5_i9_i10",),
    "I10": (f"{SETTLING}::test_the_events_of_every_message_play_back_to_its_status_i10",),
    "I11": (f"{LAYERS}::test_an_unsubscribe_that_was_committed_before_the_gate_means_no_mail_i11",),
    "I12": (
        f"{SENDER}::test_one_refused_row_leaves_the_rest_of_the_batch_alone_i12",
        f"{SENDER}::test_a_row_that_cannot_be_written_fails_alone_i12",
    ),
    "I13": (f"{WHOLE}::test_each_sent_step_reaches_the_crm_as_one_version_in_order_i13",),
    "I14": (f"{SETTLING}::test_what_is_in_flight_can_be_resolved_by_nobody_i14",),
    "I15": (f"{WHOLE}::test_no_transaction_is_open_while_the_relay_is_spoken_to_i15",),
    "I16": (f"{CLAIMS}::test_the_claim_reads_the_partial_index_and_no_more_rows_than_it_takes_i16",),
    "I17": (f"{WHOLE}::test_a_restored_or_promoted_database_starts_with_sending_off_until_somebody_confirms_i17",),
}

KINDS: dict[int, str | CannotOccur] = {
    # A: the same mail twice, or lost
    1: f"{CLAIMS}::test_claims_taken_at_once_are_disjoint_and_complete_i2",
    2: f"{SENDERS}::test_two_senders_that_start_together_on_fifty_rows_deliver_fifty",
    4: f"{LAUNCHING}::test_launching_twice_and_enrolling_twice_adds_nobody_twice",
    5: f"{SENDERS}::test_a_sender_woken_before_the_launch_is_committed_finds_nothing_and_the_next_sends",
    7: f"{SENDER}::test_whoever_does_not_get_the_job_lock_goes_home_and_says_so",
    8: f"{ROWS}::test_no_second_intent_while_the_first_may_have_gone_out",
    10: f"{LAUNCHING}::test_one_address_gets_one_mail_whatever_number_of_leads_has_it",
    11: f"{SENDER}::test_one_refused_row_leaves_the_rest_of_the_batch_alone_i12",
    13: f"{SENDER}::test_the_next_step_comes_after_its_delay_and_only_after_the_first_was_sent",
    14: f"{SENDERS}::test_pause_and_resume_in_the_middle_mail_the_rest_and_nobody_again",
    16: f"{LAUNCHING}::test_a_campaign_with_a_mail_in_doubt_is_not_finished",
    17: f"{STOPS}::test_sigterm_in_the_middle_of_a_campaign_finishes_nothing_early_and_loses_nobody",
    19: f"{SMTP}::test_there_is_one_command_of_each_kind_and_no_retry",
    20: f"{CLAIMS}::test_claims_taken_at_once_are_disjoint_and_complete_i2",
    22: f"{SETTLING}::test_each_expiry_is_logged_once_with_the_losers_name_i7",
    23: f"{SMTP}::test_each_fault_is_definite_or_in_doubt_as_its_phase_says",
    25: f"{SMTP}::test_there_is_one_command_of_each_kind_and_no_retry",
    26: f"{SMTP}::test_a_reply_is_read_by_its_phase",
    28: f"{SETTLING}::test_a_claim_whose_lease_runs_is_not_reaped_i9",
    29: f"{SETTLING}::test_an_outcome_settles_try_and_message_together_i5",
    31: f"{MAIL}::test_the_message_id_is_the_same_at_every_try_and_another_for_every_step_and_address",
    32: f"{SMTP}::test_each_fault_is_definite_or_in_doubt_as_its_phase_says",
    # B: leases, the reaper, crashes
    34: f"{GATE}::test_the_gate_renews_a_lease_of_which_less_than_half_is_left",
    35: f"{SETTLING}::test_settle_before_reap_leaves_the_reaper_nothing_i6",
    37: "tests/config/test_home.py::test_campaign_mail_is_on_the_page_once_there_is_a_campaign",
    38: f"{SETTLING}::test_reap_before_settle_is_settled_by_the_late_report_i6",
    40: CannotOccur("there is no register of workers: a claim names its worker and expires by itself"),
    41: f"{GATE}::test_the_gate_renews_a_lease_of_which_less_than_half_is_left",
    43: f"{CHECKS}::test_a_lease_shorter_than_the_longest_batch_is_refused_at_start",
    44: f"{SENDERS}::test_a_reaper_that_hangs_holding_its_rows_does_not_hold_up_the_next",
    46: f"{SETTLING}::test_the_reaper_makes_due_what_was_not_begun_and_puts_in_doubt_what_was_i4",
    47: f"{SETTLING}::test_a_message_on_whose_claims_three_workers_died_is_set_aside_and_takes_no_other_down",
    49: f"{CHECKS}::test_a_task_timeout_shorter_than_the_longest_batch_is_refused_at_start",
    50: f"{SENDERS}::test_two_senders_that_start_together_on_fifty_rows_deliver_fifty",
    52: "tests/config/test_checks.py::test_a_queue_that_retries_by_itself_is_refused",
    53: CannotOccur("no task waits in the broker for its time: what is due later is a row of the campaign's own table"),
    55: f"{SENDERS}::test_a_database_that_drops_the_sender_after_the_relay_took_the_mail_costs_no_second_mail",
    56: f"{GATE}::test_the_gate_renews_a_lease_of_which_less_than_half_is_left",
    58: f"{GATE}::test_an_expired_lease_does_not_pass_whatever_the_workers_clock_says_i3",
    # C: the database
    59: f"{CLAIMS}::test_a_claim_never_exceeds_its_limit_under_stale_statistics_and_nested_loops_i2",
    61: f"{CLAIMS}::test_the_claim_reads_the_partial_index_and_no_more_rows_than_it_takes_i16",
    62: f"{ROWS}::test_hot_tables_have_storage_settings_of_their_own",
    64: f"{KILLS}::test_a_sender_stopped_there_beyond_its_lease_mails_nobody_twice_i1",
    65: f"{WHOLE}::test_no_transaction_is_open_while_the_relay_is_spoken_to_i15",
    67: f"{CLAIMS}::test_of_many_who_want_the_job_lock_one_gets_it",
    68: f"{LAYERS}::test_with_job_lock_and_claims_switched_off_in_turn_and_together_nobody_is_mailed_twice",
    # D: order, poison, the outbox, uniqueness
    70: f"{SENDER}::test_one_refused_row_leaves_the_rest_of_the_batch_alone_i12",
    71: f"{WHOLE}::test_no_transaction_is_open_while_the_relay_is_spoken_to_i15",
    73: f"{SENDER}::test_one_refused_row_leaves_the_rest_of_the_batch_alone_i12",
    74: f"{SENDER}::test_a_row_that_cannot_be_written_fails_alone_i12",
    76: CannotOccur("messages share no lock: one that is due later holds up no other"),
    77: f"{SENDER}::test_the_next_step_comes_after_its_delay_and_only_after_the_first_was_sent",
    79: "tests/crmsync/test_retry.py::test_what_no_newer_version_set_is_sent_again_under_the_persons_name",
    80: CannotOccur("no action resets a message's counters: sending again is a new try beside the old ones"),
    82: f"{SENDERS}::test_a_launch_that_waits_for_one_that_is_rolled_back_enrols_in_its_place",
    83: f"{SETTLING}::test_what_is_in_flight_can_be_resolved_by_nobody_i14",
    # E: SMTP and addresses
    85: f"{SMTP}::test_each_fault_is_definite_or_in_doubt_as_its_phase_says",
    86: f"{SENDER}::test_one_refused_row_leaves_the_rest_of_the_batch_alone_i12",
    88: f"{SENDER}::test_refused_credentials_stop_the_sender_and_fail_no_lead",
    89: f"{SENDER}::test_a_relay_that_hangs_up_after_two_mails_is_called_again",
    91: f"{SMTP}::test_an_idle_connection_that_died_is_replaced_before_the_mail",
    92: f"{MAIL}::test_a_value_cannot_grow_into_a_header",
    94: f"{MAIL}::test_a_domain_outside_ascii_travels_as_idna_2008_and_has_one_key",
    95: f"{MAIL}::test_capitals_make_no_second_person_and_a_tag_does",
    97: f"{UNSUBSCRIBE}::test_get_and_head_change_nothing",
    98: f"{UNSUBSCRIBE}::test_one_click_without_a_cookie_suppresses_claimed_messages_included_and_is_idempotent",
    100: "tests/outreach/test_feedback.py::test_the_same_report_told_many_times_at_once_is_kept_and_acts_once",
    101: f"{GATE}::test_an_unsubscribe_takes_out_claimed_messages_at_once",
}
