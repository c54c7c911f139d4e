"""How Rota's fields are called in the org: one table per object, applied when a change is sent.

A field without a line here is not sent; it stays in the message. What Salesforce requires and Rota does not know gets a
placeholder when the record is created, so that a lead with nothing but an address still lands.

Fields that an org has only if somebody made them, such as the last campaign of a lead, have no line here: a name that
the org does not know would have the whole record refused. Settings name them (CRM_MAIL_FIELDS); they come in as `own`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

PLACEHOLDER = "[not provided]"


@dataclass(frozen=True, slots=True)
class ObjectMapping:
    """`fields`: Rota's name to Salesforce's. `required`: Salesforce refuses to create a record without them.

    `lengths`: characters that Salesforce's standard fields hold (its object reference). A longer text is cut for the
    CRM, which would refuse the whole record for it; Rota keeps all of it.
    """

    fields: Mapping[str, str]
    required: Sequence[str] = field(default=())
    lengths: Mapping[str, int] = field(default_factory=dict)


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
}


def body(
    *,
    object: str,
    fields: Mapping[str, Any],
    parents: Sequence[Mapping[str, str]],
    external_id_field: str,
    creating: bool,
    own: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The record as Salesforce takes it, without its own external id. `creating`: the CRM never confirmed it yet.
    `own`: fields of this org that no table has, Rota's name to the org's.

    Raises KeyError for an object that has no table.
    """
    table = MAPPING[object]
    names = {**(own or {}), **table.fields}
    record = {
        names[name]: cut(value, table.lengths.get(names[name])) for name, value in fields.items() if name in names
    }
    for name in table.required:
        if (name in record and record[name] in (None, "")) or (creating and name not in record):
            record[name] = PLACEHOLDER
    for parent in parents:
        if "external_id" in parent:
            record[parent["relation"]] = {external_id_field: parent["external_id"]}
        else:
            record[lookup_field(parent["relation"])] = parent["crm_id"]
    return record


def cut(value: Any, most: int | None) -> Any:
    """The value; of a text longer than `most` characters its beginning, and an ellipsis that says so."""
    return f"{value[: most - 1]}…" if most and isinstance(value, str) and len(value) > most else value


def lookup_field(relation: str) -> str:
    """The field that holds the parent's own id: Account -> AccountId, Rating__r -> Rating__c."""
    return f"{relation.removesuffix('__r')}__c" if relation.endswith("__r") else f"{relation}Id"
