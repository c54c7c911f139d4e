"""A chunk's rows as Salesforce takes them, and under which names they are sent."""

from collections.abc import Mapping, Sequence

from django.conf import settings

from crmsync.chunks import Candidate
from crmsync.direct import Row, Target
from crmsync.errors import NO_PARENT, Fault
from crmsync.field_map import mapping_of
from crmsync.mapping import MANY_KINDS, NO_TABLE, RAW, body, lookup_field
from crmsync.models import CrmRecord, OutboxMessage
from crmsync.moves.claim import Chunk
from crmsync.moves.outcomes import Outcome

INTERACTIVE = OutboxMessage.Priority.INTERACTIVE
Pair = tuple[Candidate, Row]
Parent = Mapping[str, str]
Ids = Mapping[tuple[str, str], str]


def bodies(chunk: Chunk) -> tuple[list[Pair], list[Outcome]]:
    """The rows as Salesforce takes them, and those it never could."""
    table = mapping_of(chunk.object)
    ids = ids_of_parents(chunk)
    rows: list[Pair] = []
    refused: list[Outcome] = []
    for candidate in chunk.rows:
        if table is NO_TABLE and not all(name.startswith(RAW) for name in candidate.fields):
            refused.append(Outcome(candidate, fault=Fault("NO_MAPPING", f"{chunk.object} has no field mapping.")))
            continue
        parents, missing = by_id(candidate, ids)
        if missing:
            refused.append(Outcome(candidate, fault=no_parent(missing)))
            continue
        record = body(
            table=table,
            fields=candidate.fields,
            parents=parents,
            external_id_field=settings.CRM_EXTERNAL_ID_FIELD,
            # Whether a record of a mass update is there already we may not know: its name is not ours to make up.
            creating=candidate.creating and chunk.operation == "upsert" and candidate.priority == INTERACTIVE,
        )
        if candidate.adopts:
            record |= {settings.CRM_EXTERNAL_ID_FIELD: candidate.external_id}
            if candidate.found_owner:
                record.pop("OwnerId", None)
        rows.append((candidate, Row(candidate.external_id, record, candidate.crm_id)))
    return rows, refused


def ids_of_parents(chunk: Chunk) -> Ids:
    """The org's ids, by object and our key, of the parents that can be named there by nothing else."""
    many = MANY_KINDS.get(chunk.object, ())
    keys = {
        (parent["object"], parent["external_id"])
        for candidate in chunk.rows
        for parent in candidate.parents
        if parent["relation"] in many and "external_id" in parent
    }
    if not keys:
        return {}
    records = CrmRecord.objects.filter(object__in={name for name, _ in keys}, external_id__in={key for _, key in keys})
    return {
        (record.object, record.external_id): record.crm_id
        for record in records.exclude(crm_id=None)
        if record.crm_id and (record.object, record.external_id) in keys
    }


def by_id(candidate: Candidate, ids: Ids) -> tuple[Sequence[Parent], Parent | None]:
    """The row's parents as the org can be told of them, and the first of which that is not possible yet."""
    many = MANY_KINDS.get(candidate.object, ())
    parents: list[Parent] = []
    for parent in candidate.parents:
        if parent["relation"] in many and "external_id" in parent:
            crm_id = ids.get((parent["object"], parent["external_id"]))
            if crm_id is None:
                return candidate.parents, parent
            parent = {"relation": parent["relation"], "object": parent["object"], "crm_id": crm_id}
        parents.append(parent)
    return parents, None


def no_parent(parent: Parent) -> Fault:
    text = (
        f"The CRM has no {parent['object']} {parent['external_id']} yet, as far as Rota knows. See what became of its "
        "own write (a dead letter?), have that arrive, then retry this."
    )
    return Fault(NO_PARENT, text, (lookup_field(parent["relation"]),))


def target_of(chunk: Chunk) -> Target:
    return Target(chunk.object, chunk.operation, settings.CRM_EXTERNAL_ID_FIELD)


def headers_of(chunk: Chunk) -> dict[str, str]:
    """By these the org's own logs can be joined to ours."""
    return {"Sforce-Call-Options": f"client=rota/{chunk.worker}", "X-Request-Id": str(chunk.token)}
