"""LinkedIn Lead Sync: ids of form responses only, after a handshake by GET that comes again every two hours.

X-LI-Signature is hex HMAC-SHA256, by the app's client secret, of "hmacsha256=" and the raw body; the handshake wants
the challenge signed with the same secret.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from routing.kinds.kind import Api, Incoming, Kind, Question, Read, mac, required, same


def verify(incoming: Incoming, secret: str) -> bool:
    """The signature of the raw body."""
    given = incoming.headers.get("X-LI-Signature", "").removeprefix("hmacsha256=")
    return same(given, mac(secret, "hmacsha256=", incoming.body).hex())


def handshake(query: Mapping[str, str], verify_token: str, secrets: Sequence[str]) -> str | None:
    """The challenge and its signature by the newest secret, as JSON."""
    code = query.get("challengeCode", "")
    if not (code and secrets and code.replace("-", "").isalnum() and len(code) <= 100):
        return None
    return f'{{"challengeCode": "{code}", "challengeResponse": "{mac(secrets[0], code).hex()}"}}'


def name(said: dict[str, Any]) -> str:
    """The response and what was done to it."""
    return f"{required(said, 'leadGenFormResponse')} {said.get('leadAction', 'CREATED')}"


def read(said: dict[str, Any]) -> Read:
    """The response to fetch; a deleted one is no lead."""
    if said.get("leadAction", "CREATED") != "CREATED":
        return Read(ignored="a response was deleted")
    return Read(fetch=str(required(said, "leadGenFormResponse")).rpartition(":")[2])


def ask(response: str, token: str, names: Sequence[str]) -> Question:
    """A form response."""
    return Question(
        f"/leadFormResponses/{quote(response, safe='')}",
        {},
        {"Authorization": f"Bearer {token}", "LinkedIn-Version": "202603", "X-Restli-Protocol-Version": "2.0.0"},
    )


def response_of(answer: Any) -> Mapping[str, Any]:
    """The answers by the names or numbers of their questions."""
    fields: dict[str, Any] = {}
    for each in required(answer, "formResponse", "answers"):
        details = each.get("answerDetails") or {}
        text = (details.get("textQuestionAnswer") or {}).get("answer")
        fields[str(each.get("name") or required(each, "questionId"))] = text if text is not None else details
    return fields


KIND = Kind(
    label="LinkedIn lead forms",
    how="Register the address for LEAD_ACTION. LinkedIn asks it a challenge at once and every two hours.",
    secret_is="The client secret of the LinkedIn app.",
    verify=verify,
    handshake=handshake,
    handshake_type="application/json",
    name=name,
    read=read,
    api=Api("https://api.linkedin.com/rest", ask, response_of),
)
