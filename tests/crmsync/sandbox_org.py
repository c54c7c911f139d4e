"""A sandbox org as a process of its own, and the back door through which tests look at it and break it."""

import json
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

CREDENTIALS = {"CRM_CLIENT_ID": "rota-tests", "CRM_CLIENT_SECRET": "a secret: of tests"}
ROOT = Path(__file__).resolve().parents[2]


class SandboxOrg:
    """Started on a free port with everything ten times faster: a lock is waited for one second."""

    def __init__(self, directory: Path, *, scale: float = 0.1, row_ms: float = 1.0) -> None:
        self.directory = directory
        self.arguments = ["--data", str(directory), "--port", "0", "--scale", str(scale), "--row-ms", str(row_ms)]
        self.arguments += ["--client-id", CREDENTIALS["CRM_CLIENT_ID"]]
        self.arguments += ["--client-secret", CREDENTIALS["CRM_CLIENT_SECRET"]]
        self.process: subprocess.Popen[str] | None = None
        self.url = ""

    def start(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "crmsync.sandbox", *self.arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert "listening on " in line, line
        self.url = line.split("listening on ")[1].strip()
        if "://" not in self.url:
            self.url = f"http://{self.url}"

    def stop(self) -> None:
        assert self.process is not None
        self.process.terminate()
        self.process.wait(10)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        request = urllib.request.Request(
            f"{self.url}/__admin/{path}", method=method, data=None if body is None else json.dumps(body).encode()
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read())

    def records(self, name: str) -> list[dict[str, Any]]:
        return [record for record in self.ask("GET", f"records/{name}")["records"] if record.get("Rota_Id__c")]

    def journal(self) -> list[dict[str, Any]]:
        """Every transaction of ours and of others; holds from outside are left out."""
        return [entry for entry in self.ask("GET", "journal")["entries"] if entry["method"] != "HOLD"]

    def written(self) -> int:
        """Rows that the org committed, in all its transactions."""
        rows = [entry["rows"] for entry in self.journal()]
        return sum(each if isinstance(each, int) else len(each) for each in rows)

    def hold(self, name: str, *external_ids: str, seconds: float | None = None) -> int:
        body: dict[str, Any] = {"object": name, "external_ids": list(external_ids)}
        if seconds is not None:
            body["seconds"] = seconds
        return int(self.ask("POST", "locks", body)["id"])

    def let_go(self, hold: int) -> None:
        self.ask("DELETE", f"locks/{hold}")

    def fault(self, kind: str, times: int = 1, path: str = "/services/data/", **more: Any) -> None:
        self.ask("POST", "faults", {"kind": kind, "times": times, "path": path, **more})

    def facts(self, **settings: Any) -> None:
        """Change settings of the org (crmsync/sandbox/facts.py) until it is reset."""
        self.ask("POST", "settings", settings)

    def stall(self, seconds: float) -> None:
        self.ask("POST", "stall", {"seconds": seconds})

    def reset(self) -> None:
        self.stall(0)
        self.ask("DELETE", "faults")
        self.ask("DELETE", "automation")
        for hold in self.ask("GET", "locks")["holds"]:
            self.let_go(hold["id"])
        self.ask("POST", "reset")
