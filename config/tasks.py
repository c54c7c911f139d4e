"""Tasks that belong to no app."""

from config import crm_users


def beat() -> None:
    """Do nothing: that it was done shows that its queue is being worked on."""


def match_crm_users() -> dict[str, int]:
    """Find the CRM users of reps who have none yet."""
    done = crm_users.match_crm_users()
    return {"matched": done.matched, "missing": len(done.missing)}
