"""A chunk's rows as Salesforce takes them, and under which names they are sent."""

from django.conf import settings

from crmsync.chunks import Candidate
from crmsync.direct import Row, Target
from crmsync.errors import Fault
from crmsync.field_map import mapping_of
from crmsync.mapping import MAPPING, body
from crmsync.moves.claim import Chunk
from crmsync.moves.outcomes import Outcome

Pair = tuple[Candidate, Row]


def bodies(chunk: Chunk) -> tuple[list[Pair], list[Outcome]]:
    """The rows as Salesforce takes them, and those it never could."""
    if chunk.object not in MAPPING:
        fault = Fault("NO_MAPPING", f"{chunk.object} has no field mapping.")
        return [], [Outcome(candidate, fault=fault) for candidate in chunk.rows]
    table = mapping_of(chunk.object)
    rows: list[Pair] = []
    for candidate in chunk.rows:
        record = body(
            table=table,
            fields=candidate.fields,
            parents=candidate.parents,
            external_id_field=settings.CRM_EXTERNAL_ID_FIELD,
            creating=candidate.creating and chunk.operation == "upsert",
        )
        rows.append((candidate, Row(candidate.external_id, record, candidate.crm_id)))
    return rows, []


def target_of(chunk: Chunk) -> Target:
    return Target(chunk.object, chunk.operation, settings.CRM_EXTERNAL_ID_FIELD)


def headers_of(chunk: Chunk) -> dict[str, str]:
    """By these the org's own logs can be joined to ours."""
    return {"Sforce-Call-Options": f"client=rota/{chunk.worker}", "X-Request-Id": str(chunk.token)}
