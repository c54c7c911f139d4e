"""What a worker reads before it claims: due messages with the lanes they need, and what stands in their way.

Nothing is locked here. Whoever has to wait for something that is known is put off until then, so that it clogs no head;
whoever is passed over because others have its lanes is told since when.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import connection
from django.db.models import Q, QuerySet, TextField
from django.db.models.expressions import RawSQL

from crmsync import lockkeys, lockpolicy
from crmsync.chunks import Candidate, LaneView, open_to
from crmsync.models import CrmRecord, FailureKind, Operation, OutboxMessage
from crmsync.moves.parents import parents_first

READ = (
    "pk", "version", "operation", "priority", "attempts", "fields", "parents", "pile", "passed_at", "due_at",
    "failure_kind", "record_id", "record__object", "record__external_id", "record__parents",
    "record__delivered_version", "record__crm_id", "record__written_as", "record__looked_up_at", "record__found_owner",
)  # fmt: skip
# Which versions of the two rows were read, by Postgres's own mark: it changes with every update, and with nothing else.
SEEN = RawSQL("crmsync_outboxmessage.xmin::text", [], output_field=TextField())
RECORD_SEEN = RawSQL("crmsync_crmrecord.xmin::text", [], output_field=TextField())
PARENT_PAUSE_MS = 500  # before a row whose parent is being created right now is looked at again


@dataclass
class Looked:
    """`sendable`: nothing known stands in their way. `later`: messages by when they can go at the earliest; None: they
    wait for a parent that is on its way. `passed`: others have lanes they need."""

    sendable: list[Candidate] = field(default_factory=list)
    lanes: Mapping[str, LaneView] = field(default_factory=dict)
    later: dict[int, datetime | None] = field(default_factory=dict)
    passed: list[Candidate] = field(default_factory=list)


Parents = Sequence[lockkeys.Parent]
# Object, operation, whether it is created, the parents it names and those it has.
Kin = tuple[str, str, bool, Parents, Parents]


def read(messages: QuerySet[OutboxMessage]) -> list[Any]:
    """The messages as `candidates_of` takes them: all it needs of them and their records, in one query."""
    rows = messages.annotate(seen=SEEN, record_seen=RECORD_SEEN)
    return list(rows.values_list(*READ, "seen", "record_seen", named=True))


def candidates_of(messages: Sequence[Any]) -> list[Candidate]:
    """The messages (rows of `read`) with their lock keys, in their order."""
    kins: list[Kin] = [
        (
            object_of(each),
            operation_of(each),
            each.record__delivered_version is None,
            each.parents,
            each.record__parents,
        )
        for each in messages
    ]
    keys = lock_keys_of(kins, [message.fields for message in messages])
    return [candidate_of(message, parent_keys) for message, parent_keys in zip(messages, keys, strict=True)]


def candidate_of(message: Any, parent_keys: tuple[str, ...]) -> Candidate:
    return Candidate(
        message_id=message.pk,
        record_id=message.record_id,
        object=object_of(message),
        operation=operation_of(message),
        external_id=message.record__external_id,
        version=message.version,
        priority=message.priority,
        attempts=message.attempts,
        fields=message.fields,
        parents=parents_of(message),
        creating=message.record__delivered_version is None,
        record_key=lockkeys.record_key(object_of(message), message.record__external_id),
        parent_keys=parent_keys,
        pile=message.pile,
        passed_at=message.passed_at,
        crm_id=message.record__crm_id or "",
        lock_failures=message.attempts if message.failure_kind == FailureKind.CONTENTION else 0,
        looked_up=message.record__looked_up_at is not None,
        found_owner=message.record__found_owner,
        seen=(message.seen, message.record_seen),
    )


def object_of(message: Any) -> str:
    """What the record is in the org."""
    return str(message.record__written_as or message.record__object)


def parents_of(message: Any) -> tuple[Mapping[str, str], ...]:
    """What it is to be a child of. A contact that is yet to be created has its account from its record, whichever of
    its messages arrives first."""
    named = tuple(message.parents)
    creates = message.record__written_as and message.record__delivered_version is None and not message.record__crm_id
    relations = {parent["relation"] for parent in named}
    return named + tuple(
        parent for parent in message.record__parents if creates and parent["relation"] not in relations
    )


def operation_of(message: Any) -> str:
    """What is done there: an adopted record, which the org has without Rota's key, is first updated by its id."""
    adopts = message.record__delivered_version is None and message.record__crm_id
    return Operation.UPDATE if adopts and message.operation == Operation.UPSERT else str(message.operation)


def policy() -> lockpolicy.Policy:
    """The lock policy of this org."""
    return lockpolicy.declared(settings.CRM_RELATIONS, owner_locks=settings.CRM_OWNER_LOCKS)


def lock_keys_of(kins: Sequence[Kin], fields: Sequence[Mapping[str, Any]] | None = None) -> list[tuple[str, ...]]:
    """The lock keys beside the record's own, one tuple for each of these. Without their `fields`, rather more."""
    rules = policy()
    named = [(object, parent) for object, _, _, target, before in kins for parent in (*target, *before)]
    known = lockkeys.Known(ids=ids_known(parent for _, parent in named))
    above = {
        (parent["object"], parent.get("external_id"), parent.get("crm_id"))
        for object, parent in named
        if lockkeys.needs_family(rules, object, parent["relation"])
    }
    if above:
        known = with_families(rules, above, known)
    return [
        lockkeys.parent_keys(
            rules,
            object=object,
            operation=lockpolicy.deed(operation, creating=creating),
            target=target,
            confirmed=before,
            fields=fields[place] if fields else {},
            known=known,
        )
        for place, (object, operation, creating, target, before) in enumerate(kins)
    ]


def ids_known(parents: Iterable[lockkeys.Parent]) -> dict[tuple[str, str], str]:
    by_crm_id = lockkeys.crm_ids(parents)
    if not by_crm_id:
        return {}
    records = CrmRecord.objects.filter(
        object__in={name for name, _ in by_crm_id}, crm_id__in={crm_id for _, crm_id in by_crm_id}
    )
    return {(record.object, str(record.crm_id)): record.external_id for record in records}


Above = set[tuple[str, str | None, str | None]]


def with_families(policy: lockpolicy.Policy, above: Above, known: lockkeys.Known) -> lockkeys.Known:
    """Read the parents of these records, and of theirs where a roll-up is carried on: one query a generation."""
    families: dict[str, list[lockkeys.Parent]] = {}
    ids = dict(known.ids)
    for _ in range(lockkeys.MOST_GENERATIONS):
        if not above:
            break
        records = list(
            CrmRecord.objects.filter(
                Q(object__in={name for name, _, _ in above}),
                Q(external_id__in={key for _, key, _ in above if key})
                | Q(crm_id__in={lockkeys.long_id(crm_id) for _, _, crm_id in above if crm_id}),
            )
        )
        coming: dict[int, list[lockkeys.Parent]] = {}
        for message in OutboxMessage.objects.open().filter(record__in=records):
            coming.setdefault(message.record_id, []).extend(message.parents)
        above = set()
        for record in records:
            key = lockkeys.record_key(record.object, record.external_id)
            if key in families:
                continue
            families[key] = [*record.parents, *coming.get(record.pk, ())]
            ids |= ids_known(families[key])
            above |= {
                (parent["object"], parent.get("external_id"), parent.get("crm_id"))
                for parent in families[key]
                if lockkeys.needs_family(policy, record.object, parent["relation"])
            }
    return lockkeys.Known(ids=ids, family=families)


LANES = """
SELECT key, claim_id IS NOT NULL, greatest(not_before, coalesce(quarantined_until, not_before)),
       greatest(not_before, coalesce(quarantined_until, not_before)) <= clock_timestamp(), most_rows,
       CASE WHEN reserved_until > clock_timestamp() THEN reserved_for END
  FROM crmsync_lane WHERE key = ANY (%s)
"""


def look(candidates: Sequence[Candidate]) -> Looked:
    """Sort the candidates by what stands in their way, if anything does."""
    keys = {key for candidate in candidates for key in candidate.keys}
    lanes: dict[str, LaneView] = {}
    opens: dict[str, datetime] = {}
    with connection.cursor() as cursor:
        cursor.execute(LANES, [list(keys)])
        for key, held, opens_at, is_over, most_rows, reserved_for in cursor.fetchall():
            lanes[key] = LaneView(not held and is_over, most_rows, reserved_for)
            if not (held or is_over):
                opens[key] = opens_at
    coming = parents_first(candidates)
    groups: dict[Any, list[Candidate]] = {}
    for candidate in candidates:
        groups.setdefault(candidate.together, []).append(candidate)
    looked = Looked(lanes=lanes)
    for candidate in candidates:
        closed = [opens[key] for key in candidate.keys if key in opens]
        if candidate.message_id in coming:
            looked.later[candidate.message_id] = coming[candidate.message_id]
        elif closed:
            looked.later[candidate.message_id] = max(closed)
        elif not (open_to(groups[candidate.together], lanes) and lane_of_itself(candidate, lanes)):
            looked.passed.append(candidate)
        else:
            looked.sendable.append(candidate)
    return looked


def lane_of_itself(candidate: Candidate, lanes: Mapping[str, LaneView]) -> bool:
    own = lanes.get(candidate.record_key)
    return own is None or (own.free and own.reserved_for in (None, candidate.message_id))


PUT_OFF = """
WITH later AS MATERIALIZED (
    SELECT m.id, CASE WHEN m.pile IS NULL THEN u.until
                      ELSE greatest(u.until, clock_timestamp() + %s * interval '1 millisecond') END AS until
      FROM unnest(%s::bigint[], %s::timestamptz[]) AS u(id, until)
      JOIN crmsync_outboxmessage AS m ON m.id = u.id
     WHERE m.status = 'pending' AND (m.due_at < u.until OR m.pile IS NOT NULL)
       FOR NO KEY UPDATE OF m SKIP LOCKED
)
UPDATE crmsync_outboxmessage AS m SET due_at = greatest(m.due_at, later.until), pile = NULL
  FROM later WHERE m.id = later.id
"""


def put_off(until: Mapping[int, datetime | None]) -> None:
    """Look at these messages again at their time. Those of a pile leave it; where their time is not known, for a
    moment."""
    if not until:
        return
    with connection.cursor() as cursor:
        cursor.execute(PUT_OFF, [PARENT_PAUSE_MS, list(until), list(until.values())])


PASSED = """
WITH passed AS MATERIALIZED (
    SELECT id FROM crmsync_outboxmessage WHERE id = ANY (%s) AND status = 'pending' FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE crmsync_outboxmessage AS m
   SET passed_at = coalesce(m.passed_at, clock_timestamp()), pile = NULL,
       due_at = CASE WHEN m.pile IS NULL THEN m.due_at ELSE clock_timestamp() + %s * interval '1 millisecond' END
  FROM passed WHERE m.id = passed.id
"""


def note_passed(candidates: Sequence[Candidate]) -> None:
    """Write down since when these are passed over. Those of a pile leave it for a moment."""
    ids = [row.message_id for row in candidates if row.passed_at is None or row.pile is not None]
    if ids:
        with connection.cursor() as cursor:
            cursor.execute(PASSED, [ids, PARENT_PAUSE_MS])
