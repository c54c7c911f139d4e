"""Why changes wait for the CRM, in words for the home page: what waits, since or until when, and because of what."""

from dataclasses import dataclass
from datetime import datetime

from crmsync.models import OrgState


@dataclass(frozen=True)
class Pause:
    """One of several that may run at once. `whole`: nothing at all is sent. `until` None: until somebody resumes, or,
    where `since` is None too, until the next change has been tried. `meanwhile`: what goes on."""

    what: str
    why: str
    by: str = ""
    since: datetime | None = None
    until: datetime | None = None
    meanwhile: str = ""
    whole: bool = True


def pauses(now: datetime) -> list[Pause]:
    """What keeps changes from the org, the most serious first.

    A pause of everything is told of until the org has taken a request again; the lesser ones end with their time.
    """
    org = OrgState.objects.first()
    if org is None:
        return []
    found = []
    if org.stopped_at:
        stopped = "Writing to the CRM was stopped"
        found.append(Pause(stopped, org.stopped_reason, by=org.stopped_by, since=org.stopped_at))
    if org.paused_until:
        ahead = org.paused_until if org.paused_until > now else None
        found.append(Pause("Writing to the CRM is paused", org.paused_reason, until=ahead))
    nothing_goes = bool(found)
    for what, why, until, meanwhile in (
        ("Mass updates wait", org.mass_paused_reason, org.mass_paused_until, "what people wait for is sent"),
        ("No bulk jobs are begun", org.bulk_paused_reason, org.bulk_paused_until, "mass updates go by smaller calls"),
    ):
        if until and until > now:
            found.append(Pause(what, why, until=until, meanwhile="" if nothing_goes else meanwhile, whole=False))
    return found
