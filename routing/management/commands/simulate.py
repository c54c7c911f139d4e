"""Rehearse past leads, or those of a file, under draft rules and changed members, and show what would differ."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from crmsync.paths import given_path
from routing.columns import guess
from routing.errors import BadCondition, BadFile, InvalidLead
from routing.floor import Change
from routing.import_files import look_at
from routing.import_rows import reader_of
from routing.models import InboundSource, Lead, Membership, Rep, RuleBook, Team
from routing.normalise import CleanLead, clean_lead
from routing.rule_books import NO_RULES, members_of, read
from routing.simulate import Differences, Side, as_dict, of_file, of_leads, simulate


class Command(BaseCommand):
    help = (
        "Decide the last leads, or those of a file, once by the rules and members in force and once by the draft and "
        "the changes in --members, and show what would differ, per rep and per rule. It reads in a transaction that "
        "cannot write. Caps on open leads are left out. About a second for a thousand leads. Exit 2 for a wrong file."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--last", type=int, default=1_000, metavar="N", help="the last N leads (default 1,000)")
        parser.add_argument(
            "--file", type=given_path, metavar="FILE", help="leads as .jsonl with Rota's field names, or as any .csv"
        )
        parser.add_argument("--source", metavar="SLUG", help="with --file: the source they would come from")
        parser.add_argument(
            "--members",
            type=given_path,
            metavar="FILE.json",
            help='changes: [{"team": "Inbound", "rep": "ann@acme.example", "weight": 3, "active": true}, ...]',
        )
        parser.add_argument("--ignore-hours", action="store_true", help="as if everybody worked all the time")
        parser.add_argument("--json", action="store_true", help="one JSON object as the last line of stdout")

    def handle(self, *args: Any, **options: Any) -> None:
        published = RuleBook.objects.filter(status=RuleBook.Status.PUBLISHED).first()
        draft = RuleBook.objects.filter(status=RuleBook.Status.DRAFT).first() or published
        try:
            now = Side(read(published) if published else NO_RULES)
            changes = list(_changes(options["members"])) if options["members"] else []
            then = Side(read(draft), members_of(draft), changes) if draft else Side(NO_RULES, changes=changes)
            if options["file"]:
                source = InboundSource.objects.filter(slug=options["source"] or "").first()
                if source is None:
                    raise CommandError("--file needs --source, the slug of a source.", returncode=2)
                samples = of_file(rows=list(_rows(options["file"])), source=source, at=timezone.now())
            else:
                samples = of_leads(list(Lead.objects.order_by("-pk")[: options["last"]])[::-1])
        except (OSError, ValueError, KeyError, BadCondition, BadFile, InvalidLead) as fault:
            raise CommandError(f"{type(fault).__name__}: {fault}", returncode=2) from fault
        found = simulate(samples=samples, now=now, then=then, ignore_hours=options["ignore_hours"])
        self.stdout.write(json.dumps(as_dict(found)) if options["json"] else as_table(found))


def as_table(found: Differences) -> str:
    lines = [f"{found.leads} leads; {found.different} decided differently."]
    for title, pairs in (("rep", found.by_rep), ("rule", found.by_rule)):
        lines.append(f"\n{title:40}{'now':>8}{'then':>8}{'change':>8}")
        lines += [f"{name[:39]:40}{now:>8}{then:>8}{then - now:>+8}" for name, (now, then) in pairs.items()]
    lines += [""] + [f"{each['lead']}: {each['now']} -> {each['then']}" for each in found.examples]
    return "\n".join(lines)


def _rows(path: Path) -> Iterable[CleanLead]:
    if path.suffix == ".csv":
        table = look_at(path)
        for row in map(reader_of(guess(table.header), match_phones=True), table.records()):
            if row.lead is None:
                raise ValueError(f"line {row.line}: {row.reason}")
            yield row.lead
        return
    with path.open(encoding="utf-8-sig") as file:
        for said in map(json.loads, filter(str.strip, file)):
            yield clean_lead({key: value for key, value in said.items() if key})


def _changes(path: Path) -> Iterable[Change]:
    for row in json.loads(path.read_text()):
        team = Team.objects.filter(name__iexact=row["team"]).first()
        rep = Rep.objects.filter(email__iexact=row["rep"]).first()
        if team is None or rep is None:
            raise ValueError(f"There is no {'team ' + row['team'] if team is None else 'rep ' + row['rep']}.")
        member = Membership.objects.filter(team=team, rep=rep).first()
        active = row.get("active", member.active if member else True)
        yield Change(team.pk, rep.pk, row.get("weight"), active)
