"""How many leads a second an import takes in, beside COPY of the same rows into the same tables, and in what memory.

COPY judges nothing: no normaliser, no rules, no owners, no known addresses, no positions; it is the ceiling. Both sides
commit the same rows into the same four tables with the same indexes and constraints, and neither assigns.
"""

import io
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from django.db import connection, transaction
from django.test import override_settings

from routing import imports
from routing.import_files import keep_copy
from routing.models import Import, ImportRow, InboundSource
from tests.bench._result import Bench, Say, Target, machine
from tests.bench.turns import throw_away_database
from tests.database import database_url
from tests.make import make_source, make_team, publish_rules

TARGETS = {"vs_copy": Target(">=", 0.25), "peak_mb": Target("<=", 300)}
HEADER = (
    "First Name,Last Name,Email,City,Country/Region,Phone,Organization,Job Title,No. of Employees,Registration Time\n"
)
TABLES = {
    "routing_lead": {"uid": "gen_random_uuid()", "id": "id + %(shift)s"},
    "routing_leadaddress": {"id": "id + %(shift)s", "lead_id": "lead_id + %(shift)s", "value": "'c' || value"},
    "routing_inboundevent": {
        "id": "id + %(shift)s",
        "lead_id": "lead_id + %(shift)s",
        "event_id": "'copy:' || %(into)s || event_id",
    },
    "routing_importrow": {"id": "id + %(shift)s", "lead_id": "lead_id + %(shift)s", "of_id": "%(into)s"},
}
"""What makes another row of a row: whatever is unique, and what refers to it."""
SHIFT = 1_000_000_000


def run(*, short: bool, say: Say) -> Bench:
    rounds, rows, large = (3, 10_000, 50_000) if short else (5, 20_000, 1_000_000)
    on = machine()
    with (
        tempfile.TemporaryDirectory(prefix="rota") as folder,
        override_settings(IMPORT_DIR=folder),
        throw_away_database(say),
    ):
        source = make_source(team=make_team(reps=5))
        publish_rules(
            {"team": make_team(reps=5), "conditions": [("country", "in_country", "Germany, France")]},
            {"team": source.team, "conditions": [("fields.job_title", "contains", "founder")]},
        )
        files = Path(folder)
        ours: list[float] = []
        copied: list[float] = []
        take_in(files, source, rows=rows // 4, first=-10_000_000)  # plans are made before anything is measured
        for number in range(rounds):
            row, took = take_in(files, source, rows=rows, first=number * rows)
            assert row.created == rows, row.created
            ours.append(rows / took)
            copied.append(rows / copy_of(row, shift=SHIFT * (number + 1)))
            say(f"round {number + 1} of {rounds}: import {ours[-1]:,.0f}/s, copy {copied[-1]:,.0f}/s")
        say(f"a file of {large:,} rows in a process of its own ...")
        memory = import_large(files, source, rows=large)
    ratio = statistics.median(one / other for one, other in zip(ours, copied, strict=True))
    details = {
        "rows": rows,
        "import_per_second": round(statistics.median(ours)),
        "copy_per_second": round(statistics.median(copied)),
        "chunk": imports.CHUNK,
        "large": memory,
    }
    return Bench("import", rounds, {"vs_copy": round(ratio, 3), "peak_mb": memory["peak_mb"]}, TARGETS, details, on)


def write_file(path: Path, *, rows: int, first: int) -> None:
    """A webinar's registrations: nobody comes twice, a few phone numbers, letters beyond ASCII."""
    countries = ("Germany", "United States", "France", "India", "Japan")
    with path.open("w", encoding="utf-8") as file:
        file.write(HEADER)
        for n in range(first, first + rows):
            country = countries[n % 5]
            phone = f"+4930{abs(n) % 10**8:08d}" if n % 3 == 0 else ""
            file.write(
                f"Zoë,Novák,zoe.novak{n}@co{n % 997}.example,Austin,{country},{phone},Co{n % 997},VP Sales,51-100,"
                f"11/01/2026 15:14:{n % 60:02d}\n"
            )


def take_in(files: Path, source: InboundSource, *, rows: int, first: int) -> tuple[Import, float]:
    """Import a fresh file in this process, and the seconds it took from opening the file to the last commit."""
    path = files / "leads.csv"
    write_file(path, rows=rows, first=first)
    digest, kept = keep_copy(path)
    began = time.perf_counter()
    row = imports.receive(path=kept, digest=digest, file_name=path.name, source=source, by="bench")
    row, _ = imports.save(row=row)
    imports.start(row=row)
    row = imports.run(import_id=row.pk, budget_s=3_600)
    return row, time.perf_counter() - began


def copy_of(row: Import, *, shift: int) -> float:
    """The seconds that COPY takes for the rows this import wrote, once more under other keys."""
    into = Import.objects.create(
        **{
            each.name: getattr(row, each.name)
            for each in Import._meta.fields
            if each.name not in ("id", "again", "source")
        },
        source=make_source(team=row.source.team),
    )
    leads = "SELECT lead_id FROM routing_importrow WHERE of_id = %(of)s"
    only = {
        "routing_lead": f"id IN ({leads})",
        "routing_leadaddress": f"lead_id IN ({leads})",
        "routing_inboundevent": f"lead_id IN ({leads})",
        "routing_importrow": "of_id = %(of)s",
    }
    given = {"shift": shift, "into": into.pk, "of": row.pk}
    contents = {table: copied_out(table, TABLES[table], only[table], given) for table in TABLES}
    began = time.perf_counter()
    with transaction.atomic(), connection.cursor() as cursor:
        for table, (names, content) in contents.items():
            with cursor.copy(f"COPY {table} ({names}) FROM STDIN") as copy:
                copy.write(content)
    took = time.perf_counter() - began
    assert ImportRow.objects.filter(of=into).count() == row.position
    return took


def copied_out(table: str, changed: dict[str, str], only: str, given: dict[str, int]) -> tuple[str, bytes]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT column_name FROM information_schema.columns WHERE table_name = %s ORDER BY ordinal_position",
            [table],
        )
        names = [name for (name,) in cursor.fetchall()]
        chosen = ", ".join(changed.get(name, f'"{name}"') % given for name in names)
        content = io.BytesIO()
        with cursor.copy(f"COPY (SELECT {chosen} FROM {table} WHERE {only % given} ORDER BY id) TO STDOUT") as copy:
            for piece in copy:
                content.write(piece)
    return ", ".join(f'"{name}"' for name in names), content.getvalue()


def import_large(files: Path, source: InboundSource, *, rows: int) -> dict[str, Any]:
    """Import a large file with the command, in a process of its own, and the memory that process had at most."""
    path = files / "large.csv"
    write_file(path, rows=rows, first=50_000_000)
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench._peak", "import_leads", str(path), "--source", source.slug],
        env={**os.environ, "DATABASE_URL": database_url(), "IMPORT_DIR": str(files)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=True,
    )
    said, peak = done.stdout.strip().splitlines()[-2:]
    assert f"created {rows}" in said, said
    took = time.perf_counter() - began
    return {
        "rows": rows,
        "file_mb": round(path.stat().st_size / 1e6),
        "seconds": round(took),
        "per_second": round(rows / took),
        "peak_mb": int(peak),
    }
