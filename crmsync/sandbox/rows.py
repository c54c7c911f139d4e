"""One row of a write as the caller sent it, read against the schema before anything is looked up or locked."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from crmsync.sandbox import values
from crmsync.sandbox.errors import RowError, no_such_column
from crmsync.sandbox.schema import Field, SObject

Action = Literal["insert", "update", "upsert", "delete"]


@dataclass(frozen=True)
class Row:
    """What a caller wants of one record: `record_id` names it for update and delete, `key` for upsert. A duplicate rule
    may be passed over with `allow_duplicates`."""

    action: Action
    sobject: SObject
    fields: Mapping[str, Any] = field(default_factory=dict)
    record_id: str | None = None
    key: tuple[Field, str] | None = None
    allow_duplicates: bool = False


@dataclass(frozen=True)
class Link:
    """A parent named by its external id: `{"Account": {"Rota_Id__c": "a-1"}}`."""

    reference: Field
    sobject_name: str
    by: str
    value: str


@dataclass(frozen=True)
class Draft:
    """The row's values as they will be stored, and the parents still to be looked up."""

    values: dict[str, Any]
    links: tuple[Link, ...]


def draft(row: Row) -> Draft:
    """Read the row's fields. Raises RowError for an unknown or read-only field and for a value of the wrong kind."""
    stored: dict[str, Any] = {}
    links = []
    for name, value in row.fields.items():
        relation = row.sobject.relation(name)
        if relation is not None and (value is None or isinstance(value, dict)):
            _check_writable(relation)
            if value is None:
                stored[relation.name] = None
            else:
                links.append(_link(row.sobject, relation, value))
            continue
        known = row.sobject.field(name)
        if known is None:
            raise no_such_column(name, row.sobject.name)
        if known.type == "id":
            raise RowError("INVALID_FIELD", "The Id field should not be specified in the sobject data.")
        _check_writable(known)
        stored[known.name] = values.to_stored(known, value)
    if row.key is not None:
        known, key_value = row.key
        stored[known.name] = values.to_stored(known, key_value)
        if stored[known.name] is None:
            raise RowError("MISSING_ARGUMENT", f"{known.name} not specified", [known.name])
    return Draft(stored, tuple(links))


def _check_writable(known: Field) -> None:
    if not known.writable:
        text = (
            f"Unable to create/update fields: {known.name}. Please check the security settings of this field and "
            "verify that it is read/write for your profile or permission set."
        )
        raise RowError("INVALID_FIELD_FOR_INSERT_UPDATE", text, [known.name])


def _link(sobject: SObject, relation: Field, value: dict[str, Any]) -> Link:
    attributes = value.get("attributes", {})
    named = {name: given for name, given in value.items() if name != "attributes"}
    targets = [attributes["type"]] if isinstance(attributes, dict) and "type" in attributes else list(relation.to)
    if len(named) != 1 or len(targets) != 1 or targets[0] not in relation.to:
        text = f"{relation.relationship}: one external id is needed, and where several objects may stand the type"
        raise RowError("INVALID_FIELD", text)
    ((by, given),) = named.items()
    return Link(relation, targets[0], by, str(given))
