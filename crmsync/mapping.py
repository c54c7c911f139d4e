"""How Rota's fields are called in the org: one table per object, applied when a change is sent.

A field without a line here is not sent; it stays in the message. What Salesforce requires and Rota does not know gets a
placeholder when the record is created, so that a lead with nothing but an address still lands.

Fields that an org has only if somebody made them have no line here: a name that the org does not know would have the
whole record refused. People name them in the admin, settings name those of campaign mail; see field_map.py.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

PLACEHOLDER = "[not provided]"
RAW = "org:"
"""How the name of a field begins that is the org's own and that no table has: mass updates may write any field."""


@dataclass(frozen=True, slots=True)
class ObjectMapping:
    """`fields`: Rota's name to Salesforce's. `required`: Salesforce refuses to create a record without them.

    `lengths`: characters that Salesforce's standard fields hold (its object reference). A longer text is cut for the
    CRM, which would refuse the whole record for it; Rota keeps all of it. `texts`: fields known to take a text only.
    """

    fields: Mapping[str, str]
    required: Sequence[str] = field(default=())
    lengths: Mapping[str, int] = field(default_factory=dict)
    texts: Collection[str] = field(default=frozenset())


MAPPING: Mapping[str, ObjectMapping] = {
    "Lead": ObjectMapping(
        fields={
            "email": "Email",
            "phone": "Phone",
            "first_name": "FirstName",
            "last_name": "LastName",
            "company": "Company",
            "country": "Country",
            "source": "LeadSource",
            "owner": "OwnerId",
            "status": "Status",
            "employees": "NumberOfEmployees",
        },
        required=("LastName", "Company"),
        lengths={"FirstName": 40, "LastName": 80, "Company": 255, "Country": 80, "Phone": 40},
    ),
    "Contact": ObjectMapping(
        fields={
            "email": "Email",
            "phone": "Phone",
            "first_name": "FirstName",
            "last_name": "LastName",
            "country": "MailingCountry",
            "source": "LeadSource",
            "owner": "OwnerId",
            "title": "Title",
            "opted_out": "HasOptedOutOfEmail",
        },
        required=("LastName",),
        lengths={"FirstName": 40, "LastName": 80, "MailingCountry": 80, "Phone": 40, "Title": 128},
    ),
    "Account": ObjectMapping(
        fields={
            "name": "Name",
            "website": "Website",
            "phone": "Phone",
            "industry": "Industry",
            "country": "BillingCountry",
            "owner": "OwnerId",
        },
        required=("Name",),
        lengths={"Name": 255, "Phone": 40, "BillingCountry": 80},
    ),
    # Type, not TaskSubtype: that can be set only once, and an upsert that is repeated would be refused for it.
    "Task": ObjectMapping(
        fields={
            "subject": "Subject",
            "due_on": "ActivityDate",
            "status": "Status",
            "kind": "Type",
            "description": "Description",
            "owner": "OwnerId",
        },
        lengths={"Subject": 255, "Description": 32_000},
    ),
}
MANY_KINDS: Mapping[str, Collection[str]] = {"Task": {"Who", "What"}}
"""Relations that may lead to records of several objects: there a parent is named by the org's own id."""


NO_TABLE = ObjectMapping(fields={})


def named(fields: Mapping[str, Any], table: ObjectMapping) -> dict[str, Any]:
    """The org's fields under the names that messages carry them by.

    So every field of a record has one name in the outbox, whoever writes it, and the newer value of two wins.
    """
    names = {theirs: ours for ours, theirs in table.fields.items()}
    return {names.get(name, f"{RAW}{name}"): value for name, value in fields.items()}


def body(
    *,
    table: ObjectMapping,
    fields: Mapping[str, Any],
    parents: Sequence[Mapping[str, str]],
    external_id_field: str,
    creating: bool,
) -> dict[str, Any]:
    """The record as Salesforce takes it, without its own external id. `creating`: the CRM never confirmed it yet."""
    record = {}
    for name, value in fields.items():
        if name in table.fields:
            theirs = table.fields[name]
            record[theirs] = cut(as_text(value) if theirs in table.texts else value, table.lengths.get(theirs))
        elif name.startswith(RAW):
            record[name.removeprefix(RAW)] = value
    for name in table.required:
        if (name in record and record[name] in (None, "")) or (creating and name not in record):
            record[name] = PLACEHOLDER
    for parent in parents:
        if "external_id" in parent:
            record[parent["relation"]] = {external_id_field: parent["external_id"]}
        else:
            record[lookup_field(parent["relation"])] = parent["crm_id"]
    return record


def as_text(value: Any) -> Any:
    """The value as a text field takes it; what has parts becomes JSON, and nothing stays nothing."""
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def cut(value: Any, most: int | None) -> Any:
    """The value; of a text longer than `most` characters its beginning, and an ellipsis that says so."""
    return f"{value[: most - 1]}…" if most and isinstance(value, str) and len(value) > most else value


def lookup_field(relation: str) -> str:
    """The field that holds the parent's own id: Account -> AccountId, Rating__r -> Rating__c."""
    return f"{relation.removesuffix('__r')}__c" if relation.endswith("__r") else f"{relation}Id"
