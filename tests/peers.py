"""The kinds of fault that users of other routing products report in public, and the test that shows each going right.

Numbers are those of our log of public bug reports; the words say what has to hold here.
"""

IMPORTS, READER = "tests/routing/test_imports.py", "tests/crmsync/csvfile/test_reading.py"
TURNS, PEERS, HOURS = "tests/routing/test_turns.py", "tests/routing/test_peers.py", "tests/routing/test_hours.py"
FAIR, SAME, SPANS = "tests/races/test_fair_turn.py", "tests/races/test_same_lead.py", "tests/routing/test_spans.py"
IN = "tests/routing/test_inbound.py"

SHOWN: dict[int, str] = {
    # two reps, repeats, skew, races
    1: f"{FAIR}::test_thirty_leads_at_once_go_to_the_reps_in_fair_turn",
    2: f"{TURNS}::test_leads_that_come_one_by_one_and_leads_that_come_at_once_go_the_same_way",
    4: f"{PEERS}::test_two_reps_with_room_for_one_lead_each_take_one_each_and_the_third_waits_in_sight",
    5: f"{TURNS}::test_runs_of_one_lead_each_do_not_all_go_to_the_oldest_member",
    7: f"{TURNS}::test_a_lead_somebody_else_holds_is_passed_over_and_its_owner_is_never_overwritten",
    8: "tests/races/test_asked_for.py::test_leads_asked_for_are_taken_once_among_sweeps_and_arrivals",
    10: f"{PEERS}::test_a_cap_holds_from_the_first_lead_though_nothing_was_ever_counted",
    11: f"{TURNS}::test_no_member_gets_two_leads_running_while_weights_are_equal",
    13: f"{TURNS}::test_members_of_equal_weight_take_turns_in_the_order_they_joined",
    14: "tests/config/test_crm_owners.py::"
    "test_a_lead_given_to_another_rep_in_the_crm_is_theirs_here_and_nothing_is_sent",
    16: f"{TURNS}::test_leads_that_each_exclude_their_old_owner_spread_evenly",
    17: f"{TURNS}::test_inactive_members_and_retired_reps_get_nothing_and_nobody_takes_their_share_for_them",
    19: f"{TURNS}::test_fresh_teams_begin_with_their_first_member_and_the_order_is_stated",
    20: f"{PEERS}::test_two_leads_at_the_same_moment_are_both_accepted_and_go_to_different_reps",
    22: "tests/routing/test_reassign.py::test_counters_follow_a_lead_that_changes_hands",
    23: "tests/routing/test_placing.py::"
    "test_a_named_rep_in_no_team_leaves_the_lead_to_the_team_of_the_rule_and_says_so",
    # deactivated, out of office
    25: f"{PEERS}::test_whatever_says_that_somebody_is_gone_keeps_leads_away_and_is_shown",
    26: "tests/routing/test_rule_books.py::test_rules_that_nobody_can_serve_are_warned_about",
    28: f"{TURNS}::test_a_team_without_members_leaves_its_leads_waiting_in_sight",
    29: f"{PEERS}::test_somebody_entered_anew_takes_turns_though_their_old_row_is_retired",
    31: f"{PEERS}::test_time_off_takes_a_shift_made_by_hand_away_too",
    32: f"{TURNS}::test_who_comes_back_from_leave_gets_no_burst",
    34: f"{TURNS}::test_absence_freezes_the_lag_to_the_unit",
    # time zones, clock changes
    35: f"{SPANS}::test_half_past_seven_in_chicago_stays_half_past_seven_when_the_clock_changes",
    37: f"{SPANS}::test_a_week_with_a_clock_change_in_it_shifts_nothing",
    38: f"{HOURS}::test_time_off_runs_from_local_midnight_to_local_midnight_wherever_it_is_seen_from",
    40: f"{SPANS}::test_vancouver_hours_follow_the_installed_time_zone_data",
    41: f"{TURNS}::test_only_who_is_inside_a_shift_takes_leads",
    43: f"{HOURS}::test_a_span_given_on_another_places_clock_holds_at_its_own_moment_for_every_rep",
    # weights, caps, counters
    44: f"{TURNS}::test_a_new_member_gets_a_fair_share_from_now_and_is_not_flooded_for_the_past",
    46: f"{TURNS}::test_leads_of_other_teams_and_closed_leads_do_not_make_a_rep_look_busy",
    47: f"{TURNS}::test_an_open_cap_counts_open_leads_only_and_closing_one_frees_the_place",
    49: f"{TURNS}::test_a_counter_of_yesterday_stops_nobody_today_and_today_begins_at_nothing",
    50: f"{PEERS}::test_on_a_new_day_the_count_begins_once_and_not_at_every_lead",
    52: f"{TURNS}::test_a_cap_set_counts_since_the_reps_own_midnight",
    53: f"{PEERS}::test_a_cap_holds_from_the_first_lead_though_nothing_was_ever_counted",
    # left unassigned, wrong trace
    55: "tests/races/test_caps.py::test_a_place_that_a_closed_lead_leaves_goes_to_the_oldest_that_waits",
    56: "tests/routing/test_sweep.py::test_an_old_lead_is_given_out_however_long_it_waited",
    58: "tests/routing/test_simulate.py::test_the_simulation_places_every_lead_as_the_intake_did",
    59: f"{PEERS}::test_a_lead_that_a_sweep_gives_out_is_told_to_its_rep_once",
    # webhook duplicates
    61: f"{SAME}::test_a_delivery_in_flight_is_waited_for_and_then_asked_to_come_again",
    62: f"{SAME}::test_ten_deliveries_of_one_event_at_once_make_one_lead",
    64: f"{IN}::test_the_same_event_again_is_answered_200_with_the_same_lead_and_changes_nothing",
    65: f"{IN}::test_events_that_differ_only_in_a_time_stamp_make_one_lead",
    68: f"{IN}::test_two_genuine_events_about_one_person_are_both_kept_though_their_bodies_are_equal",
    67: "tests/routing/test_silence.py::"
    "test_a_meta_source_whose_token_died_is_silent_after_three_hours_logged_once_and_heard_again",
    # files
    70: f"{IMPORTS}::test_every_small_case_is_imported_as_it_was_meant",
    71: f"{READER}::test_encoding_delimiter_and_line_ends_are_found_out",
    73: f"{IMPORTS}::test_letters_beyond_ascii_are_kept",
    74: f"{READER}::test_windows_1252_says_that_it_was_a_guess",
    76: f"{IMPORTS}::test_records_are_counted_and_not_lines",
    77: f"{IMPORTS}::test_two_columns_of_one_name_are_kept_apart",
    79: f"{READER}::test_columns_without_a_name_or_with_the_same_one_are_told_apart_by_position",
    80: f"{IMPORTS}::test_text_stays_text",
    82: f"{IMPORTS}::test_text_stays_text",
    83: "tests/crmsync/push/test_values.py::test_what_the_org_could_not_take_is_refused_with_what_would_be_right",
    85: f"{IN}::test_another_spelling_of_an_address_is_the_same_lead",
    86: f"{IMPORTS}::test_a_no_break_space_goes_from_the_ends_and_is_an_error_inside",
    88: f"{IMPORTS}::test_somebody_who_comes_twice_in_a_file_of_several_chunks_is_one_lead",
    89: f"{IMPORTS}::test_a_rehearsal_gives_the_verdicts_of_the_import_and_writes_nothing",
    91: "tests/races/test_imports.py::test_two_agents_who_send_one_file_at_the_same_moment_get_one_import",
    92: "tests/races/test_imports.py::"
    "test_an_import_of_20_000_rows_killed_in_the_middle_goes_on_without_loss_or_double",
    94: "tests/routing/test_import_command.py::test_every_row_can_be_had_with_its_verdict",
}

NOT_SHOWN: dict[int, str] = {}
"""Kinds without a test of their own, and why. Of 43 the clock is shown: calendars of other programs are not read; of 67
the alarm: leads of the silence are not fetched."""
