"""crm_push against a real org over HTTP: a dry run, a push, what the org has then, and a run that goes on."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from crmsync.flows import push as pushing
from crmsync.models import Batch, CrmRecord, OutboxMessage
from crmsync.moves.progress import progress, verdicts
from tests.crmsync.child import environment
from tests.crmsync.rows import drain, eventually, put
from tests.crmsync.sandbox_org import ROOT, SandboxOrg

pytestmark = pytest.mark.django_db(transaction=True)

CASE = ROOT / "tests" / "cases" / "csv" / "contacts_update_20000.csv"


def run(capsys: pytest.CaptureFixture[str], path: Path, *more: str) -> tuple[Any, dict[str, Any]]:
    code: Any = 0
    try:
        call_command("crm_push", str(path), "--object", "Contact", "--json", *more)
    except SystemExit as ended:
        code = ended.code
    return code, json.loads(capsys.readouterr().out.splitlines()[-1])


def file_of(tmp_path: Path, *lines: str, name: str = "rows.csv") -> Path:
    path = tmp_path / name
    path.write_text("\n".join(lines) + "\n")
    return path


def slice_of(tmp_path: Path, rows: int) -> Path:
    with CASE.open() as file:
        return file_of(tmp_path, *(next(file).rstrip("\n") for _ in range(rows + 1)), name=f"first_{rows}.csv")


def accounts_for(path: Path) -> None:
    for key in sorted({line.rsplit(",", 1)[1] for line in path.read_text().splitlines()[1:]}):
        put(key, object="Account", name=key)
    drain(seconds=60)


def test_the_plan_of_twenty_thousand_rows_queues_nothing(org: SandboxOrg, capsys: pytest.CaptureFixture[str]) -> None:
    code, plan = run(capsys, CASE, "--parent", "Account.Rota_Id__c", "--dry-run")
    assert code == 0
    assert (plan["rows"], plan["parents"], plan["hottest"][0]["parent"]) == (20_000, 300, "Account A-000")
    assert plan["hottest"][0]["rows"] == 4_048
    assert 100 <= plan["calls"] <= 120
    assert plan["seconds"] >= plan["alone_s"] > 0
    assert not Batch.objects.exists() and not CrmRecord.objects.exists()


def test_a_pushed_file_arrives_in_the_org_as_it_stands_there(
    org: SandboxOrg, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = slice_of(tmp_path, 600)
    accounts_for(path)
    code, told = run(capsys, path, "--parent", "Account.Rota_Id__c")
    assert (code, told["total"], told["waiting"]) == (0, 600, 600)
    drain(seconds=60)
    batch = Batch.objects.get()
    assert progress(batch).delivered == 600
    in_org = {record["Rota_Id__c"]: record for record in org.records("Contact")}
    accounts = {record["Id"]: record["Rota_Id__c"] for record in org.records("Account")}
    for line in path.read_text().splitlines()[1:]:
        key, name, title, account = line.split(",")
        found = in_org[key]
        assert (found["LastName"], found["Title"], accounts[found["AccountId"]]) == (name, title, account)
    assert [verdict.verdict for verdict in verdicts(batch)] == ["delivered"] * 600
    assert [entry for entry in org.journal() if "Contact" in entry["objects"] and entry["waits"]] == []


def test_the_same_file_is_pushed_once_unless_somebody_says_again(
    org: SandboxOrg, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = file_of(tmp_path, "Rota_Id__c,LastName", "C-1,Novák")
    assert run(capsys, path)[0] == 0
    code, told = run(capsys, path)
    assert code == 1 and "pushed before" in told["error"]
    assert run(capsys, path, "--again")[0] == 0
    assert OutboxMessage.objects.count() == 2


def test_a_wrong_file_is_told_by_line_and_nothing_of_it_is_queued(
    org: SandboxOrg, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = file_of(tmp_path, "Rota_Id__c,LastName,Email,HasOptedOutOfEmail", "C-1,A,a@b.example,yes", "C-1,B,nobody,so")
    code, told = run(capsys, path)
    assert (code, told["queued"], told["problems"]) == (1, 0, 3)
    assert [problem["line"] for problem in told["first"]] == [3, 3, 3]
    assert not Batch.objects.exists() and not OutboxMessage.objects.exists()


def test_an_org_that_refuses_the_login_is_said_to_refuse_it(
    org: SandboxOrg, settings: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = file_of(tmp_path, "Rota_Id__c,LastName", "C-1,A")
    settings.CRM_CLIENT_SECRET = "not the one"
    code, told = run(capsys, path)
    assert code == 1 and told["error"].startswith("The org refused to say what it knows: invalid_client")
    settings.CRM_URL = "http://127.0.0.1:1"
    code, told = run(capsys, path)
    assert code == 1 and told["error"].startswith("The org did not say what it knows: NOT_CONNECTED")


def test_one_problem_is_one_and_a_key_that_is_a_dot_is_shown_as_it_is(
    org: SandboxOrg, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with pytest.raises(SystemExit):
        call_command("crm_push", str(file_of(tmp_path, "Rota_Id__c,LastName", ".,A")), "--object", "Contact")
    told = capsys.readouterr()
    assert "Nothing was queued: 1 problem." in told.out
    assert "Rota_Id__c cannot be “.”" in told.err


@pytest.mark.parametrize(("name", "says"), [("none.csv", "is not there"), (".", "is a folder, not a file")])
def test_a_file_that_is_none_is_wrong_usage(
    name: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, told = run(capsys, tmp_path / name)
    assert code == 2 and f"{tmp_path / name} {says}" in told["error"]


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--object", "Kontakt"], "The org has no such object"),
        (["--object", "Contct"], "Is Contact meant?"),
        (["--key", "Email"], "Rota knows records by Rota_Id__c"),
        (["--object", "User"], "has no external id field"),
    ],
)
def test_an_object_or_a_key_that_the_org_does_not_have_is_refused(
    org: SandboxOrg, capsys: pytest.CaptureFixture[str], tmp_path: Path, more: list[str], says: str
) -> None:
    code, told = run(capsys, file_of(tmp_path, "Rota_Id__c,LastName", "C-1,A"), *more)
    assert code == 1 and says in told["error"]


def test_fields_of_objects_that_rota_has_no_table_for_go_by_their_own_names(
    org: SandboxOrg, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    rows = "Rota_Id__c,Name,StageName,CloseDate,Amount", "O-1,Deal,Prospecting,2026-12-31,12.5"
    assert run(capsys, file_of(tmp_path, *rows), "--object", "Opportunity")[0] == 0
    drain()
    (found,) = org.records("Opportunity")
    assert (found["CloseDate"], found["Amount"]) == ("2026-12-31", 12.5)


def test_a_mass_update_of_a_record_that_rota_did_not_write_makes_up_no_name_for_it(
    org: SandboxOrg, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    put("C-1", object="Contact", last_name="Novák")
    drain()
    CrmRecord.objects.update(delivered_version=None, crm_id=None)  # as if another system had made it
    assert run(capsys, file_of(tmp_path, "Rota_Id__c,Title", "C-1,CMO", "C-2,CEO"))[0] == 0
    drain()
    (found,) = org.records("Contact")
    assert (found["LastName"], found["Title"]) == ("Novák", "CMO")
    assert OutboxMessage.objects.get(status="dead").failure_code == "REQUIRED_FIELD_MISSING"


def test_an_empty_cell_leaves_a_field_alone_and_na_empties_it(
    org: SandboxOrg, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    put("C-1", object="Contact", last_name="Novák", title="CMO", phone="1")
    drain()
    run(capsys, file_of(tmp_path, "Rota_Id__c,Title,Phone,MobilePhone", "C-1,,#N/A,2"))
    drain()
    (found,) = org.records("Contact")
    assert (found["Title"], found["Phone"], found["MobilePhone"]) == ("CMO", None, "2")


def test_a_run_that_is_killed_midway_goes_on_where_it_was_and_queues_nothing_twice(
    org: SandboxOrg, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = slice_of(tmp_path, 9_000)
    command = [sys.executable, "manage.py", "crm_push", str(path), "--object", "Contact"]
    process = subprocess.Popen(command, cwd=ROOT, env=environment(org), stderr=subprocess.DEVNULL)
    eventually(lambda: Batch.objects.filter(rows_queued__gt=0).exists(), seconds=60)
    process.kill()
    process.wait()
    batch = Batch.objects.get()
    assert 0 < batch.rows_queued == batch.messages.count()
    code, told = run(capsys, path)
    assert (code, told["batch"], told["queued"]) == (0, batch.pk, 9_000)
    assert batch.messages.count() == CrmRecord.objects.count() == 9_000
    assert list(batch.messages.order_by("line").values_list("line", flat=True)[:3]) == [2, 3, 4]


def test_an_uploaded_file_is_queued_by_a_task_in_bounded_time(org: SandboxOrg, tmp_path: Path) -> None:
    from crmsync.gateway import connect
    from crmsync.models import Operation
    from crmsync.moves import batches

    path = slice_of(tmp_path, 3_000)
    looked = pushing.look(path, org=connect(), object="Contact", operation=Operation.UPSERT)
    batch = batches.offer(
        file=pushing.refuse_if_wrong(looked), object="Contact", operation=Operation.UPSERT, by="ops",
        content=path.read_bytes(),
    )  # fmt: skip
    assert not pushing.load_uploaded(batch_id=batch.pk, org=connect(), budget_s=30)
    assert OutboxMessage.objects.count() == 0  # nobody has said go
    batches.go(batch_id=batch.pk, by="ops")
    assert pushing.load_uploaded(batch_id=batch.pk, org=connect(), budget_s=0)
    assert not pushing.load_uploaded(batch_id=batch.pk, org=connect(), budget_s=30)
    batch.refresh_from_db()
    assert (batch.status, batch.messages.count(), batch.parts.count()) == ("queued", 3_000, 0)
