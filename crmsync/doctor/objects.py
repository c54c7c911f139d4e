"""Does an object of the org have what Rota writes to it? Pure: it compares a description with the mapping."""

from collections.abc import Iterator, Sequence

from crmsync.describe import ObjectInfo
from crmsync.doctor.findings import Finding, Verdict
from crmsync.kinds import cannot_hold, rota_writes
from crmsync.mapping import PLACEHOLDER, ObjectMapping

KEY_LENGTH = 36
"""Characters of the longest key that Rota itself writes: a lead's, a UUID."""


def access(described: ObjectInfo) -> Iterator[Finding]:
    step, name = f"{described.name}: access", described.name
    missing = [word for word, has in (("create", described.createable), ("edit", described.updateable)) if not has]
    if missing:
        fix = f"Give the run-as user's permission set {' and '.join(missing)} on {name}."
        yield Finding(step, Verdict.PROBLEM, f"The user may not {' or '.join(missing)} {name} records.", fix)
    else:
        yield Finding(step, Verdict.OK, f"The user may create and edit {name} records.")


def external_id(described: ObjectInfo, field_name: str) -> Iterator[Finding]:
    step = f"{described.name}: {field_name}"
    field = described.fields.get(field_name)
    if field is None:
        made_on = "Activity, which Task and Event share," if described.name == "Task" else described.name
        yield Finding(
            step,
            Verdict.PROBLEM,
            f"{described.name} has no field {field_name}, or the user may not see it.",
            f"Add a text field {field_name} (external id, unique, 255 characters) to {made_on} and let the user edit "
            "it.",
        )
        return
    wrong = []
    if not field.external_id:
        wrong.append("is no external id")
    if not field.unique:
        wrong.append("is not unique, so that two records could answer to one key")
    if field.type == "string" and field.length < KEY_LENGTH:
        wrong.append(f"holds {field.length} characters, and Rota's own keys have {KEY_LENGTH}")
    if not (field.createable and field.updateable):
        wrong.append("cannot be edited by this user")
    if wrong:
        text = f"{field_name} {'; it '.join(wrong)}."
        yield Finding(step, Verdict.PROBLEM, text, "Correct the field's settings and its field-level security.")
    else:
        says = f"{field_name} is there: external id, unique, editable."
        if field.length:
            says += f" It holds {field.length} characters; Rota's own keys have {KEY_LENGTH}."
        yield Finding(step, Verdict.OK, says)


def accounts(described: ObjectInfo, external_id_field: str) -> Iterator[Finding]:
    """Account where nothing was written to it yet: Rota reads accounts, and only a person's file needs more."""
    name = described.name
    yield Finding(f"{name}: access", Verdict.OK, "The user may read accounts; Rota writes none by itself.")
    lacking = [each for each in external_id(described, external_id_field) if each.verdict != Verdict.OK]
    for each in (*lacking, *(each for each in access(described) if each.verdict != Verdict.OK)):
        only = (
            f"That matters only to a mass update of accounts, or one that names parents by {name}.{external_id_field}"
        )
        yield Finding(each.step, Verdict.OK, f"{each.says} {only}.", f"If you want that: {each.fix}")


def fields(described: ObjectInfo, table: ObjectMapping, external_id_field: str) -> Iterator[Finding]:
    """Every field that the mapping names exists, can be written, holds what is sent, and is long enough."""
    step = f"{described.name}: fields"
    sound = True
    for ours, theirs in table.fields.items():
        field = described.fields.get(theirs)
        own = rota_writes(object=described.name, theirs=theirs, external_id_field=external_id_field)
        if own:
            sound = False
            yield Finding(step, Verdict.PROBLEM, f"{ours}: {own}", f"Map {ours} elsewhere (Field mapping).")
        elif field is None:
            sound = False
            yield Finding(
                step,
                Verdict.PROBLEM,
                f"{theirs} ({ours}) does not exist, or the user may not see it: every record with it would be refused.",
                f"Create {theirs}, or give the user's permission set access to it, or map {ours} elsewhere.",
            )
        elif not (field.createable and field.updateable):
            sound = False
            yield Finding(
                step, Verdict.PROBLEM, f"{theirs} ({ours}) is read-only for this user.", f"Let the user edit {theirs}."
            )
        elif unfit := cannot_hold(field, ours):
            sound = False
            yield Finding(step, Verdict.PROBLEM, unfit, f"Map {ours} to a field that can hold it (Field mapping).")
        elif (most := table.lengths.get(theirs)) and field.length and field.length < most:
            sound = False
            yield Finding(
                step,
                Verdict.WARNING,
                f"{theirs} holds {field.length} characters where Rota sends up to {most}.",
                f"Lengthen {theirs}; a longer text is refused with STRING_TOO_LONG.",
            )
    if sound:
        yield Finding(step, Verdict.OK, f"All {len(table.fields)} fields that Rota writes can be written.")


def required(described: ObjectInfo, table: ObjectMapping, external_id_field: str) -> Iterator[Finding]:
    """What the org demands of a new record, and Rota does not always fill."""
    sent = set(table.fields.values())
    filled = {*table.required, external_id_field, *({"OwnerId"} & sent)}
    demanded = sorted(name for name, field in described.fields.items() if field.needed and name not in filled)
    step = f"{described.name}: required"
    if demanded:
        yield Finding(
            step,
            Verdict.PROBLEM,
            f"New records need {', '.join(demanded)}, which Rota does not always fill.",
            "Give these fields a default value, or make them optional.",
        )
    for name in unsourced(table):
        yield Finding(
            step,
            Verdict.PROBLEM,
            f"New records need {name}, and no field of Rota goes there: all of them would say {PLACEHOLDER}.",
            f"Map a field to {name} (Field mapping).",
        )
    if not demanded and not unsourced(table):
        yield Finding(step, Verdict.OK, "Nothing is required that Rota does not fill.")


def unsourced(table: ObjectMapping) -> list[str]:
    """What Salesforce requires of a new record, and no field of Rota is sent into."""
    return [name for name in table.required if name not in table.fields.values()]


def examine_object(described: ObjectInfo, table: ObjectMapping, *, external_id_field: str) -> Sequence[Finding]:
    return [
        *access(described),
        *external_id(described, external_id_field),
        *fields(described, table, external_id_field),
        *required(described, table, external_id_field),
    ]
