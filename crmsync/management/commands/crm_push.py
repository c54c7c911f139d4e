"""A file of changes becomes a mass update of the CRM."""

import json
import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from crmsync.desk.words import plural
from crmsync.errors import NO_ANSWER, NOT_CONNECTED, CallFailed, CrmSyncError
from crmsync.flows.push import Looked, look, push
from crmsync.gateway import connect
from crmsync.models import Batch, Operation
from crmsync.moves.progress import progress
from crmsync.paths import given_path
from crmsync.push.problems import SHOWN

DONE, FAILED, USAGE = 0, 1, 2


class Command(BaseCommand):
    help = (
        "Queue every row of a CSV file as a change of one CRM record; task queues send them. The first line names the "
        "columns by the API names of their fields; Account.Rota_Id__c names the parent. An empty cell leaves a field "
        "alone, #N/A empties it. Nothing is queued unless the whole file is right. About a minute for 100,000 rows. "
        "Killed midway, the same command goes on. Exit 1: the file or the org refused; 2: wrong usage."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=given_path)
        parser.add_argument("--object", required=True, help="The object's API name, such as Contact.")
        parser.add_argument("--key", default="", help="The external id column (the setting CRM_EXTERNAL_ID_FIELD).")
        parser.add_argument("--parent", default="", help="The column that must name the parent: Account.Rota_Id__c.")
        parser.add_argument("--operation", choices=Operation.values, default=Operation.UPSERT.value)
        parser.add_argument("--encoding", default="", help="Such as cp1252; found out if the file is in Unicode.")
        parser.add_argument("--again", action="store_true", help="Push the file although it was pushed before.")
        parser.add_argument(
            "--dry-run", action="store_true", help="Say what is wrong, or show the plan; queue nothing."
        )
        parser.add_argument("--json", action="store_true", help="One JSON object as the last line of stdout.")

    def handle(self, *args: Any, **options: Any) -> None:
        self.as_json = options["json"]
        if not options["file"].is_file():
            what = "is a folder, not a file" if options["file"].is_dir() else "is not there"
            self.fail(f"{options['file']} {what}: name the CSV file to push.", code=USAGE)
        try:
            self.run(options)
        except CallFailed as failed:
            fault = failed.fault
            answered = fault.code not in (NOT_CONNECTED, NO_ANSWER)
            what = "The org refused to say what it knows" if answered else "The org did not say what it knows"
            self.fail(f"{what}: {fault.code or fault.status} {fault.text[:200]}. See crm_doctor.")
        except (CrmSyncError, OSError) as error:
            self.fail(str(error))

    def run(self, options: dict[str, Any]) -> None:
        looked = look(
            options["file"],
            org=connect(),
            object=options["object"],
            operation=Operation(options["operation"]),
            key=options["key"],
            parent=options["parent"],
            encoding=options["encoding"],
        )
        for notice in looked.checked.notices:
            self.stderr.write(notice)
        if looked.plan is None:
            self.refuse(looked)
        if options["dry_run"]:
            self.show(looked)
            raise SystemExit(DONE)
        batch = push(looked=looked, again=options["again"], told=self.tell)
        counts = progress(batch).as_counts()
        self.say(
            {"batch": batch.pk, "object": batch.object, "operation": batch.operation, **counts},
            f"Mass update {batch.pk}: {batch.rows_queued:,} rows are in the outbox.",
        )
        raise SystemExit(DONE)

    def tell(self, batch: Batch) -> None:
        self.stderr.write(f"{batch.rows_queued:,} of {batch.rows_total:,} rows queued")

    def refuse(self, looked: Looked) -> None:
        problems = looked.checked.problems
        for problem in problems.found:
            self.stderr.write(str(problem))
        if problems.left:
            self.stderr.write(f"and {problems.left:,} more")
        told = [{"line": problem.line, "text": problem.text} for problem in problems.found[:SHOWN]]
        self.say(
            {"queued": 0, "problems": problems.count, "first": told},
            f"Nothing was queued: {plural(problems.count, 'problem')}.",
        )
        raise SystemExit(FAILED)

    def show(self, looked: Looked) -> None:
        plan = looked.plan
        assert plan is not None
        source = "by our last calls" if plan.measured else "a guess: no calls measured yet"
        lines = [
            f"{plan.rows:,} rows, {plan.parents:,} parents: {plan.calls:,} calls, about {plan.seconds:,.0f} s "
            f"with {plan.workers} workers ({source})",
            *(f"  {hot.parent}: {hot.rows:,} rows, {hot.calls:,} calls, {hot.seconds:,.1f} s" for hot in plan.hottest),
        ]
        self.say({"dry_run": True, **plan.as_counts()}, "\n".join(lines))

    def fail(self, text: str, *, code: int = FAILED) -> None:
        self.stderr.write(text)
        if self.as_json:
            self.stdout.write(json.dumps({"error": text}))
        sys.exit(code)

    def say(self, counts: dict[str, Any], text: str) -> None:
        self.stdout.write(json.dumps(counts) if self.as_json else text)
