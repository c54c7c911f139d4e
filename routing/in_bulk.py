"""Enter many leads in one transaction, with the outcomes that `leads.enter` has for the same leads one by one.

A handful of statements whatever the number, and COPY for all that needs no decision of the database. Locks are taken as
a webhook takes them: addresses in order, then leads. Only the events come last instead of first, once their outcome is
known: nobody else reports an event with their ids, for one file has one open import.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection

from routing.errors import Busy
from routing.models import Team
from routing.normalise import Address, CleanLead
from routing.placing import BELONGS, Placing

NOTHING_MORE: Mapping[Address, int] = {}
as_json = json.JSONEncoder(ensure_ascii=False).encode


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
    new = [(each.lead_id, entry) for each, entry in zip(became, entries, strict=True) if each.new]
    owned = with_owners([entry for _, entry in new])
    insert_plain([(lead_id, entry) for lead_id, entry in new if entry.event_id not in owned])
    insert_owned([(lead_id, entry) for lead_id, entry in new if entry.event_id in owned])
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
        cursor.execute(INSERT_ADDRESSES, _texts(first))
        inserted = {Address(*row) for row in cursor.fetchall()}
        known = [address for address in first if address not in inserted]
        if not known:
            return {}
        cursor.execute(OPEN_LEADS_OF, _texts(known))
        found = {Address(kind, value): lead_id for kind, value, lead_id in cursor.fetchall()}
    if len(found) < len(known):
        raise Busy
    return found


def move_addresses(wrong: Sequence[tuple[Address, int]]) -> None:
    """Give addresses of known leads, which a new lead has only just got, to the lead they belong to."""
    moves = {address: lead_id for address, lead_id in wrong if lead_id > 0}
    if moves:
        with connection.cursor() as cursor:
            cursor.execute(MOVE_ADDRESSES, _texts(moves))


def with_owners(entries: Sequence[Entry]) -> set[str]:
    """The events of those leads that may have an owner, or whose team is gone: where they belong, SQL decides."""
    addresses = {address for entry in entries for address in entry.lead.addresses}
    domains = {domain for entry in entries for domain in entry.placing.domains}
    teams = {entry.placing.team_id for entry in entries}
    in_service = set(Team.objects.filter(pk__in=teams, retired_at=None).values_list("pk", flat=True))
    with connection.cursor() as cursor:
        cursor.execute(CLOSED_BEFORE, _texts(addresses))
        before = {Address(*row) for row in cursor.fetchall()}
        cursor.execute(ACCOUNTS_OF, ["\n".join(domains)])
        known = {domain for (domain,) in cursor.fetchall()}
    return {
        entry.event_id
        for entry in entries
        if entry.placing.rep_id is not None
        or entry.placing.team_id not in in_service
        or not before.isdisjoint(entry.lead.addresses)
        or not known.isdisjoint(entry.placing.domains)
    }


def insert_plain(new: Sequence[tuple[int, Entry]]) -> None:
    """Insert new leads that nobody owns: each belongs where its rule or its source says."""
    copy_rows(
        "routing_lead",
        "id, team_id, part_id, email, phone, first_name, last_name, company, country, fields, why",
        (
            (
                lead_id,
                place.team_id,
                place.part_id,
                lead.email,
                lead.phone,
                lead.first_name,
                lead.last_name,
                lead.company,
                lead.country,
                as_json(lead.fields),
                as_json({**place.why, "team": place.team_id, "preferred": None, "steps": []}),
            )
            for lead_id, lead, place in ((lead_id, entry.lead, entry.placing) for lead_id, entry in new)
        ),
    )


def insert_owned(new: Sequence[tuple[int, Entry]]) -> None:
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
        cursor.execute(INSERT_LEADS, [as_json(rows)])


def insert_events(brought: Sequence[tuple[Became, Entry]], source_id: int) -> None:
    """Insert what each row reported, with its outcome."""
    copy_rows(
        "routing_inboundevent",
        "source_id, event_id, digest, lead_id, outcome, payload",
        (
            (
                source_id,
                entry.event_id,
                hashlib.sha256(entry.payload.encode()).hexdigest(),
                each.lead_id,
                "created" if each.new else "touched",
                entry.payload,
            )
            for each, entry in brought
        ),
    )


def copy_rows(table: str, columns: str, rows: Iterable[tuple[Any, ...]]) -> None:
    """COPY rows into a table. Call inside a transaction. Raises Django's database errors."""
    with (
        connection.wrap_database_errors,
        connection.cursor() as cursor,
        cursor.copy(f"COPY {table} ({columns}) FROM STDIN") as copy,
    ):
        for row in rows:
            copy.write_row(row)


def _texts(addresses: Iterable[Address]) -> list[str]:
    """Kinds, values and, of a mapping, leads, each as one text: no address has a line end in it, and a list of
    thousands costs more to write as an array than to insert.
    """
    found = ["\n".join(each.kind for each in addresses), "\n".join(each.value for each in addresses)]
    return [*found, "\n".join(map(str, addresses.values()))] if isinstance(addresses, Mapping) else found


RESERVE = "SELECT nextval(pg_get_serial_sequence('routing_lead', 'id')) FROM generate_series(1, %s)"

LEADS_ADDRESSES = """
    unnest(string_to_array(%s, E'\\n'), string_to_array(%s, E'\\n'), string_to_array(%s, E'\\n')::bigint[])
        AS address(kind, value, lead_id)
"""
ADDRESSES = "unnest(string_to_array(%s, E'\\n'), string_to_array(%s, E'\\n')) AS address(kind, value)"

INSERT_ADDRESSES = f"""
    INSERT INTO routing_leadaddress (lead_id, kind, value)
         SELECT address.lead_id, address.kind, address.value
           FROM {LEADS_ADDRESSES}
          ORDER BY address.kind, address.value
    -- as for a single lead: an address of a lead that was closed meanwhile is free
    ON CONFLICT (kind, value) WHERE open DO UPDATE SET lead_id = excluded.lead_id
      WHERE (SELECT lead.status FROM routing_lead lead WHERE lead.id = routing_leadaddress.lead_id) = 'closed'
    RETURNING kind, value
"""

OPEN_LEADS_OF = f"""
    SELECT held.kind, held.value, held.lead_id
      FROM {ADDRESSES}
      JOIN routing_leadaddress held ON held.kind = address.kind AND held.value = address.value AND held.open
      JOIN routing_lead lead ON lead.id = held.lead_id AND lead.status <> 'closed'
"""

MOVE_ADDRESSES = f"""
    UPDATE routing_leadaddress held SET lead_id = address.lead_id
      FROM {LEADS_ADDRESSES}
     WHERE held.kind = address.kind AND held.value = address.value AND held.open
"""

CLOSED_BEFORE = f"""
    SELECT DISTINCT address.kind, address.value
      FROM {ADDRESSES}
      JOIN routing_leadaddress earlier USING (kind, value) WHERE NOT earlier.open
"""

ACCOUNTS_OF = r"SELECT domain FROM routing_accountdomain WHERE domain = ANY (string_to_array(%s, E'\n'))"

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
