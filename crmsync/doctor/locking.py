"""What else in the org locks the objects that Rota writes, as far as the org tells."""

from collections.abc import Sequence

from crmsync.doctor import asking
from crmsync.errors import CallFailed, NoSuchObject, NotConfigured
from crmsync.gateway import connect


def built_in(names: Sequence[str]) -> tuple[list[asking.Built], str]:
    """Triggers, record-triggered flows and roll-ups of these objects, and what could not be learned; "": everything."""
    try:
        org = connect()
        org.sign_in()
    except (NotConfigured, CallFailed) as error:
        return [], f"The org was not asked what else locks these objects: {error}"
    found: list[asking.Built] = []
    silent = []
    for what, ask in (
        ("triggers", asking.triggers),
        ("flows", asking.flows),
        ("roll-ups", lambda org: asking.roll_ups(org, names)),
    ):
        try:
            found += [each for each in ask(org) if each.object in names]
        except CallFailed as failed:
            silent.append(f"{what} ({failed.fault.code or failed.fault.status})")
        except NoSuchObject as gone:
            silent.append(f"{what} ({gone})")
    return found, f"The org did not tell its {', '.join(silent)}." if silent else ""
