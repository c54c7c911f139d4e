"""What the org says of an object: its fields, what each takes, and what its relations point to."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from crmsync.errors import CallFailed, NoSuchObject
from crmsync.gateway import Org


@dataclass(frozen=True, slots=True)
class FieldInfo:
    """One field, as `describe` has it. `length` in characters; `values`: of a picklist that takes no others;
    `rolls_up`: calculated, by no formula of its own."""

    name: str
    type: str
    length: int = 0
    precision: int = 0
    scale: int = 0
    nillable: bool = True
    createable: bool = True
    updateable: bool = True
    needed: bool = False
    external_id: bool = False
    unique: bool = False
    rolls_up: bool = False
    case_sensitive: bool = False
    values: tuple[str, ...] = ()
    refers_to: tuple[str, ...] = ()
    relation: str = ""


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """An object as the signed-in user may use it, with the fields that this user may see under their names, and the
    object that each prefix of an id stands for."""

    name: str
    fields: Mapping[str, FieldInfo]
    prefixes: Mapping[str, str]
    createable: bool = True
    updateable: bool = True

    def field(self, name: str) -> FieldInfo | None:
        """The field of this name; Salesforce minds no capitals in names of fields."""
        return self.fields.get(name) or next((one for one in self.fields.values() if same(one.name, name)), None)

    def relation(self, name: str) -> FieldInfo | None:
        """The field behind a relation: AccountId for Account."""
        return next((one for one in self.fields.values() if one.relation and same(one.relation, name)), None)


def same(one: str, other: str) -> bool:
    return one.casefold() == other.casefold()


def read_object(org: Org, name: str) -> ObjectInfo:
    """Ask the org about an object, in two calls. Raises NoSuchObject, and CallFailed where the org does not answer."""
    known = {one["name"]: one.get("keyPrefix") for one in org.call("GET", "sobjects/", None, {})["sobjects"]}
    found = next((one for one in known if same(one, name)), None)
    if found is None:
        near = difflib.get_close_matches(name, known, n=1)
        raise NoSuchObject(f"“{name}”." + (f" Is {near[0]} meant?" if near else " Names are API names, like Contact."))
    try:
        answer = org.call("GET", f"sobjects/{found}/describe", None, {})
    except CallFailed as failed:
        if failed.fault.code == "NOT_FOUND":
            raise NoSuchObject(f"“{name}”.") from failed
        raise
    fields = {one["name"]: field_info(one) for one in answer["fields"]}
    return ObjectInfo(
        name=found,
        fields=fields,
        prefixes={prefix: name for name, prefix in known.items() if prefix},
        createable=bool(answer["createable"]),
        updateable=bool(answer["updateable"]),
    )


def field_info(said: Mapping[str, Any]) -> FieldInfo:
    needed = not said["nillable"] and said["createable"] and not said.get("defaultedOnCreate")
    restricted = said.get("restrictedPicklist")
    values = [one["value"] for one in said.get("picklistValues") or () if one.get("active", True)]
    return FieldInfo(
        name=said["name"],
        type=said["type"],
        length=int(said.get("length") or 0),
        precision=int(said.get("precision") or 0),
        scale=int(said.get("scale") or 0),
        nillable=bool(said["nillable"]),
        createable=bool(said["createable"]),
        updateable=bool(said["updateable"]),
        needed=bool(needed),
        external_id=bool(said.get("externalId")),
        unique=bool(said.get("unique")),
        rolls_up=bool(said.get("calculated")) and not said.get("calculatedFormula"),
        case_sensitive=bool(said.get("caseSensitive")),
        values=tuple(values) if restricted else (),
        refers_to=tuple(said.get("referenceTo") or ()),
        relation=said.get("relationshipName") or "",
    )
