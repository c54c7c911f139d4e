"""Questions to the org about itself; nothing here writes. Each raises CallFailed where the org does not answer it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from crmsync.describe import read_object
from crmsync.gateway import Org, soql


@dataclass(frozen=True, slots=True)
class Built:
    """Something administrators built into an object. `kind` is a word for people, `detail` when it runs, if known."""

    kind: str
    object: str
    name: str
    detail: str = ""


def limits(org: Org) -> dict[str, tuple[int, int]]:
    """The org's limits by name: how much there is, how much is left."""
    answer = org.call("GET", "limits", None, {})
    return {name: (each["Max"], each["Remaining"]) for name, each in answer.items() if "Max" in each}


def active_users(org: Org, ids: Sequence[str]) -> set[str]:
    """Those of these user ids (18 letters) that belong to active users."""
    found: set[str] = set()
    for start in range(0, len(ids), 200):
        query = soql("SELECT Id FROM User WHERE IsActive = true AND Id IN {}", list(ids[start : start + 200]))
        found |= {each["Id"] for each in org.query(query)}
    return found


def assignment_rules(org: Org) -> list[Built]:
    rows = org.query("SELECT Name, SobjectType FROM AssignmentRule WHERE Active = true")
    return [Built("assignment rule", row["SobjectType"], row["Name"]) for row in rows]


def duplicate_rules(org: Org) -> list[Built]:
    rows = org.query("SELECT DeveloperName, SobjectType FROM DuplicateRule WHERE IsActive = true")
    return [Built("duplicate rule", row["SobjectType"], row["DeveloperName"]) for row in rows]


def validation_rules(org: Org) -> list[Built]:
    fields = "ValidationName, EntityDefinition.QualifiedApiName"
    rows = tooling(org, f"SELECT {fields} FROM ValidationRule WHERE Active = true")
    return [
        Built("validation rule", row["EntityDefinition"]["QualifiedApiName"], row["ValidationName"]) for row in rows
    ]


def triggers(org: Org) -> list[Built]:
    rows = tooling(org, "SELECT Name, TableEnumOrId FROM ApexTrigger WHERE Status = 'Active'")
    return [Built("trigger", row["TableEnumOrId"], row["Name"]) for row in rows]


def flows(org: Org) -> list[Built]:
    """Flows that run when a record is saved (object reference, FlowDefinitionView)."""
    fields = "ApiName, TriggerType, RecordTriggerType, TriggerObjectOrEvent.QualifiedApiName"
    rows = org.query(f"SELECT {fields} FROM FlowDefinitionView WHERE IsActive = true AND TriggerType != null")
    return [
        Built("flow", parent["QualifiedApiName"], row["ApiName"], str(row["RecordTriggerType"] or ""))
        for row in rows
        if (parent := row["TriggerObjectOrEvent"])
    ]


def tooling(org: Org, soql: str) -> list[dict[str, Any]]:
    """The first page of an answer of the Tooling API, 2,000 rows."""
    answer = org.call("GET", "tooling/query/", None, {}, params={"q": soql})
    records: list[dict[str, Any]] = answer["records"]
    return records


def roll_ups(org: Org, names: Sequence[str]) -> list[Built]:
    """Roll-up summary fields of these objects. Raises NoSuchObject, too."""
    return [
        Built("roll-up", name, field.name)
        for name in names
        for field in read_object(org, name).fields.values()
        if field.rolls_up
    ]
