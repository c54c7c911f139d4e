"""What the org says about itself: its objects and their fields, the API versions it speaks, its limits."""

from typing import Any

from crmsync.sandbox.calls import DataCall
from crmsync.sandbox.schema import Field, SObject
from crmsync.sandbox.values import TEXT_TYPES

OLDEST_VERSION, NEWEST_VERSION = 31, 67  # REST API guide: versions 21 to 30 are retired
RESOURCES = ("composite", "jobs", "limits", "query", "queryAll", "sobjects", "tooling")
SEASONS = ("Winter", "Spring", "Summer")


def versions() -> list[dict[str, str]]:
    """Three releases a year; version 59 was Winter '24."""
    return [
        {
            "label": f"{SEASONS[(number - 59) % 3]} '{24 + (number - 59) // 3}",
            "url": f"/services/data/v{number}.0",
            "version": f"{number}.0",
        }
        for number in range(OLDEST_VERSION, NEWEST_VERSION + 1)
    ]


def resources(call: DataCall) -> dict[str, str]:
    return {name: f"{call.base}/{name}" for name in RESOURCES}


def limits(call: DataCall) -> dict[str, dict[str, int]]:
    """Those of the limits that this org knows (REST API guide, "Limits")."""
    facts, org = call.org.facts, call.org
    figures = {
        "DailyApiRequests": (facts.daily_calls_most, org.calls),
        "DailyBulkApiBatches": (facts.bulk_batches_most, org.bulk_batches),
        "DailyBulkV2QueryJobs": (10_000, sum(job.api == "query" for job in org.jobs.jobs.values())),
        "DataStorageMB": (max(5, facts.records_most * 2 // 1024), org.records * 2 // 1024),  # a record counts as 2 KB
    }
    return {name: {"Max": most, "Remaining": max(0, most - used)} for name, (most, used) in figures.items()}


def every_object(call: DataCall) -> dict[str, Any]:
    objects = [summary(call, sobject) for sobject in call.org.schema.objects.values()]
    return {"encoding": "UTF-8", "maxBatchSize": 200, "sobjects": objects}


def summary(call: DataCall, sobject: SObject) -> dict[str, Any]:
    url = f"{call.base}/sobjects/{sobject.name}"
    return {
        "name": sobject.name,
        "label": sobject.label,
        "labelPlural": sobject.plural,
        "keyPrefix": sobject.prefix,
        "custom": sobject.name.endswith("__c"),
        "createable": True,
        "updateable": True,
        "deletable": True,
        "queryable": True,
        "retrieveable": True,
        "triggerable": True,
        "urls": {"sobject": url, "describe": f"{url}/describe", "rowTemplate": f"{url}/{{ID}}"},
    }


def one_object(call: DataCall, sobject: SObject) -> dict[str, Any]:
    """All of an object: its fields, and the relations of other objects that point to it."""
    children = [
        {
            "childSObject": child.name,
            "field": reference.name,
            "relationshipName": None,
            "cascadeDelete": reference.kind == "master-detail",
            "restrictedDelete": False,
        }
        for child in call.org.schema.objects.values()
        for reference in child.references
        if sobject.name in reference.to
    ]
    fields = [_field(known) for known in sobject.fields.values()]
    return {**summary(call, sobject), "fields": fields, "childRelationships": children, "recordTypeInfos": []}


def _field(known: Field) -> dict[str, Any]:
    values = [
        {"active": True, "defaultValue": value == known.default, "label": value, "value": value}
        for value in known.values
    ]
    return {
        "name": known.name,
        "label": known.label,
        "type": known.type,
        "length": known.length or (18 if known.type == "reference" else 0),
        "precision": known.precision,
        "scale": known.scale,
        "nillable": not known.required and known.type not in ("boolean", "id"),
        "createable": known.writable,
        "updateable": known.writable,
        "unique": known.unique,
        "externalId": known.external_id,
        "idLookup": known.external_id or known.type == "id",
        "caseSensitive": known.type not in TEXT_TYPES,
        "custom": known.name.endswith("__c"),
        "defaultValue": known.default,
        "defaultedOnCreate": known.default is not None or known.owner or known.type == "boolean",
        "restrictedPicklist": known.restricted,
        "picklistValues": values,
        "referenceTo": list(known.to),
        "relationshipName": known.relationship or None,
        "cascadeDelete": known.kind == "master-detail",
        "calculated": known.rollup is not None,
        "filterable": True,
        "sortable": True,
    }
