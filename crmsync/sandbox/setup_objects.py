"""What the org says about what is built into it: triggers, flows, rules, asked by SOQL, mostly through the Tooling API.

Only the part of SOQL with one condition after another joined by AND is spoken here (Tooling API guide: ApexTrigger,
ValidationRule; object reference: FlowDefinitionView, AssignmentRule, DuplicateRule).
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from starlette.responses import Response

from crmsync.sandbox import ids
from crmsync.sandbox.automation import AssignmentRule, DuplicateRule, Part, Trigger, ValidationRule
from crmsync.sandbox.calls import DataCall
from crmsync.sandbox.errors import CallError, not_found
from crmsync.sandbox.org import Org
from crmsync.sandbox.soql_parser import Comparison, Condition, Group, Query, complaint, parse

Made = dict[str, Any]
LITERALS = {"TRUE": True, "FALSE": False, "NULL": None}


async def answer(call: DataCall) -> Response:
    """`tooling/query/?q=`. Raises CallError."""
    if call.segments[1:] != ["query"]:
        raise not_found()
    if call.method != "GET":
        call.not_allowed("GET")
    return call.answer(found(call.org, parse(call.request.query_params.get("q", "")), TOOLING))


def found(org: Org, query: Query, kinds: Mapping[str, Callable[[Org], Iterator[Made]]]) -> dict[str, Any]:
    """The answer to a query of one of these kinds. Raises CallError for an object or field that is not known."""
    name = query.from_name.text
    if name not in kinds:
        text = f"sObject type '{name}' is not supported."
        raise complaint("INVALID_TYPE", query.text, query.from_name.at, text)
    records = [record for record in kinds[name](org) if query.where is None or _meets(record, query.where, query)]
    for order in reversed(query.order):
        key = order.name.text
        records.sort(key=lambda record: str(_value(record, key, query)), reverse=order.descending)
    end = None if query.limit is None else query.offset + query.limit
    records = records[query.offset : end]
    if not query.fields:
        return {"totalSize": len(records), "done": True, "records": []}
    shown = [
        {
            "attributes": {"type": name},
            **_nested({each.text: _value(record, each.text, query) for each in query.fields}),
        }
        for record in records
    ]
    return {"size": len(shown), "totalSize": len(shown), "done": True, "queryLocator": None, "records": shown}


def _triggers(org: Org) -> Iterator[Made]:
    for number, part in _numbered(org, Trigger):
        if not part.is_flow:
            events = {
                f"Usage{when}{event.title()}": event in part.events for when in ("Before", "After") for event in EVENTS
            }
            yield {
                "Id": ids.make("01q", number),
                "Name": part.name,
                "TableEnumOrId": part.object,
                "Status": "Active" if part.is_active else "Inactive",
                "ApiVersion": 59.0,
                "NamespacePrefix": None,
                "UsageAfterUndelete": False,
                "UsageIsBulk": False,
                **events,
            }


def _flows(org: Org) -> Iterator[Made]:
    for number, part in _numbered(org, Trigger):
        if part.is_flow:
            yield {
                "Id": ids.make("3dd", number),
                "DurableId": ids.make("300", number),
                "ApiName": part.name,
                "Label": part.name.replace("_", " "),
                "ProcessType": "AutoLaunchedFlow",
                "TriggerType": "RecordBeforeDelete" if part.events == ("delete",) else "RecordAfterSave",
                "RecordTriggerType": RECORD_TRIGGERS.get(frozenset(part.events) - {"delete"}, "Delete"),
                "TriggerObjectOrEventId": part.object,
                "TriggerObjectOrEventLabel": org.schema.objects[part.object].label,
                "TriggerObjectOrEvent.QualifiedApiName": part.object,
                "IsActive": part.is_active,
                "NamespacePrefix": None,
            }


def _validation_rules(org: Org) -> Iterator[Made]:
    for number, part in _numbered(org, ValidationRule):
        yield {
            "Id": ids.make("03d", number),
            "ValidationName": part.name,
            "Active": part.is_active,
            "ErrorMessage": part.message,
            "ErrorDisplayField": part.field,
            "EntityDefinition.QualifiedApiName": part.object,
            "NamespacePrefix": None,
        }


def _assignment_rules(org: Org) -> Iterator[Made]:
    for _, part in _numbered(org, AssignmentRule):
        full = ids.canonical(part.id) or part.id
        yield {"Id": full, "Name": part.name, "SobjectType": part.object, "Active": part.is_active}


def _duplicate_rules(org: Org) -> Iterator[Made]:
    for number, part in _numbered(org, DuplicateRule):
        yield {
            "Id": ids.make("0Bm", number),
            "DeveloperName": part.name,
            "MasterLabel": part.name.replace("_", " "),
            "SobjectType": part.object,
            "IsActive": part.is_active,
            "NamespacePrefix": None,
        }


def _roll_ups(org: Org) -> Iterator[Made]:
    """Roll-up summary fields. The real CustomField hides the rest in Metadata; here it stands beside."""
    number = 0
    for name, rolled in org.schema.rollups.items():
        for parent, known, rollup in rolled:
            number += 1
            yield {
                "Id": ids.make("00N", number),
                "DeveloperName": known.name.removesuffix("__c"),
                "TableEnumOrId": parent.name,
                "SummarizedObject": name,
                "SummaryForeignKey": f"{name}.{rollup.by}",
            }


EVENTS = ("insert", "update", "delete")
RECORD_TRIGGERS = {
    frozenset({"insert"}): "Create",
    frozenset({"update"}): "Update",
    frozenset({"insert", "update"}): "CreateAndUpdate",
}
DATA: dict[str, Callable[[Org], Iterator[Made]]] = {
    "ApexTrigger": _triggers,
    "FlowDefinitionView": _flows,
    "AssignmentRule": _assignment_rules,
    "DuplicateRule": _duplicate_rules,
}
TOOLING = {**DATA, "ValidationRule": _validation_rules, "CustomField": _roll_ups}


def _numbered(org: Org, kind: type[Any]) -> Iterator[tuple[int, Any]]:
    parts: list[Part] = [part for part in org.automation.parts if isinstance(part, kind)]
    return iter(enumerate(parts, start=1))


def _meets(record: Made, condition: Condition, query: Query) -> bool:
    if isinstance(condition, Group):
        results = [_meets(record, part, query) for part in condition.parts]
        return (
            not results[0]
            if condition.operator == "NOT"
            else all(results)
            if condition.operator == "AND"
            else any(results)
        )
    value = _value(record, condition.name.text, query)
    return _compare(condition, value.casefold() if isinstance(value, str) else value)


def _compare(condition: Comparison, value: Any) -> bool:
    wanted = [
        LITERALS[each.word] if each.word in LITERALS else each.text.strip("'").casefold() for each in condition.literals
    ]
    match condition.operator:
        case "=" | "IN":
            return value in wanted
        case "!=" | "NOT IN":
            return value not in wanted
    raise CallError(400, "MALFORMED_QUERY", f"{condition.operator} is not supported here")


def _value(record: Made, name: str, query: Query) -> Any:
    for known, value in record.items():
        if known.lower() == name.lower():
            return value
    raise CallError(400, "INVALID_FIELD", f"No such column '{name}' on entity '{query.from_name.text}'")


def _nested(flat: Made) -> Made:
    nested: Made = {}
    for name, value in flat.items():
        parent, _, last = name.rpartition(".")
        if parent:
            nested.setdefault(parent, {})[last] = value
        else:
            nested[name] = value
    return nested
