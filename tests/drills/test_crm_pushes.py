"""Two mass updates over the same contacts at once, four workers, one of them killed in the middle of a call."""

import subprocess
import sys
import time
from pathlib import Path

import pytest
from django.db.models import Count

from crmsync.flows.reap import reap
from crmsync.models import Batch, Claim, OutboxMessage
from crmsync.moves.progress import progress
from tests.crmsync.child import environment
from tests.crmsync.rows import drain, eventually, put
from tests.crmsync.sandbox_org import ROOT, SandboxOrg

pytestmark = pytest.mark.django_db(transaction=True)

NAMES = ("w0", "w1", "w2", "w3")
CONTACTS = 5_000
ACCOUNTS = 40
WORK = (
    "import django; django.setup(); import time; from crmsync.flows.deliver import deliver\n"
    "while True: deliver(budget_s=30, worker='{name}'); time.sleep(0.05)"
)


def write(path: Path, field: str, value: str) -> Path:
    rows = (f"C-{n},N{n},{value}-{n},A-{n % ACCOUNTS},{value}" for n in range(CONTACTS))
    path.write_text("\n".join([f"Rota_Id__c,LastName,Title,Account.Rota_Id__c,{field}", *rows]) + "\n")
    return path


def test_two_pushes_over_the_same_contacts_with_a_worker_killed(org: SandboxOrg, tmp_path: Path) -> None:
    for n in range(ACCOUNTS):
        put(f"A-{n}", object="Account", name=f"A-{n}")
    drain(seconds=60)
    files = [write(tmp_path / "first.csv", "Phone", "111"), write(tmp_path / "second.csv", "MobilePhone", "222")]
    around = environment(org, CRM_TIMEOUT_S="15", CRM_LEASE_S="31", CRM_QUARANTINE_S="1")
    children = [
        subprocess.Popen(
            [sys.executable, "manage.py", "crm_push", str(file), "--object", "Contact"],
            cwd=ROOT, env=around, stderr=subprocess.DEVNULL,
        )
        for file in files
    ]  # fmt: skip
    workers = [subprocess.Popen([sys.executable, "-c", WORK.format(name=name)], cwd=ROOT, env=around) for name in NAMES]
    try:
        in_a_call = (
            Claim.objects.live().filter(worker__in=NAMES, begun_at__isnull=False).values_list("worker", flat=True)
        )
        victim = eventually(in_a_call.first, seconds=90, what="a worker is in a call")
        workers[NAMES.index(victim)].kill()
        assert [child.wait(120) for child in children] == [0, 0]
        until = time.monotonic() + 240
        while OutboxMessage.objects.open().exists():
            assert time.monotonic() < until, list(
                OutboxMessage.objects.open().values("status").annotate(many=Count("pk"))
            )
            reap()
            time.sleep(0.2)
    finally:
        for process in (*workers, *children):
            process.kill()
            process.wait()

    ended = dict(OutboxMessage.objects.filter(batch__isnull=False).values_list("status").annotate(Count("pk")))
    waits = [entry for entry in org.journal() if "Contact" in entry["objects"] and entry["waits"]]
    print(f"\nrows by outcome: {ended}; calls: {Claim.objects.filter(begun_at__isnull=False).count()};"
          f" self-inflicted waits: {len(waits)}")  # fmt: skip
    assert set(ended) <= {"delivered", "superseded"} and sum(ended.values()) == 2 * CONTACTS
    assert waits == []
    for batch in Batch.objects.all():
        assert progress(batch).delivered + progress(batch).overtaken == CONTACTS
    newest = {
        message.record.external_id: message.fields["title"]
        for message in OutboxMessage.objects.newest().filter(record__object="Contact").select_related("record")
    }
    in_org = {record["Rota_Id__c"]: record for record in org.records("Contact")}
    assert {key: record["Title"] for key, record in in_org.items()} == newest
    assert {(record["Phone"], record["MobilePhone"]) for record in in_org.values()} == {("111", "222")}
