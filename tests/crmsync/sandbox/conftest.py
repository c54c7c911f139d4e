"""The sandbox org as a process on a free port, and the unchanged simple-salesforce client that talks to it."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests
from requests.adapters import HTTPAdapter
from simple_salesforce import Salesforce

SECRET = {"consumer_key": "rota", "consumer_secret": "sandbox"}
LOCK_WAIT_S = 0.5  # of the hasty org


class PlainHttp(HTTPAdapter):
    """Sends what the client addresses to any https host to the sandbox org instead."""

    def __init__(self, url: str) -> None:
        super().__init__(pool_maxsize=250)
        self._url = url

    def send(self, request: requests.PreparedRequest, **kwargs: Any) -> requests.Response:  # type: ignore[override]
        assert request.url is not None
        request.url = self._url + "/" + request.url.split("/", 3)[3]
        kwargs["timeout"] = kwargs.get("timeout") or 10
        return super().send(request, **kwargs)


class Org:
    """One running process. `options` are those of its command line."""

    def __init__(self, data: Path, *options: str) -> None:
        command = [sys.executable, "-m", "crmsync.sandbox", "--port", "0", "--data", str(data), *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        said = self.process.stdout.readline()
        assert said.startswith("sandbox org listening on http://127.0.0.1:"), said + self.end()
        self.url = said.split()[-1]
        self._sessions: list[requests.Session] = []
        self.http = self.session()

    def session(self) -> requests.Session:
        session = requests.Session()
        session.trust_env = False
        session.mount("https://", PlainHttp(self.url))
        self._sessions.append(session)
        return session

    def client(self, name: str = "test", **kwargs: Any) -> Salesforce:
        """A client that has logged in with client credentials; the journal knows it by this name."""
        session = self.session()
        session.headers["Sforce-Call-Options"] = f"client={name}"
        return Salesforce(session=session, domain="127.0.0.1", **SECRET, **kwargs)

    def admin(self, method: str, path: str, body: Any = None, status: int = 200) -> Any:
        response = self.http.request(method, f"{self.url}/__admin/{path}", json=body, timeout=10)
        assert response.status_code == status, response.text
        return response.json()

    def journal(self, client: str | None = None) -> list[dict[str, Any]]:
        entries: list[dict[str, Any]] = self.admin("GET", "journal")["entries"]
        return [entry for entry in entries if client is None or entry["who"]["client"] == client]

    def until_waiting(self, number: int) -> None:
        """Return when this many transactions wait for locks, all queues together."""
        for _ in range(500):
            locks = self.admin("GET", "locks")["locks"]
            if sum(len(lock["waiting"]) for lock in locks) == number:
                return
            time.sleep(0.005)
        raise AssertionError(locks)

    def end(self) -> str:
        """Stop the process if it still runs; what it said on stderr."""
        for session in getattr(self, "_sessions", []):
            session.close()
        if self.process.poll() is None:
            self.process.terminate()
        _, said = self.process.communicate(timeout=10)
        return said


@contextmanager
def running_org(data: Path, *options: str) -> Iterator[Org]:
    org = Org(data, *options)
    try:
        yield org
    finally:
        said = org.end()
    assert said == "", said


@pytest.fixture(scope="session")
def _patient_org(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Org]:
    with running_org(tmp_path_factory.mktemp("org"), "--transaction-ms", "1", "--row-ms", "0.05") as org:
        yield org


@pytest.fixture(scope="session")
def _hasty_org(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Org]:
    with running_org(tmp_path_factory.mktemp("org"), "--scale", "0.05") as org:
        yield org


@pytest.fixture
def org(_patient_org: Org) -> Org:
    """An org with its first users only. A lock is waited for 10 s, a transaction takes a millisecond."""
    _patient_org.admin("POST", "reset")
    return _patient_org


@pytest.fixture
def hasty_org(_hasty_org: Org) -> Org:
    """An org with its first users only, in which a lock is waited for half a second."""
    _hasty_org.admin("POST", "reset")
    return _hasty_org


@pytest.fixture
def sf(org: Org) -> Salesforce:
    return org.client()


@pytest.fixture
def make_account(sf: Salesforce) -> Callable[[str], str]:
    """Makes an account with this external id and returns its record id."""
    return lambda external_id: new_account(sf, external_id)


def new_account(sf: Salesforce, external_id: str) -> str:
    result = sf.Account.upsert(f"Rota_Id__c/{external_id}", {"Name": external_id}, raw_response=True)
    record_id: str = result.json()["id"]
    return record_id


def collect(sf: Salesforce, path: str, records: list[dict[str, Any]], method: str = "PATCH", **body: Any) -> Any:
    """A call of sObject Collections through the client's own door."""
    return sf.restful(f"composite/{path}", method=method, json={"records": records, **body})
