"""Settle mails in doubt by what was reported of them; where nothing was, a person decides."""

from outreach.moves.feedback import evidence, outcome_of_report
from outreach.moves.settling import settle


def resolve_in_doubt(*, dry_run: bool = False) -> int:
    """Look every mail in doubt up, by its Message-ID, in the reports received after it was begun.

    Return how many were settled, or would be. Each in a transaction of its own; one that somebody decided meanwhile is
    left alone. A report that comes later settles its mail when it comes.
    """
    done = 0
    for found in evidence():
        outcome = outcome_of_report(found.kind, found.source)
        if outcome is not None:
            done += dry_run or settle(attempt_id=found.attempt, outcome=outcome, worker=found.source)
    return done
