"""Runs the steps of a scenario with simple-salesforce and says in a few plain words what came of each."""

import csv
import io
from typing import Any

from simple_salesforce import Salesforce, format_external_id
from simple_salesforce.exceptions import SalesforceAuthenticationFailed, SalesforceError, SalesforceOperationError

from tests.crmsync.sandbox.conftest import Org

Step = dict[str, Any]


class SimpleClient:
    """A client of one org that logs in anew for every scenario."""

    def __init__(self, org: Org) -> None:
        self._org = org

    def run(self, steps: list[Step], username: str, password: str) -> list[Any]:
        sf = self._log_in(username, password)
        ids: dict[str, str] = {}
        results = []
        for step in steps:
            filled = filled_in(step, ids)
            try:
                result = getattr(self, step["do"])(sf, filled)
            except SalesforceAuthenticationFailed as refused:
                result = refused.code
            except SalesforceError as refused:
                result = code(refused)
            if isinstance(result, dict):
                ids[step.get("as", "")] = result["id"]
                result = "ok"
            results.append(result)
        return results

    def _log_in(self, username: str, password: str) -> Salesforce:
        return Salesforce(
            session=self._org.session(), username=username, password=password, security_token="", domain="127.0.0.1"
        )

    def login(self, sf: Salesforce, step: Step) -> str:
        self._log_in(step["username"], step["password"])
        return "ok"

    def create(self, sf: Salesforce, step: Step) -> Any:
        return sf.__getattr__(step["object"]).create(step["fields"])

    def read(self, sf: Salesforce, step: Step) -> list[Any]:
        record = sf.__getattr__(step["object"]).get(step["id"])
        return [record[name] for name in step["fields"]]

    def update(self, sf: Salesforce, step: Step) -> str:
        sf.__getattr__(step["object"]).update(step["id"], step["fields"])
        return "ok"

    def upsert(self, sf: Salesforce, step: Step) -> str:
        fields = dict(step["fields"])
        key = format_external_id(step["key"], fields.pop(step["key"]))
        sf.__getattr__(step["object"]).upsert(key, fields)
        return "ok"

    def delete(self, sf: Salesforce, step: Step) -> str:
        sf.__getattr__(step["object"]).delete(step["id"])
        return "ok"

    def collection(self, sf: Salesforce, step: Step) -> list[str]:
        all_or_none = step.get("allOrNone", False)
        if step["operation"] == "delete":
            asked = {"ids": ",".join(step["ids"]), "allOrNone": str(all_or_none).lower()}
            results = sf.restful("composite/sobjects", method="DELETE", params=asked)
        else:
            records = [{"attributes": {"type": step["object"]}, **row} for row in step["rows"]]
            path = f"/{step['object']}/{step['key']}" if step["operation"] == "upsert" else ""
            method = "POST" if step["operation"] == "create" else "PATCH"
            body = {"records": records, "allOrNone": all_or_none}
            results = sf.restful(f"composite/sobjects{path}", method=method, json=body)
        return [row_code(each) for each in results]

    def query(self, sf: Salesforce, step: Step) -> Any:
        if "COUNT()" in step["soql"]:
            return sf.query(step["soql"])["totalSize"]
        return [plain(each) for each in sf.query_all(step["soql"])["records"]]

    def bulk1(self, sf: Salesforce, step: Step) -> list[str]:
        handler = sf.bulk.__getattr__(step["object"])
        serial = step.get("serial", False)
        if step["operation"] == "upsert":
            results = handler.upsert(step["rows"], step["key"], use_serial=serial)
        else:
            results = getattr(handler, step["operation"])(step["rows"], use_serial=serial)
        return [row_code(each) for each in results]

    def bulk2(self, sf: Salesforce, step: Step) -> Any:
        handler, by = sf.bulk2.__getattr__(step["object"]), step.get("key", step.get("by"))
        rows = [{name: "#N/A" if value is None else value for name, value in row.items()} for row in step["rows"]]
        key = {"external_id_field": step["key"]} if "key" in step else {}
        try:
            (job,) = getattr(handler, step["operation"])(records=rows, wait=0, **key)
        except SalesforceOperationError:
            return "job failed"
        texts = [
            sf.bulk2.__getattr__(step["object"]).get_successful_records(job["job_id"]),
            handler.get_failed_records(job["job_id"]),
            handler.get_unprocessed_records(job["job_id"]),
        ]
        good, bad, left = (list(csv.DictReader(io.StringIO(text, newline=""))) for text in texts)
        became = {row[by]: "ok" for row in good} | {row[by]: "unprocessed" for row in left}
        became |= {row[by]: row["sf__Error"].split(":")[0] for row in bad}
        return [became.get(row[by]) for row in step["rows"]]

    def bulk2_query(self, sf: Salesforce, step: Step) -> list[dict[str, str]]:
        pages = sf.bulk2.__getattr__("Any").query(step["soql"], wait=0)
        return [row for page in pages for row in csv.DictReader(io.StringIO(page, newline=""))]


def filled_in(value: Any, ids: dict[str, str]) -> Any:
    """The value with every `$name` replaced by the id of the record made under this name."""
    if isinstance(value, str) and value.startswith("$"):
        return ids[value[1:]]
    if isinstance(value, list):
        return [filled_in(each, ids) for each in value]
    if isinstance(value, dict):
        return {name: filled_in(each, ids) for name, each in value.items()}
    return value


def code(refused: SalesforceError) -> str:
    content = refused.content
    if isinstance(content, list) and content and isinstance(content[0], dict):
        return str(content[0]["errorCode"])
    if isinstance(content, dict):
        return str(content["exceptionCode"])
    return str(refused.status)


def row_code(result: dict[str, Any]) -> str:
    return "ok" if result["success"] else str(result["errors"][0]["statusCode"])


def plain(record: dict[str, Any]) -> dict[str, Any]:
    return {
        name: plain(value) if isinstance(value, dict) else value
        for name, value in record.items()
        if name != "attributes"
    }
