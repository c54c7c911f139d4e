"""Import a file of leads: what its columns are is guessed and shown, every row gets a verdict, nothing comes twice."""

import json
import sys
import time
from argparse import ArgumentParser, BooleanOptionalAction
from collections.abc import Sequence
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError

from crmsync.paths import given_path
from routing import columns, imports
from routing.errors import BadFile, BadMapping, Busy, ImportTaken
from routing.import_files import keep_copy
from routing.import_report import verdict_lines
from routing.import_source import source_for_team
from routing.models import Import, ImportRow, InboundSource, Team

FAILED, USAGE, PARTIAL = 1, 2, 3
DELIMITERS = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|"}


class Command(BaseCommand):
    help = (
        "Take in the leads of a CSV file, as the team's waiting leads; its turns give them out. Encoding, delimiter, "
        "header and columns are guessed and said on stderr. It may be stopped at any time: the same command, or the "
        "queue, goes on behind the last committed row. Some thousand rows a second. Exit codes: 0 done, 1 failed, "
        "2 usage, 3 some rows were rejected."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=given_path, metavar="FILE")
        to = parser.add_mutually_exclusive_group(required=True)
        to.add_argument("--source", metavar="SLUG", help="whose leads they are; the rules decide as for its webhook")
        to.add_argument("--team", metavar="NAME|ID", help="the team that takes what no rule sends elsewhere")
        parser.add_argument("--dry-run", action="store_true", help="do the same and roll it back; the same verdicts")
        parser.add_argument("--json", action="store_true", help="figures as one JSON object in the last line")
        parser.add_argument(
            "--map",
            nargs="+",
            action="extend",
            default=[],
            metavar="COLUMN=FIELD",
            help="a column, by name or by position from 1, and what it is: "
            f"{', '.join(columns.LEAD_FIELDS)}, a name of your own, or nothing to leave it out",
        )
        parser.add_argument("--encoding", default="", metavar="NAME", help="utf-8, utf-16, cp1252, ...")
        parser.add_argument(
            "--delimiter", default="", metavar="SIGN", help="one character, or comma, semicolon, tab ..."
        )
        parser.add_argument("--header-line", type=int, metavar="N", help="the line the header is on; 0: there is none")
        parser.add_argument(
            "--match-phones",
            action=BooleanOptionalAction,
            help="whether a known phone number makes a row the same lead; by default it does, unless people in the "
            "file share numbers",
        )
        parser.add_argument(
            "--verdicts", type=given_path, metavar="FILE.csv", help="write every row with its verdict there"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            row = self.received(options)
            figures = self.rehearse(row) if options["dry_run"] else self.run(row)
        except (BadFile, BadMapping, OSError) as fault:
            raise CommandError(str(fault), returncode=USAGE) from fault
        except (DatabaseError, Busy) as fault:
            raise CommandError(
                f"The database refused: {type(fault.__cause__ or fault).__name__}. What is committed stays; run it "
                "again to go on."
            ) from fault
        if options["verdicts"] and not options["dry_run"]:
            with options["verdicts"].open("w", encoding="utf-8", newline="") as file:
                file.writelines(verdict_lines(row=Import.objects.get(pk=figures["import"])))
        if options["json"]:
            self.stdout.write(json.dumps(figures))
        else:
            words = ", ".join(f"{name} {figures[name]}" for name in ("records", *ImportRow.Verdict.values))
            self.stdout.write(f"{'Would be: ' if options['dry_run'] else ''}{words}.")
        if figures["status"] == Import.Status.FAILED:
            sys.exit(FAILED)
        if figures["rejected"]:
            sys.exit(PARTIAL)

    def received(self, options: dict[str, Any]) -> Import:
        """The import, not saved, with the guess said aloud."""
        digest, path = keep_copy(options["file"])
        row = imports.receive(
            path=path,
            digest=digest,
            file_name=options["file"].name,
            source=_source(options["source"], options["team"]),
            by="import_leads",
            encoding=options["encoding"],
            delimiter=DELIMITERS.get(options["delimiter"], options["delimiter"]),
            header_line=options["header_line"],
            match_phones=options["match_phones"],
        )
        row.mapping = columns.check(_mapped(row, options["map"]), columns=len(row.columns))
        for notice in row.notices:
            self.stderr.write(notice)
        named = (f"{name} -> {field}" for name, field in zip(row.columns, row.mapping, strict=True) if field)
        self.stderr.write(f"{row.encoding}, delimiter {row.delimiter!r}: {'; '.join(named)}")
        return row

    def rehearse(self, row: Import) -> dict[str, Any]:
        found = imports.rehearse(row=row)
        for problem in found.problems:
            self.stderr.write(f"line {problem['line']}: {problem['reason']}")
        verdicts = {name: found.verdicts[name] for name in ImportRow.Verdict.values}
        return {
            **self.figures(row, dry_run=True),
            **verdicts,
            "records": found.records,
            "status": "rehearsed",
            "problems": found.problems,
        }

    def run(self, wanted: Import) -> dict[str, Any]:
        """Go on until the import has ended or somebody has paused or cancelled it; watch while the queue is at it."""
        row, new = imports.save(row=wanted)
        if not new:
            self.stderr.write(f"This file is being imported already, by {row.received_by}: going on with that import.")
        imports.start(row=row)
        row.refresh_from_db()
        while row.status == Import.Status.RUNNING:
            try:
                row = imports.run(import_id=row.pk, say=self.progress)
            except ImportTaken:  # the queue is at it; where that dies, its lease ends and we go on
                time.sleep(1)
                row.refresh_from_db()
                self.progress(row)
        rejected = ImportRow.objects.filter(of=row, verdict=ImportRow.Verdict.REJECTED).order_by("number")
        problems = [{"line": line, "reason": why} for line, why in rejected.values_list("line", "reason")[:20]]
        for problem in problems:
            self.stderr.write(f"line {problem['line']}: {problem['reason']}")
        if row.problem:
            self.stderr.write(row.problem)
        verdicts = {name: getattr(row, name) for name in ImportRow.Verdict.values}
        return {
            **self.figures(row, dry_run=False),
            **verdicts,
            "records": row.position,
            "status": row.status,
            "problems": problems,
        }

    def figures(self, row: Import, *, dry_run: bool) -> dict[str, Any]:
        return {
            "command": "import_leads",
            "dry_run": dry_run,
            "import": row.pk,
            "source": row.source.slug,
            "encoding": row.encoding,
            "delimiter": row.delimiter,
            "header_line": row.header_line,
            "mapping": {name: field for name, field in zip(row.columns, row.mapping, strict=True) if field},
            "match_phones": row.match_phones,
        }

    def progress(self, row: Import) -> None:
        self.stderr.write(f"{row.position:,} of {row.total or 0:,} records")


def _mapped(row: Import, given: Sequence[str]) -> list[str]:
    mapping = list(row.mapping)
    for one in given:
        name, equals, field = one.rpartition("=")
        if not equals:
            raise BadMapping(f"--map takes COLUMN=FIELD, not {one!r}.")
        if name in row.columns:
            position = row.columns.index(name)
        elif name.isdecimal() and 1 <= int(name) <= len(mapping):
            position = int(name) - 1
        else:
            raise BadMapping(f"There is no column {name!r}. There is: {', '.join(row.columns)}.")
        mapping = ["" if each == field and at != position else each for at, each in enumerate(mapping)]
        mapping[position] = field
    return mapping


def _source(slug: str | None, team: str | None) -> InboundSource:
    if slug:
        source = InboundSource.objects.filter(slug=slug).first()
        if source is None:
            known = ", ".join(InboundSource.objects.order_by("slug").values_list("slug", flat=True)[:20])
            raise CommandError(f"There is no source {slug}. There is: {known or 'none yet'}.", returncode=USAGE)
        return source
    found = Team.objects.filter(name__iexact=team or "").first()
    if found is None and team and team.isdecimal():
        found = Team.objects.filter(pk=min(int(team), 2**63 - 1)).first()
    if found is None or found.retired_at:
        raise CommandError(f"There is no team {team} that takes leads.", returncode=USAGE)
    return source_for_team(team=found)
