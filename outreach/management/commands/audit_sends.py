"""Say who was mailed twice, from the logs of mail servers, providers and other senders."""

import datetime as dt
import json
from argparse import ArgumentParser
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from crmsync.arguments import positive
from crmsync.paths import given_path
from outreach.audit.doubles import HOLDS, Double, Limits, words
from outreach.audit.times import Clock
from outreach.checks import CHECKS
from outreach.errors import NotALog
from outreach.flows.auditing import Audit, audit

SHOWN = 50
LONGEST = 1_000_000
"""Of a lease in seconds, and of --within in hours: more than a hundred years."""
KINDS = {
    "parallel_workers": "parallel workers",
    "retry": "a retry",
    "two_campaigns": "two campaigns",
    "unknown": "a retry or parallel workers, which cannot be told",
}


class Command(BaseCommand):
    requires_system_checks = [CHECKS]

    help = (
        "Read mail logs (Postfix's, provider events as JSON, CSV; packed or not, in any order, - for standard "
        "input), join them with Rota's ledger where it has one, and say which addresses got two mails, by which "
        "workers, how far apart, whether that is parallel workers, a retry or two campaigns, and which layer let it "
        "through. Exit 3 where somebody was mailed twice, 2 where a file is no mail log or nothing in it can be used."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("files", nargs="+", type=given_path, metavar="FILE")
        parser.add_argument("--zone", default="UTC", help="time zone of times that name none (UTC)")
        parser.add_argument(
            "--dates", choices=("dmy", "mdy"), default="", help="what 01/02/2026 is, where no day above 12 says it"
        )
        parser.add_argument("--year", type=int, help="year of the last line, where the times have none (the newest)")
        parser.add_argument(
            "--within",
            type=positive,
            default=settings.QUIET_PERIOD_H,
            metavar="HOURS",
            help="mails further apart are no double unless they say so (QUIET_PERIOD_H)",
        )
        parser.add_argument(
            "--lease",
            type=positive,
            default=settings.CLAIM_LEASE_S,
            metavar="SECONDS",
            help="two workers no further apart are parallel (CLAIM_LEASE_S)",
        )
        parser.add_argument("--no-ledger", action="store_true", help="look at the logs alone")
        parser.add_argument("--json", action="store_true", help="one JSON object as the last line of stdout")

    def handle(self, *args: Any, **options: Any) -> None:
        clock = Clock(last_of(options["year"]), zone_of(options["zone"]), options["dates"])
        limits = Limits(amount("--lease", options["lease"]), amount("--within", options["within"]) * 3_600)
        try:
            found = audit(files=options["files"], clock=clock, limits=limits, use_ledger=not options["no_ledger"])
        except (NotALog, OSError) as fault:
            raise CommandError(str(fault), returncode=2) from None
        for warning in found.read.warnings:
            self.stderr.write(f"WARNING: {warning}")
        self.stdout.write(json.dumps(found.as_dict()) if options["json"] else as_text(found))
        if found.doubles:
            raise SystemExit(3)


def last_of(year: int | None) -> dt.datetime:
    """No line is later: tomorrow, for clocks differ; or the last moment of the given year. Raises CommandError."""
    if year is None:
        return timezone.now() + dt.timedelta(days=1)
    if not 1970 <= year < 2200:
        raise CommandError(f"--year {year}: wanted is the year of a mail log, such as 2026.", returncode=2)
    return dt.datetime(year + 1, 1, 1, tzinfo=dt.UTC)


def amount(name: str, given: float) -> float:
    """What the option says, if a time can be as long. Raises CommandError."""
    if not 0 <= given <= LONGEST:
        raise CommandError(f"{name} {given:g}: wanted is a number from 0 to {LONGEST:,}.", returncode=2)
    return given


def zone_of(name: str) -> ZoneInfo:
    """The time zone with this name. Raises CommandError."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise CommandError(f"{name} is no time zone, such as Europe/Paris.", returncode=2) from None


def as_text(found: Audit) -> str:
    """The finding for people."""
    read = found.read
    lines = [f"{file}: {form}" for file, form in read.files.items()]
    lines.append(f"{read.lines} lines, mail to {found.addresses} addresses, {found.mailed_twice} of them mailed twice.")
    if read.bad_lines:
        lines.append(f"{read.bad_lines} lines could not be used:")
        lines += [f"  {bad['file']}:{bad['line']}: {bad['why']}: {bad['text']}" for bad in read.bad[:SHOWN]]
    others = {
        "deliveries put off and tried again": found.deferrals,
        "hops from relay to relay": found.hops,
        "notices of mail systems": found.notices,
        "addresses with several steps of one campaign": found.series,
        "addresses mailed again only later": found.far_apart,
        "mails in doubt that these logs show as delivered": found.in_doubt_delivered,
    }
    lines += [f"No double: {many} {what}." for what, many in others.items() if many]
    if not found.ledger:
        lines.append("Rota's ledger was not asked, or is empty.")
    for one in found.doubles[:SHOWN]:
        lines += ["", *of_double(one)]
    if len(found.doubles) > SHOWN:
        lines.append(f"\n... and {len(found.doubles) - SHOWN} more; --json lists all.")
    return "\n".join(lines)


def of_double(one: Double) -> list[str]:
    """A double in a few lines."""
    apart = "" if one.apart_s is None else f", {words(one.apart_s)} apart"
    guess = "" if one.sure or one.kind == "unknown" else "probably "
    held = f" (a mail through Rota is held by the {HOLDS[one.kind]})" if one.layer == "none" else ""
    return [
        f"{one.address}: {len(one.copies)} mails{apart}, by {' and '.join(one.workers)}",
        f"  {guess}{KINDS[one.kind]}: {one.because}",
        f"  layer: {one.layer}: {one.layer_because}{held}",
        *(f"  {mail['at']} {mail['worker']} <{mail['message_id']}> {', '.join(mail['places'])}" for mail in mails(one)),
    ]


def mails(one: Double) -> list[dict[str, Any]]:
    return list(one.as_dict()["mails"])
