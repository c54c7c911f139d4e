"""Can a field of the org hold what Rota sends into it? Pure.

Of Rota's own fields it is known what they are; what a form or another sender says beside them may be anything.
"""

from collections.abc import Mapping

from crmsync.describe import FieldInfo, same

TEXTS = {"string", "textarea", "picklist", "combobox", "url", "phone", "email"}
"""Types of fields, in the words of the API's describe, that take a text only."""

EVERY_TEXT = (TEXTS - {"email"}) | {"multipicklist"}
HELD_BY = {
    "text": EVERY_TEXT,
    "e-mail address": EVERY_TEXT | {"email"},
    "number": EVERY_TEXT | {"int", "long", "double", "currency", "percent"},
    "true or false": EVERY_TEXT | {"boolean"},
    "date": EVERY_TEXT | {"date"},
    "date and time": EVERY_TEXT | {"datetime"},
    "id of a user": EVERY_TEXT | {"reference"},
}
SENT_AS: Mapping[str, str] = {
    "email": "e-mail address",
    "owner": "id of a user",
    "employees": "number",
    "last_campaign_step": "number",
    "last_mailed_at": "date and time",
    "opted_out": "true or false",
    "due_on": "date",
    "step": "number",
    **dict.fromkeys(
        (
            "phone", "first_name", "last_name", "company", "country", "source", "status", "title", "name", "website",
            "industry", "subject", "kind", "description", "last_campaign", "campaign", "message_id",
        ),
        "text",
    ),
}  # fmt: skip
FROM_PARENTS: Mapping[str, frozenset[str]] = {"Contact": frozenset({"AccountId"}), "Task": frozenset({"WhoId"})}
"""Fields that Rota fills by naming the record's parent."""


def cannot_hold(field: FieldInfo, ours: str) -> str:
    """Why the org would refuse every record with Rota's field `ours` in this one; "": nothing is known against it."""
    sent = SENT_AS.get(ours)
    if sent is None:
        return ""
    if field.type not in HELD_BY[sent]:
        return f"{field.name} is of type {field.type}, and {ours} is sent as {sent}."
    if sent == "id of a user" and field.refers_to and "User" not in field.refers_to:
        return f"{field.name} refers to {' or '.join(field.refers_to)}, and {ours} is sent as {sent}."
    return ""


def rota_writes(*, object: str, theirs: str, external_id_field: str) -> str:
    """Why no field of a record may be sent into this one: Rota fills it by itself; "": it does not."""
    if same(theirs, external_id_field):
        return f"{theirs} is the key by which Rota finds its records (CRM_EXTERNAL_ID_FIELD): nothing else goes there."
    if any(same(theirs, one) for one in FROM_PARENTS.get(object, ())):
        return f"{theirs} names the parent that Rota puts the record under: nothing else goes there."
    return ""
