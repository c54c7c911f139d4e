"""Each promise of the tables, broken past Python: the database refuses, and the constraint's name says what."""

import uuid

import pytest
from django.db import IntegrityError, transaction

from tests.crmsync.rows import put, run_sql

pytestmark = pytest.mark.django_db

MESSAGE = "UPDATE crmsync_outboxmessage SET {} WHERE id = %(id)s"
CLAIM = "INSERT INTO crmsync_claim (token, worker, claimed_at, lease_until) VALUES ('{}', 'x', now(), now() + '1 s')"
COPY = (
    "INSERT INTO crmsync_outboxmessage (record_id, version, fields, status, claim_id)"
    " SELECT record_id, {}, '{{}}', {}, {} FROM crmsync_outboxmessage WHERE id = %(id)s"
)
FIELD = "INSERT INTO crmsync_fieldmapping (object, ours, theirs) VALUES ({})"
TOKEN = uuid.UUID(int=1)
PARENT = '{"relation": "Account", "object": "Account", "external_id": "a"}'
CLAIMED = f"status = 'claimed', claim_id = '{TOKEN}'"

DEED = "INSERT INTO crmsync_intervention ({}) VALUES ({})"
BATCH = (
    "INSERT INTO crmsync_batch (object, status, file_name, digest, encoding, columns, rows_total, created_by, {}) "
    "VALUES ('Contact', '{}', 'a.csv', 'd', '', '[]', 5, 'ops', {})"
)

JOB = (
    "INSERT INTO crmsync_bulkjob (claim_id, road, object, operation, rows, worker, {})"
    f" VALUES ('{TOKEN}', 'bulk2', 'Lead', 'upsert', 1000, 'w', {{}})"
)

BROKEN = [
    ("crm_record_once", ["INSERT INTO crmsync_crmrecord (object, external_id) VALUES ('Lead', 'one')"]),
    ("crm_record_has_a_sendable_key", ["INSERT INTO crmsync_crmrecord (object, external_id) VALUES ('Lead', '')"]),
    ("crm_record_has_a_sendable_key", ["INSERT INTO crmsync_crmrecord (object, external_id) VALUES ('Lead', '..')"]),
    ("crm_record_has_a_sendable_key", ["INSERT INTO crmsync_crmrecord (object, external_id) VALUES ('', 'two')"]),
    ("crm_record_delivered_not_ahead_of_drawn", ["UPDATE crmsync_crmrecord SET delivered_version = version + 1"]),
    ("crm_record_parents_are_a_list", ["UPDATE crmsync_crmrecord SET parents = '{}'"]),
    (
        "crm_record_only_a_lead_is_a_contact",
        ["UPDATE crmsync_crmrecord SET object = 'Account', written_as = 'Contact', crm_id = '003'"],
    ),
    ("crm_record_only_a_lead_is_a_contact", ["UPDATE crmsync_crmrecord SET written_as = 'Account', crm_id = '001'"]),
    ("crm_record_contact_has_an_id_or_an_account", ["UPDATE crmsync_crmrecord SET written_as = 'Contact'"]),
    ("crm_record_adopted_has_its_id", ["UPDATE crmsync_crmrecord SET found_owner = '005'"]),
    ("account_leads_is_one_row", ["INSERT INTO crmsync_accountleads (id) VALUES (2)"]),
    (
        "account_leads_are_leads_or_contacts",
        ["INSERT INTO crmsync_accountleads (id, written_as) VALUES (1, 'Account')"],
    ),
    ("field_mapping_once", [FIELD.format("'Lead', 'job', 'A'"), FIELD.format("'Lead', 'job', 'B'")]),
    ("field_mapping_one_source_per_field", [FIELD.format("'Lead', 'a', 'A'"), FIELD.format("'Lead', 'b', 'a'")]),
    ("field_mapping_names_a_field", [FIELD.format("'Lead', '', 'A'")]),
    ("field_mapping_object_is_known", [FIELD.format("'Case', 'a', 'A'")]),
    ("field_mapping_is_an_api_name", [FIELD.format("'Lead', 'a', 'A B'")]),
    ("outbox_once_per_version", [MESSAGE.format(CLAIMED), COPY.format("1", "'pending'", "NULL")]),
    ("outbox_one_pending_per_record", [COPY.format("2", "'pending'", "NULL")]),
    ("outbox_one_claimed_per_record", [MESSAGE.format(CLAIMED), COPY.format("2", "'claimed'", f"'{TOKEN}'")]),
    ("outbox_status_known", [MESSAGE.format("status = 'lost', settled_at = now()")]),
    ("outbox_priority_known", [MESSAGE.format("priority = 2")]),
    ("outbox_version_counts_from_one", [MESSAGE.format("version = 0")]),
    ("outbox_attempts_not_negative", [MESSAGE.format("attempts = -1")]),
    ("outbox_fields_are_an_object", [MESSAGE.format("fields = '[]'")]),
    ("outbox_parents_are_a_list", [MESSAGE.format("parents = '{}'")]),
    ("outbox_parents_are_readable", [MESSAGE.format("""parents = '[{"relation": "Account", "object": "Account"}]'""")]),
    ("outbox_parents_are_readable", [MESSAGE.format("parents = '[7]'")]),
    ("outbox_claim_iff_claimed", [MESSAGE.format("status = 'claimed'")]),
    ("outbox_claim_iff_claimed", [MESSAGE.format(f"claim_id = '{TOKEN}'")]),
    ("outbox_settled_at_iff_final", [MESSAGE.format("status = 'delivered'")]),
    ("outbox_settled_at_iff_final", [MESSAGE.format("settled_at = now()")]),
    ("outbox_superseded_by_iff_replaced", [MESSAGE.format("status = 'superseded', settled_at = now()")]),
    ("outbox_superseded_by_iff_replaced", [MESSAGE.format("superseded_by_id = id")]),
    ("outbox_dead_says_why", [MESSAGE.format("status = 'dead', settled_at = now()")]),
    ("outbox_operation_known", [MESSAGE.format("operation = 'insert'")]),
    ("outbox_afterwards_follows_a_deletion", [MESSAGE.format("afterwards = 'upsert'")]),
    ("outbox_afterwards_follows_a_deletion", [MESSAGE.format("operation = 'delete', afterwards = 'delete'")]),
    ("outbox_deletion_writes_nothing", [MESSAGE.format("operation = 'delete'")]),
    (
        "outbox_deletion_writes_nothing",
        [MESSAGE.format("operation = 'delete', fields = '{}'" + f", parents = '[{PARENT}]'")],
    ),
    ("outbox_line_iff_of_a_batch", [MESSAGE.format("line = 2")]),
    (
        "outbox_line_iff_of_a_batch",
        [BATCH.format("id", "loading", "7"), MESSAGE.format("batch_id = 7")],
    ),
    ("outbox_only_mass_updates_are_cancelled", [MESSAGE.format("status = 'cancelled', settled_at = now()")]),
    (
        "outbox_once_per_line_of_a_batch",
        [
            BATCH.format("id", "loading", "7"),
            MESSAGE.format("batch_id = 7, line = 2, " + CLAIMED),
            COPY.format("2", "'pending'", "NULL"),
            "UPDATE crmsync_outboxmessage SET batch_id = 7, line = 2",
        ],
    ),
    ("batch_once_per_file", [BATCH.format("rows_queued", "loading", "0")] * 2),
    ("batch_again_not_negative", [BATCH.format("again", "loading", "-1")]),
    (
        "batch_part_once",
        [
            BATCH.format("id", "loading", "7"),
            "INSERT INTO crmsync_batchpart (batch_id, number, content) VALUES (7, 0, ''), (7, 0, '')",
        ],
    ),
    (
        "batch_part_counts_from_zero",
        [
            BATCH.format("id", "loading", "7"),
            "INSERT INTO crmsync_batchpart (batch_id, number, content) VALUES (7, -1, '')",
        ],
    ),
    ("batch_status_known", [BATCH.format("rows_queued", "lost", "0")]),
    ("batch_operation_known", [BATCH.format("operation", "loading", "'merge'")]),
    ("batch_queues_no_more_than_its_file", [BATCH.format("rows_queued", "loading", "6")]),
    ("batch_queues_no_more_than_its_file", [BATCH.format("rows_queued", "loading", "-1")]),
    ("batch_queued_means_every_row", [BATCH.format("rows_queued, queued_at", "queued", "4, now()")]),
    ("batch_queued_means_every_row", [BATCH.format("rows_queued", "queued", "5")]),
    ("batch_paused_by_iff_paused", [BATCH.format("paused_at", "loading", "now()")]),
    ("batch_paused_by_iff_paused", [BATCH.format("paused_by", "loading", "'ops'")]),
    ("batch_cancelled_by_iff_cancelled", [BATCH.format("cancelled_at", "cancelled", "now()")]),
    ("batch_cancelled_by_iff_cancelled", [BATCH.format("cancelled_by", "loading", "'ops'")]),
    ("claim_end_reason_iff_ended", ["UPDATE crmsync_claim SET ended_at = now()"]),
    ("claim_end_reason_iff_ended", ["UPDATE crmsync_claim SET ended_at = now(), end_reason = 'bored'"]),
    ("claim_answered_only_if_begun", ["UPDATE crmsync_claim SET answered_at = now(), begun_at = NULL"]),
    ("claim_lease_ends_after_it_starts", ["UPDATE crmsync_claim SET lease_until = claimed_at"]),
    ("lane_held_by_iff_held", ["INSERT INTO crmsync_lane (key, held_by) VALUES ('Lead:one', 'ops')"]),
    (
        "lane_held_by_iff_held",
        ["INSERT INTO crmsync_lane (key, held_until, not_before) VALUES ('Lead:one', now(), now())"],
    ),
    (
        "lane_hold_keeps_it_closed",
        ["INSERT INTO crmsync_lane (key, held_by, held_until) VALUES ('Lead:one', 'ops', now() + interval '1 h')"],
    ),
    ("org_state_stopped_by_iff_stopped", ["INSERT INTO crmsync_orgstate (id, stopped_at) VALUES (1, now())"]),
    ("intervention_kind_known", [DEED.format("kind, by", "'lost', 'ops'")]),
    ("intervention_says_who", [DEED.format("kind, by", "'stopped', ''")]),
    ("intervention_hold_says_until_when", [DEED.format("kind, by", "'held', 'ops'")]),
    ("pruning_is_one_row", ["INSERT INTO crmsync_pruning (id) VALUES (2)"]),
    ("lane_failures_not_negative", ["INSERT INTO crmsync_lane (key, failures) VALUES ('Lead:one', -1)"]),
    ("lane_key_not_empty", ["INSERT INTO crmsync_lane (key) VALUES ('')"]),
    ("lane_takes_at_least_one_row", ["INSERT INTO crmsync_lane (key, most_rows) VALUES ('Lead:one', 0)"]),
    ("lane_clean_run_not_negative", ["INSERT INTO crmsync_lane (key, clean_run) VALUES ('Lead:one', -1)"]),
    (
        "lane_reserved_for_since_until_together",
        ["INSERT INTO crmsync_lane (key, reserved_for) VALUES ('Lead:one', 1)"],
    ),
    (
        "lane_reserved_for_since_until_together",
        ["INSERT INTO crmsync_lane (key, reserved_since, reserved_until) VALUES ('Lead:one', now(), now())"],
    ),
    (
        "pile_waiting_not_negative",
        ["INSERT INTO crmsync_pile (key, object, waiting, first_id) VALUES ('Lead/', 'Lead', -1, 1)"],
    ),
    ("pile_has_an_object", ["INSERT INTO crmsync_pile (key, object, waiting, first_id) VALUES ('/', '', 0, 1)"]),
    (
        "attempt_once_per_claim",
        [f"INSERT INTO crmsync_attempt (message_id, claim_id, number) VALUES (%(id)s, '{TOKEN}', 1)"] * 2,
    ),
    (
        "attempt_outcome_iff_ended",
        [f"INSERT INTO crmsync_attempt (message_id, claim_id, number, ended_at) VALUES (%(id)s, '{TOKEN}', 1, now())"],
    ),
    ("org_state_is_one_row", ["INSERT INTO crmsync_orgstate (id) VALUES (2)"]),
    ("org_state_concurrency_at_least_one", ["INSERT INTO crmsync_orgstate (id, concurrency) VALUES (1, 0.5)"]),
    ("org_state_failures_not_negative", ["INSERT INTO crmsync_orgstate (id, failures) VALUES (1, -1)"]),
    ("org_state_reason_iff_paused", ["INSERT INTO crmsync_orgstate (id, paused_until) VALUES (1, now())"]),
    ("org_state_reason_iff_paused", ["INSERT INTO crmsync_orgstate (id, paused_reason) VALUES (1, 'auth')"]),
    ("org_state_mass_reason_iff_paused", ["INSERT INTO crmsync_orgstate (id, mass_paused_until) VALUES (1, now())"]),
    ("org_state_bulk_reason_iff_paused", ["INSERT INTO crmsync_orgstate (id, bulk_paused_reason) VALUES (1, 'quota')"]),
    ("bulk_job_road_is_bulk", [JOB.format("status", "'planned'").replace("bulk2", "rest")]),
    ("bulk_job_operation_known", [JOB.format("status", "'planned'").replace("upsert", "insert")]),
    ("bulk_job_status_known", [JOB.format("status, org_id", "'lost', '750'")]),
    ("bulk_job_created_has_org_id", [JOB.format("status", "'polling'")]),
    ("bulk_job_ended_at_iff_ended", [JOB.format("status", "'aborted'")]),
    ("bulk_job_ended_at_iff_ended", [JOB.format("ended_at", "now()")]),
    ("bulk_job_held_until_iff_held", [JOB.format("holder", f"'{TOKEN}'")]),
    ("bulk_job_has_rows", [JOB.format("status", "'planned'").replace("1000", "0")]),
    (
        "bulk_job_once_per_org_id",
        [
            JOB.format("org_id", "'750'"),
            CLAIM.format(uuid.UUID(int=2)),
            JOB.format("org_id", "'750'").replace(str(TOKEN), str(uuid.UUID(int=2))),
        ],
    ),
]


@pytest.mark.parametrize(("name", "statements"), BROKEN)
def test_the_database_itself_refuses(name: str, statements: list[str]) -> None:
    message = put("one")
    run_sql(CLAIM.format(TOKEN))
    with pytest.raises(IntegrityError) as refused, transaction.atomic():
        for statement in statements:
            run_sql(statement, {"id": message.pk})
    assert refused.value.__cause__.diag.constraint_name == name  # type: ignore[union-attr]


def test_every_constraint_has_its_row_in_this_table() -> None:
    declared = {
        name
        for (name,) in run_sql(
            "SELECT conname FROM pg_constraint"
            " WHERE conrelid::regclass::text LIKE 'crmsync_%%' AND contype IN ('c', 'u')"
        )
        if not name.startswith("crmsync_")
    }
    assert declared - {name for name, _ in BROKEN} == set()
