"""One org for all scenarios, and the two clients: simple-salesforce in this process, jsforce in one of its own."""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests.crmsync.sandbox.conftest import Org, running_org
from tests.fidelity.simple_client import SimpleClient, Step

HERE = Path(__file__).parent


class Client(Protocol):
    def run(self, steps: list[Step], username: str, password: str) -> list[Any]: ...


class JsforceClient:
    """The Node process; it takes a scenario as a line and answers with a line."""

    def __init__(self, url: str) -> None:
        self._url = url
        command = ["node", str(HERE / "jsforce_client.mjs")]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, steps: list[Step], username: str, password: str) -> list[Any]:
        asked = {"url": self._url, "username": username, "password": password, "steps": steps}
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps(asked) + "\n")
        self.process.stdin.flush()
        results: list[Any] = json.loads(self.process.stdout.readline())
        return results

    def end(self) -> None:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.close()
        self.process.wait(20)
        self.process.stdout.close()


@pytest.fixture(scope="session")
def _org(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Org]:
    costs = ("--scale", "0.03", "--transaction-ms", "1", "--row-ms", "0")
    with running_org(tmp_path_factory.mktemp("org"), *costs) as org:
        yield org


@pytest.fixture
def org(_org: Org) -> Org:
    _org.admin("POST", "reset")
    return _org


@pytest.fixture(scope="session")
def _jsforce(_org: Org) -> Iterator[JsforceClient]:
    if shutil.which("node") is None or not (HERE / "node_modules" / "jsforce").is_dir():
        if os.environ.get("CI"):
            pytest.fail("jsforce is missing: npm ci --ignore-scripts --prefix tests/fidelity")
        pytest.skip("jsforce is missing: npm ci --ignore-scripts --prefix tests/fidelity")
    client = JsforceClient(_org.url)
    yield client
    client.end()


@pytest.fixture(params=["simple-salesforce", "jsforce"])
def client(request: pytest.FixtureRequest, org: Org, monkeypatch: pytest.MonkeyPatch) -> Client:
    if request.param == "jsforce":
        found: Client = request.getfixturevalue("_jsforce")
        return found
    monkeypatch.setattr("simple_salesforce.bulk.sleep", lambda seconds: time.sleep(0.02))
    return SimpleClient(org)
