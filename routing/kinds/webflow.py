"""Webflow form submissions, from webhooks that an OAuth app created: only those are signed.

x-webflow-signature is hex HMAC-SHA256, by the app's client secret, of the time in milliseconds, a colon and the body;
older than five minutes is refused. https://developers.webflow.com/data/docs/working-with-webhooks
"""

from typing import Any

from routing.kinds.kind import Incoming, Kind, Read, fresh, mac, required, same


def verify(incoming: Incoming, secret: str) -> bool:
    """The signature of time and body."""
    stamp = incoming.headers.get("x-webflow-timestamp", "")
    wanted = mac(secret, stamp, ":", incoming.body).hex()
    good = same(incoming.headers.get("x-webflow-signature", ""), wanted)
    return good and fresh(stamp, at=incoming.at, per_second=1000)


def name(said: dict[str, Any]) -> str:
    """The submission's id."""
    return str(required(said, "payload", "id"))


def read(said: dict[str, Any]) -> Read:
    """The form's fields by their labels, and which form it was."""
    type_ = str(required(said, "triggerType"))
    if type_ != "form_submission":
        return Read(ignored=f"{type_[:60]} brings no lead")
    payload = required(said, "payload")
    fields = {label: value for label, value in required(payload, "data").items() if value not in (None, "")}
    form = {"form": payload.get("name"), "form_id": payload.get("formId"), "submitted_at": payload.get("submittedAt")}
    return Read(fields={**{name: value for name, value in form.items() if value}, **fields})


KIND = Kind(
    label="Webflow",
    how="Create a webhook for form_submission with your Webflow app; one made in the dashboard is not signed.",
    secret_is="The client secret of the Webflow app.",
    verify=verify,
    name=name,
    read=read,
)
