import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from simple_salesforce import Salesforce
from simple_salesforce.exceptions import SalesforceGeneralError

from tests.crmsync.sandbox.conftest import Org, running_org

LEAD = {"LastName": "Reyes", "Company": "Zoë £€ 日本"}


def test_what_was_answered_survives_a_kill(tmp_path: Path) -> None:
    first = Org(tmp_path, "--transaction-ms", "0", "--row-ms", "0")
    sf = first.client("writer")
    answered = [sf.Lead.create({**LEAD, "Rota_Id__c": f"l-{number}"})["id"] for number in range(20)]
    first.process.kill()
    first.end()
    with running_org(tmp_path) as again:
        assert [lead["Id"] for lead in again.admin("GET", "records/Lead")["records"]] == answered
        assert [entry["written"] for entry in again.journal("writer")] == [[lead_id] for lead_id in answered]
        # Ids and numbers go on, and the token that was given out is still good.
        headers = {"Authorization": f"Bearer {sf.session_id}"}
        made = again.http.post(f"{again.url}/services/data/v59.0/sobjects/Lead", json=LEAD, headers=headers).json()
        assert made["id"] > answered[-1]
        assert again.journal()[-1]["number"] > 20


def test_a_stop_is_clean_and_at_once_even_while_somebody_waits(tmp_path: Path) -> None:
    org = Org(tmp_path)
    sf = org.client()
    account = sf.Account.create({"Name": "A"})["id"]
    org.admin("POST", "locks", {"ids": [account]})
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(sf.Account.update, account, {"Name": "B"})
        org.until_waiting(1)
        began = time.monotonic()
        org.process.send_signal(signal.SIGTERM)
        with pytest.raises(SalesforceGeneralError) as stopped:
            waiting.result()
        assert stopped.value.status == 503
    assert org.process.wait(5) == 0
    assert time.monotonic() - began < 3
    assert org.end() == ""
    with running_org(tmp_path) as again:
        assert again.admin("GET", "records/Account")["records"][0]["Name"] == "A"


def test_two_orgs_do_not_share_a_directory(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "crmsync.sandbox", "--port", "0", "--data", str(tmp_path)]
    with running_org(tmp_path):
        second = subprocess.run(command, capture_output=True, text=True, timeout=20)
    assert (second.returncode, second.stdout) == (1, "")
    assert second.stderr.startswith("sandbox org cannot start: another sandbox org runs on ")


def test_a_reset_brings_back_the_first_users_only(org: Org, sf: Salesforce) -> None:
    sf.Lead.create(LEAD)
    org.admin("POST", "reset")
    assert org.admin("GET", "records/Lead")["records"] == []
    assert org.journal() == []
    users = org.admin("GET", "records/User")["records"]
    reps = [user["Email"] for user in users if user["IsActive"] and user["Title"] == "Sales rep"]
    assert reps == [
        "ada.reyes@rota.example",
        "ben.okafor@rota.example",
        "chloe.lindqvist@rota.example",
        "dev.patel@rota.example",
        "eva.moreau@rota.example",
    ]
    assert len(users) == 7
