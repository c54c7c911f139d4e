"""Meta lead ads (Facebook, Instagram): ids of leads only, after a handshake by GET.

X-Hub-Signature-256 is sha256= and hex HMAC-SHA256 of the raw body by the app secret, without a time. The lead is
fetched from the Graph API with a page access token, which has to be one that does not expire: a short one dies in
silence, which is what a source's alarm is for.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from routing.kinds.kind import Api, BadBody, Incoming, Kind, Question, Read, mac, parse_json, required, same

FIELDS = "id,created_time,ad_id,form_id,campaign_id,is_organic,platform,field_data"
# https://developers.facebook.com/docs/graph-api/guides/error-handling
TOKEN = {102, 190, 10, 200, 294}
LIMITED = {4, 17, 32, 341, 613, 80005}
LATER = {1, 2}
GONE = {(100, 33), (803, None)}


def verify(incoming: Incoming, secret: str) -> bool:
    """The signature of the raw body."""
    wanted = "sha256=" + mac(secret, incoming.body).hex()
    return same(incoming.headers.get("X-Hub-Signature-256", ""), wanted)


def handshake(query: Mapping[str, str], verify_token: str, secrets: Sequence[str]) -> str | None:
    """The challenge, for whoever knows the verify token."""
    known = bool(verify_token) and same(query.get("hub.verify_token", ""), verify_token)
    return query.get("hub.challenge") if known and query.get("hub.mode") == "subscribe" else None


def items(incoming: Incoming) -> Sequence[Any]:
    """The changes of all entries, each with the entry it stands in."""
    said = parse_json(incoming.body)
    if not isinstance(said, dict) or not isinstance(said.get("entry"), list):
        raise BadBody("The body should be an object with a list of entries.")
    found: list[Any] = []
    for entry in said["entry"]:
        changes = entry.get("changes") if isinstance(entry, dict) else None
        if not isinstance(changes, list):
            found.append(entry)
            continue
        around = {"object": said.get("object"), "entry": entry.get("id"), "time": entry.get("time")}
        found += [{**around, **change} if isinstance(change, dict) else change for change in changes]
    return found


def name(said: dict[str, Any]) -> str:
    """The lead's id, which comes once; of anything else all there is to tell it by."""
    if said.get("field") != "leadgen":
        return ".".join(str(said.get(part)) for part in ("field", "entry", "time"))
    return str(required(said, "value", "leadgen_id"))


def read(said: dict[str, Any]) -> Read:
    """The lead to fetch."""
    if said.get("field") != "leadgen":
        return Read(ignored=f"{str(required(said, 'field'))[:60]} brings no lead")
    return Read(fetch=str(required(said, "value", "leadgen_id")))


def ask(lead: str, token: str, names: Sequence[str]) -> Question:
    """A lead with its answers, ad and form."""
    return Question(f"/{quote(lead, safe='')}", {"fields": FIELDS}, {"Authorization": f"Bearer {token}"})


def lead_of(answer: Any) -> Mapping[str, Any]:
    """The answers by the names of their questions, and what belongs to the ad."""
    fields = {
        str(required(each, "name")): each["values"][0] if len(each["values"]) == 1 else each["values"]
        for each in required(answer, "field_data")
        if each.get("values")
    }
    more = ("created_time", "form_id", "ad_id", "campaign_id", "platform", "is_organic")
    return {**{name: answer[name] for name in more if name in answer}, **fields}


def refused(answer: Any) -> str:
    """What the Graph API means: it answers 400 to a dead token as well as to a lead that is gone."""
    error = answer.get("error") if isinstance(answer, Mapping) else None
    if not isinstance(error, Mapping):
        return ""
    code, subcode = error.get("code"), error.get("error_subcode")
    if code in TOKEN:
        return "token"
    if code in LIMITED:
        return "limited"
    if code in LATER or error.get("is_transient"):
        return "later"
    return "gone" if (code, subcode) in GONE or (code, None) in GONE else ""


KIND = Kind(
    label="Meta lead ads",
    how="Subscribe the app to the page's leadgen field, with the address as callback URL and the verify token below.",
    secret_is="The app secret, under App settings, Basic.",
    verify=verify,
    handshake=handshake,
    handshake_type="text/plain",
    items=items,
    name=name,
    read=read,
    api=Api("https://graph.facebook.com/v23.0", ask, lead_of, refused),
)
