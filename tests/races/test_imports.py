"""An import is killed in the middle, or runs twice at once: no row is lost and none comes twice."""

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.db.models import Count

from routing import imports
from routing.errors import ImportTaken
from routing.models import Import, ImportRow, InboundEvent, Lead, LeadAddress
from tests.database import database_url
from tests.make import make_source, make_team
from tests.races.controls import until_seen
from tests.races.crowd import at_once
from tests.routing.files_of_leads import received, table

pytestmark = pytest.mark.django_db(transaction=True)
ROWS = 20_000


@pytest.fixture(autouse=True)
def folder(settings, tmp_path):
    settings.IMPORT_DIR = str(tmp_path)


@contextmanager
def importer(row: Import, folder: Path, chunk: int = 1_000) -> Iterator[Any]:
    """A process that waits at the start of the import; a line on its stdin lets it go."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.races.importer", str(row.pk), str(chunk)],
        env={**os.environ, "DATABASE_URL": database_url(), "IMPORT_DIR": str(folder)},
        cwd=Path(__file__).resolve().parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout and process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def go(process: Any) -> None:
    process.stdin.write("go\n")
    process.stdin.flush()


def lead_file(rows: int) -> bytes:
    """A file in which everybody comes once, except every hundredth, who comes again in the next row."""
    people = [[f"n{n - (n % 100 == 99)}@acme{n % 50}.example", f"Pat Novák {n}"] for n in range(rows)]
    for n in range(99, rows, 100):
        people[n][0] = people[n - 1][0]
    return table(*people)


def assert_every_row_once(row: Import, rows: int) -> None:
    row.refresh_from_db()
    assert (row.status, row.position) == ("finished", rows)
    assert (row.created, row.duplicate) == (rows - rows // 100, rows // 100)
    assert list(ImportRow.objects.filter(of=row).order_by("number").values_list("number", flat=True)) == list(
        range(1, rows + 1)
    )
    assert Lead.objects.count() == row.created
    assert InboundEvent.objects.count() == rows
    assert LeadAddress.objects.filter(open=True).count() == row.created
    twice = Lead.objects.values("email").annotate(times=Count("pk")).filter(times__gt=1)
    assert not twice.exists()


def test_an_import_of_20_000_rows_killed_in_the_middle_goes_on_without_loss_or_double(tmp_path):
    row = received(lead_file(ROWS), source=make_source(team=make_team(reps=3)))
    imports.start(row=row)
    for stop_at in (4_000, 11_000):
        with importer(row, tmp_path) as process:
            go(process)
            while (line := process.stdout.readline().strip()) and int(line) < stop_at:
                pass
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
        row.refresh_from_db()
        assert stop_at <= row.position < ROWS, "it was killed in the middle"
        assert ImportRow.objects.filter(of=row).count() == row.position, "what is committed is whole"
        Import.objects.filter(pk=row.pk).update(leased_until="2020-01-01T00:00:00Z")  # a minute goes by
    with importer(row, tmp_path) as process:
        go(process)
        assert process.stdout.read().split()[-1] == "finished"
    assert_every_row_once(row, ROWS)


def test_two_processes_at_one_import_do_every_row_once(tmp_path):
    row = received(lead_file(3_000), source=make_source(team=make_team(reps=3)))
    imports.start(row=row)
    with importer(row, tmp_path, 100) as one, importer(row, tmp_path, 100) as other:
        go(one)
        go(other)
        said = [one.stdout.read().split(), other.stdout.read().split()]
    assert sum("taken" in lines for lines in said) == 1, "one of them learns that it is taken"
    assert_every_row_once(row, 3_000)


def test_two_agents_who_send_one_file_at_the_same_moment_get_one_import(tmp_path):
    source = make_source(team=make_team(reps=3))
    content = lead_file(500)

    def agent(number: int) -> int:
        row = received(content, source=source)
        imports.start(row=row)
        row.refresh_from_db()
        while row.status == "running":
            try:
                row = imports.run(import_id=row.pk)
            except ImportTaken:
                row.refresh_from_db()
        return row.pk

    found = at_once(4, agent)
    assert set(found) == {Import.objects.get().pk}
    assert_every_row_once(Import.objects.get(), 500)


def test_one_file_for_two_sources_at_the_same_moment_makes_every_lead_once(tmp_path, monkeypatch):
    monkeypatch.setattr(imports, "CHUNK", 50)
    team = make_team(reps=3)
    rows = [received(lead_file(1_000), source=make_source(team=team)) for _ in range(2)]
    for row in rows:
        imports.start(row=row)
    done = at_once(2, lambda number: imports.run(import_id=rows[number].pk, budget_s=600))
    assert [row.status for row in done] == ["finished", "finished"]
    assert Lead.objects.count() == 990 == sum(row.created for row in done)
    assert sum(row.touched for row in done) == 990


def test_control_looking_first_and_creating_then_doubles_the_leads_of_a_file():
    """What an importer does that asks whether an address is known and then creates the lead."""
    team = make_team(reps=3)

    def attempt() -> dict[str, int]:
        emails = [f"{uuid.uuid4().hex}@acme.example" for _ in range(200)]

        def agent(number: int) -> None:
            for email in emails:
                if not Lead.objects.filter(email=email).exists():
                    Lead.objects.create(team=team, email=email)

        at_once(2, agent)
        return {"doubled": Lead.objects.filter(email__in=emails).count() - len(emails)}

    until_seen(attempt, lambda seen: seen["doubled"], "look, then create (2 importers)")
