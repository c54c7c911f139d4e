"""Steps of a Bulk API 2.0 ingest job, taken one by one with the client's own session."""

import csv
import io
import time
from typing import Any

import requests
from simple_salesforce import Salesforce

BASE = "https://org/services/data/v59.0/jobs/ingest"
KINDS = ("successfulResults", "failedResults", "unprocessedrecords")


class Ingest:
    """One job, made at once. `step` gives the whole response, so that refusals can be looked at."""

    def __init__(self, sf: Salesforce, object: str, operation: str, key: str = "", **more: Any) -> None:
        self._sf = sf
        body = {"object": object, "operation": operation, "contentType": "CSV", **more}
        made = self.step("POST", "", json={**body, **({"externalIdFieldName": key} if key else {})})
        assert made.status_code == 200, made.text
        self.made: dict[str, Any] = made.json()
        self.id = self.made["id"]

    def step(self, method: str, path: str, **kwargs: Any) -> requests.Response:
        headers = {"Authorization": f"Bearer {self._sf.session_id}", **kwargs.pop("headers", {})}
        return self._sf.session.request(method, BASE + path, headers=headers, **kwargs)

    def put(self, text: str | bytes, **headers: str) -> requests.Response:
        data = text.encode() if isinstance(text, str) else text
        return self.step("PUT", f"/{self.id}/batches", data=data, headers={"Content-Type": "text/csv", **headers})

    def become(self, state: str) -> requests.Response:
        return self.step("PATCH", f"/{self.id}", json={"state": state})

    def info(self) -> dict[str, Any]:
        info: dict[str, Any] = self.step("GET", f"/{self.id}").json()
        return info

    def until(self, *states: str, processed: int = 0) -> dict[str, Any]:
        """Its info when it is in one of the states and has processed so many rows."""
        for _ in range(2_000):
            info = self.info()
            if info["state"] in states and info["numberRecordsProcessed"] >= processed:
                return info
            time.sleep(0.01)
        raise AssertionError(info)

    def run(self, text: str | bytes) -> dict[str, Any]:
        """Upload, close, and its info when it has ended."""
        assert self.put(text).status_code == 201
        assert self.become("UploadComplete").status_code == 200
        return self.until("JobComplete", "Failed")

    def rows(self, kind: str) -> list[dict[str, str]]:
        response = self.step("GET", f"/{self.id}/{kind}")
        assert response.status_code == 200, response.text
        return list(csv.DictReader(io.StringIO(response.content.decode(), newline="")))

    def counts(self) -> tuple[int, ...]:
        """How many rows succeeded, failed, and were not processed."""
        return tuple(len(self.rows(kind)) for kind in KINDS)


def table(header: str, *rows: str, end: str = "\n") -> str:
    return end.join([header, *rows, ""])


def contacts(accounts: list[str], count: int, first: int = 0) -> str:
    """A CSV of contacts in turn under these accounts."""
    rows = [f"c-{n},Name {n},{accounts[n % len(accounts)]}" for n in range(first, first + count)]
    return table("Rota_Id__c,LastName,Account.Rota_Id__c", *rows)
