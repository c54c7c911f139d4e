"""Does a field of the org take what Rota would write into it? Asked before a person's mapping is believed."""

from dataclasses import dataclass

from crmsync.describe import read_object
from crmsync.errors import CallFailed, NoSuchObject, NotConfigured
from crmsync.gateway import connect
from crmsync.kinds import cannot_hold

WRITABLE_KINDS = {
    "string", "textarea", "picklist", "combobox", "multipicklist", "url", "phone", "email", "int", "double", "currency",
    "percent", "boolean", "date", "datetime", "reference",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Checked:
    """`problem`: why no record with this field would be taken; "": none. `asked`: the org answered at all."""

    asked: bool
    problem: str = ""
    kind: str = ""
    length: int | None = None


def check_field(*, object: str, field: str, ours: str = "") -> Checked:
    """What the org says of this field, as the place for Rota's field `ours` where that is given; an org that does not
    answer leaves the question open."""
    try:
        described = read_object(connect(), object)
    except (CallFailed, NotConfigured, NoSuchObject) as error:
        return Checked(asked=False, problem=f"The org was not asked: {error}")
    known = described.field(field)
    if known is None:
        return Checked(True, f"{object} has no field {field}, or Rota's user in the org may not see it.")
    if known.name != field:
        return Checked(True, f"The field is called {known.name}, in these letters.")
    if not (known.createable and known.updateable):
        return Checked(True, f"{field} is read-only for Rota's user in the org.")
    if known.type not in WRITABLE_KINDS:
        return Checked(True, f"{field} is of type {known.type}, which Rota does not write.")
    if ours and (problem := cannot_hold(known, ours)):
        return Checked(True, problem)
    return Checked(True, kind=known.type, length=known.length or None)
