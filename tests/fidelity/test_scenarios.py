"""The same scenarios by two clients that were not written here: the same answers, the same records in the end."""

import json
from typing import Any

import pytest

from tests.crmsync.sandbox.conftest import Org
from tests.fidelity.conftest import HERE, Client

SCENARIOS: dict[str, dict[str, Any]] = json.loads((HERE / "scenarios.json").read_text("utf-8"))
USER, PASSWORD = "integration@rota.example", "sandbox"
PARENTS = ("AccountId", "OwnerId", "WhoId", "CampaignId", "LeadId", "ContactId")


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_client_of_other_people_gets_these_answers_and_leaves_these_records(
    org: Org, client: Client, name: str
) -> None:
    scenario = SCENARIOS[name]
    before = scenario.get("before", [])
    results = [client.run(scenario["given"], USER, PASSWORD)] if "given" in scenario else []
    assert all(result == "ok" for made in results for result in made), results
    for path, body in before:
        org.admin("POST", path, body)
    steps = [{name: value for name, value in step.items() if name != "gives"} for step in scenario["steps"]]
    assert client.run(steps, USER, PASSWORD) == [step["gives"] for step in scenario["steps"]]
    org.admin("DELETE", "faults")
    for sobject, expected in scenario.get("leaves", {}).items():
        names = list(expected[0]) if expected else []
        assert sorted(map(str, shown(org, sobject, names))) == sorted(map(str, expected)), sobject


def shown(org: Org, sobject: str, names: list[str]) -> list[dict[str, Any]]:
    """The named fields of all records; parents by their external id or user name."""
    known = {
        record["Id"]: record.get("Rota_Id__c") or record.get("Username")
        for kind in ("Account", "Campaign", "Lead", "Contact", "User")
        for record in org.admin("GET", f"records/{kind}")["records"]
    }
    return [
        {name: known.get(record[name]) if name in PARENTS else record[name] for name in names}
        for record in org.admin("GET", f"records/{sobject}")["records"]
    ]
