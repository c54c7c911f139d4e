"""Enter many leads in one transaction, with the outcomes that `leads.enter` has for the same leads one by one.

A handful of statements whatever the number. Locks are taken as a webhook takes them: addresses in order, then leads.
Only the events come last instead of first, once their outcome is known: nobody else reports an event with their ids,
for one file has one open import.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.db import connection

from routing.errors import Busy
from routing.normalise import Address, CleanLead
from routing.placing import BELONGS, Placing

NOTHING_MORE: Mapping[Address, int] = {}


@dataclass(frozen=True)
class Entry:
    """A lead to enter, where it belongs, and the event that brings it; `payload` is JSON."""

    lead: CleanLead
    placing: Placing
    event_id: str
    payload: str


@dataclass(frozen=True)
class Became:
    """The lead an entry belongs to now, and whether it was made for it."""

    lead_id: int
    new: bool


def enter_many(
    *, entries: Sequence[Entry], source_id: int, also_known: Mapping[Address, int] = NOTHING_MORE
) -> list[Became]:
    """Enter these leads as waiting, in this order, each new or a touch of the open lead that has one of its addresses.

    `also_known`, for a rehearsal that is rolled back, says which lead an address belongs to that no table knows. Call
    inside a transaction. Raises Busy if a known lead was closed at that very moment; IntegrityError if another
    transaction has brought one of the events meanwhile. Nothing of the chunk may be committed then.
    """
    ids = reserve(len(entries))
    first: dict[Address, int] = {}
    for lead_id, entry in zip(ids, entries, strict=True):
        for address in entry.lead.addresses:
            first.setdefault(address, lead_id)
    owner = claim_addresses(first)
    owner.update((address, lead_id) for address, lead_id in also_known.items() if address not in owner)
    became = []
    for lead_id, entry in zip(ids, entries, strict=True):
        known = next((owner[address] for address in entry.lead.addresses if address in owner), None)
        became.append(Became(lead_id if known is None else known, known is None))
        for address in entry.lead.addresses:
            owner.setdefault(address, became[-1].lead_id)
    move_addresses([(address, owner[address]) for address, lead_id in first.items() if owner[address] != lead_id])
    insert_leads([(each.lead_id, entry) for each, entry in zip(became, entries, strict=True) if each.new])
    insert_events(list(zip(became, entries, strict=True)), source_id)
    return became


def reserve(count: int) -> list[int]:
    """As many keys for leads, ascending, so that leads take their turns in the order of the file."""
    with connection.cursor() as cursor:
        cursor.execute(RESERVE, [count])
        return sorted(key for (key,) in cursor.fetchall())


def claim_addresses(first: Mapping[Address, int]) -> dict[Address, int]:
    """Give each address to its lead. Return those that an open lead has already, with that lead.

    The partial unique index on open addresses decides, as for a single lead, and locks what is known until our commit.
    """
    with connection.cursor() as cursor:
        cursor.execute(INSERT_ADDRESSES, _columns(first))
        inserted = {Address(*row) for row in cursor.fetchall()}
        known = [address for address in first if address not in inserted]
        if not known:
            return {}
        cursor.execute(OPEN_LEADS_OF, [[each.kind for each in known], [each.value for each in known]])
        found = {Address(kind, value): lead_id for kind, value, lead_id in cursor.fetchall()}
    if len(found) < len(known):
        raise Busy
    return found


def move_addresses(wrong: Sequence[tuple[Address, int]]) -> None:
    """Give addresses of known leads, which a new lead has only just got, to the lead they belong to."""
    moves = {address: lead_id for address, lead_id in wrong if lead_id > 0}
    if moves:
        with connection.cursor() as cursor:
            cursor.execute(MOVE_ADDRESSES, _columns(moves))


def insert_leads(new: Sequence[tuple[int, Entry]]) -> None:
    """Insert new leads, each where its rules and owners say."""
    if not new:
        return
    rows = [
        {
            "id": lead_id,
            "kinds": [address.kind for address in entry.lead.addresses],
            "values": [address.value for address in entry.lead.addresses],
            "email": entry.lead.email,
            "phone": entry.lead.phone,
            "first_name": entry.lead.first_name,
            "last_name": entry.lead.last_name,
            "company": entry.lead.company,
            "country": entry.lead.country,
            "fields": entry.lead.fields,
            "team": entry.placing.team_id,
            "source_team": entry.placing.source_team_id,
            "part": entry.placing.part_id,
            "rep": entry.placing.rep_id,
            "sticky": entry.placing.sticky_owner,
            "owners": entry.placing.account_owner,
            "domains": entry.placing.domains,
            "why": entry.placing.why,
        }
        for lead_id, entry in new
    ]
    with connection.cursor() as cursor:
        cursor.execute(INSERT_LEADS, [json.dumps(rows, ensure_ascii=False)])


def insert_events(brought: Sequence[tuple[Became, Entry]], source_id: int) -> None:
    """Insert what each row reported, with its outcome."""
    with connection.cursor() as cursor:
        cursor.execute(
            INSERT_EVENTS,
            [
                source_id,
                [entry.event_id for _, entry in brought],
                [hashlib.sha256(entry.payload.encode()).hexdigest() for _, entry in brought],
                [each.lead_id for each, _ in brought],
                ["created" if each.new else "touched" for each, _ in brought],
                [entry.payload for _, entry in brought],
            ],
        )


def _columns(owners: Mapping[Address, int]) -> list[list[str] | list[int]]:
    return [[each.kind for each in owners], [each.value for each in owners], list(owners.values())]


RESERVE = "SELECT nextval(pg_get_serial_sequence('routing_lead', 'id')) FROM generate_series(1, %s)"

INSERT_ADDRESSES = """
    INSERT INTO routing_leadaddress (lead_id, kind, value)
         SELECT address.lead_id, address.kind, address.value
           FROM unnest(%s::text[], %s::text[], %s::bigint[]) AS address(kind, value, lead_id)
          ORDER BY address.kind, address.value
    -- as for a single lead: an address of a lead that was closed meanwhile is free
    ON CONFLICT (kind, value) WHERE open DO UPDATE SET lead_id = excluded.lead_id
      WHERE (SELECT lead.status FROM routing_lead lead WHERE lead.id = routing_leadaddress.lead_id) = 'closed'
    RETURNING kind, value
"""

OPEN_LEADS_OF = """
    SELECT held.kind, held.value, held.lead_id
      FROM unnest(%s::text[], %s::text[]) AS address(kind, value)
      JOIN routing_leadaddress held ON held.kind = address.kind AND held.value = address.value AND held.open
      JOIN routing_lead lead ON lead.id = held.lead_id AND lead.status <> 'closed'
"""

MOVE_ADDRESSES = """
    UPDATE routing_leadaddress held SET lead_id = address.lead_id
      FROM unnest(%s::text[], %s::text[], %s::bigint[]) AS address(kind, value, lead_id)
     WHERE held.kind = address.kind AND held.value = address.value AND held.open
"""

PARAMETERS = ("team", "source_team", "part", "rep", "sticky", "owners", "domains", "kinds", "values")
BELONGS_EACH = (BELONGS % {name: f"wanted.{name}" for name in PARAMETERS}).strip().removesuffix(",")

INSERT_LEADS = f"""
    INSERT INTO routing_lead (id, team_id, part_id, preferred_id, account_id, email, phone, first_name, last_name,
                              company, country, fields, why, previous_id)
         SELECT wanted.id, place.team_id, place.part_id, place.preferred_id, place.account_id, wanted.email,
                wanted.phone, wanted.first_name, wanted.last_name, wanted.company, wanted.country, wanted.fields,
                wanted.why || place.why
                    || CASE WHEN place.instead THEN jsonb_build_object('retired_team', wanted.team) ELSE '{{}}' END,
                place.previous_id
           FROM jsonb_to_recordset(%s::jsonb) AS wanted(
                    id bigint, kinds text[], "values" text[], email text, phone text, first_name text, last_name text,
                    company text, country text, fields jsonb, team bigint, source_team bigint, part bigint, rep bigint,
                    sticky boolean, owners boolean, domains text[], why jsonb)
          CROSS JOIN LATERAL (
                WITH {BELONGS_EACH}
                SELECT belongs.*, (SELECT id FROM account) AS account_id, before.id AS previous_id
                  FROM belongs, before) place
          ORDER BY wanted.id
"""

INSERT_EVENTS = """
    INSERT INTO routing_inboundevent (source_id, event_id, digest, lead_id, outcome, payload)
         SELECT %s, event.id, event.digest, event.lead_id, event.outcome, event.payload::jsonb
           FROM unnest(%s::text[], %s::text[], %s::bigint[], %s::text[], %s::text[])
                AS event(id, digest, lead_id, outcome, payload)
          ORDER BY event.id
"""
