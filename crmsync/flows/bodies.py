"""A chunk's rows as Salesforce takes them, and under which names they are sent."""

from django.conf import settings

from crmsync.chunks import Candidate
from crmsync.direct import Row, Target
from crmsync.errors import Fault
from crmsync.field_map import mapping_of
from crmsync.mapping import NO_TABLE, RAW, body
from crmsync.models import OutboxMessage
from crmsync.moves.claim import Chunk
from crmsync.moves.outcomes import Outcome

INTERACTIVE = OutboxMessage.Priority.INTERACTIVE
Pair = tuple[Candidate, Row]


def bodies(chunk: Chunk) -> tuple[list[Pair], list[Outcome]]:
    """The rows as Salesforce takes them, and those it never could."""
    table = mapping_of(chunk.object)
    rows: list[Pair] = []
    refused: list[Outcome] = []
    for candidate in chunk.rows:
        if table is NO_TABLE and not all(name.startswith(RAW) for name in candidate.fields):
            refused.append(Outcome(candidate, fault=Fault("NO_MAPPING", f"{chunk.object} has no field mapping.")))
            continue
        record = body(
            table=table,
            fields=candidate.fields,
            parents=candidate.parents,
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


def target_of(chunk: Chunk) -> Target:
    return Target(chunk.object, chunk.operation, settings.CRM_EXTERNAL_ID_FIELD)


def headers_of(chunk: Chunk) -> dict[str, str]:
    """By these the org's own logs can be joined to ours."""
    return {"Sforce-Call-Options": f"client=rota/{chunk.worker}", "X-Request-Id": str(chunk.token)}
