"""Examine the org that Rota writes to."""

import json
from collections import Counter
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from crmsync.desk.words import plural
from crmsync.doctor.contacts import Company
from crmsync.doctor.examine import Person, examine
from crmsync.doctor.findings import Verdict
from outreach.models import Campaign
from routing.models import Account, Rep

FAILED, PARTLY = 1, 3
MARKS = {
    Verdict.OK: "  ok     ",
    Verdict.WARNING: "  WARNING",
    Verdict.PROBLEM: "  PROBLEM",
    Verdict.UNKNOWN: "  unknown",
}


class Command(BaseCommand):
    help = (
        "Examine the CRM step by step and say what to fix; writes nothing. Exit 1: there are problems; 3: none is "
        "known, but the org did not answer every question."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="one JSON object as the last line of stdout")

    def handle(self, *args: Any, **options: Any) -> None:
        reps = Rep.objects.filter(retired_at=None).order_by("name", "pk")
        people = [Person(name=rep.name, crm_user_id=rep.crm_user_id) for rep in reps]
        companies = [Company(name=account.name, crm_id=account.crm_id) for account in Account.objects.order_by("name")]
        counts: Counter[str] = Counter()
        findings = []
        logged = Campaign.objects.filter(logs_activities=True).exists()
        for finding in examine(people=people, companies=companies, activities=logged):
            counts[finding.verdict] += 1
            findings.append(asdict(finding))
            if not options["json"]:
                self.stdout.write(f"{MARKS[finding.verdict]}  {finding.step}: {finding.says}")
                if finding.fix:
                    self.stdout.write(f"{'':13}{finding.fix}")
        problems, unknown = counts[Verdict.PROBLEM], counts[Verdict.UNKNOWN]
        if options["json"]:
            self.stdout.write(json.dumps({**counts, "ok": not (problems or unknown), "findings": findings}))
        elif problems:
            self.stdout.write(f"{plural(problems, 'problem')} to fix.")
        elif unknown:
            self.stdout.write(f"{plural(unknown, 'question')} not answered: whether records arrive is not known.")
        if problems or unknown:
            raise SystemExit(FAILED if problems else PARTLY)
