"""Faults that the sender must not have, each as the few letters that would make it, and the test that must see it.

A fence dropped, the ledger written after the mail, a reaper that makes due what was begun, a claim by
`IN (SELECT ... LIMIT)`, the worker's clock instead of the database's, waits without jitter, a gate that does not ask.
"""

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GATE = "tests/outreach/test_gate.py"
SETTLING = "tests/outreach/test_settling.py"
CLAIMS = "tests/races/test_outreach_claims.py"
KILLS = "tests/drills/test_outreach_kills.py"


@dataclass(frozen=True)
class Mutant:
    """A fault: texts of one file, each standing there exactly once, and what they become; and the test it turns red."""

    name: str
    file: str
    changes: tuple[tuple[str, str], ...]
    test: str

    def source(self) -> str:
        """The file with the fault in it. Raises LookupError where a text does not stand there exactly once."""
        text = (ROOT / self.file).read_text()
        for old, new in self.changes:
            if text.count(old) != 1:
                raise LookupError(f"{self.name}: {old!r} stands {text.count(old)} times in {self.file}")
            text = text.replace(old, new)
        return text


MUTANTS = (
    Mutant(
        "no fence at the gate",
        "outreach/sql/gate.sql",
        (("facts.status <> 'claimed' OR NOT facts.ours", "facts.status <> 'claimed'"),),
        f"{GATE}::test_a_message_of_another_claim_does_not_pass_i3",
    ),
    Mutant(
        "no fence at the settlement",
        "outreach/sql/settle.sql",
        ((" AND claim.token = coalesce(p_token, claim.token))", ")"),),
        f"{SETTLING}::test_nobody_settles_under_a_token_that_is_not_the_trys_own",
    ),
    Mutant(
        "the ledger after the mail",
        "outreach/flows/sender.py",
        (
            ("    gate = pass_gate(", "    outcome = run.relay.hand_over(mail.mail)\n    gate = pass_gate("),
            ('return gate.reason if gate.stop else ""\n    outcome = run.relay.hand_over(mail.mail)\n', 'return ""\n'),
        ),
        f"{KILLS}::test_a_sender_killed_there_mails_nobody_twice_and_loses_nobody_i1[after the dot]",
    ),
    Mutant(
        "the reaper makes begun due",
        "outreach/moves/reaper.py",
        (("CASE WHEN message.status = 'begun' THEN 'in_doubt'", "CASE WHEN message.status = 'begun' THEN 'due'"),),
        f"{SETTLING}::test_the_reaper_makes_due_what_was_not_begun_and_puts_in_doubt_what_was_i4",
    ),
    Mutant(
        "IN (SELECT ... LIMIT)",
        "outreach/moves/claims.py",
        (
            (
                "FROM made, kept\n         WHERE outreach_message.id = kept.id AND status = 'due'\n",
                "FROM made\n         WHERE outreach_message.id IN (\n"
                "             SELECT id FROM outreach_message inner_one\n"
                "              WHERE campaign_id = %(campaign)s AND status = 'due'\n"
                "              ORDER BY due_at, id LIMIT %(size)s FOR NO KEY UPDATE SKIP LOCKED)\n",
            ),
            (
                "RETURNING outreach_message.id, claim_id, kept.due_at)",
                "RETURNING outreach_message.id, claim_id, due_at)",
            ),
        ),
        f"{CLAIMS}::test_a_claim_never_exceeds_its_limit_under_stale_statistics_and_nested_loops_i2",
    ),
    Mutant(
        "the worker's clock",
        "outreach/moves/gate.py",
        (
            (
                '    values: dict[str, Any] = {"token"',
                "    running = Claim.objects.filter(token=token, lease_until__gt=timezone.now())\n"
                "    running.update(lease_until=Now() + timedelta(minutes=1))\n"
                '    values: dict[str, Any] = {"token"',
            ),
            (
                "from django.conf import",
                "from datetime import timedelta\nfrom django.db.models.functions import Now\n"
                "from django.utils import timezone\n"
                "from outreach.models import Claim\nfrom django.conf import",
            ),
        ),
        f"{GATE}::test_an_expired_lease_does_not_pass_whatever_the_workers_clock_says_i3",
    ),
    Mutant(
        "waits without jitter",
        "outreach/moves/settling.py",
        ((" * (1 + random.random() / 5)", ""),),
        f"{SETTLING}::test_a_refusal_for_now_comes_back_later_each_time_with_jitter_that_only_adds",
    ),
    Mutant(
        "unsubscribed is not asked",
        "outreach/sql/gate.sql",
        (("WHEN facts.suppressed THEN", "WHEN false THEN"),),
        f"{GATE}::test_an_unsubscribe_before_the_gate_means_no_mail_i11",
    ),
)
