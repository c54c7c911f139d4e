"""Events as mail providers and senders write them: one record each, however its keys are called and wherever they lie.

SendGrid, Postmark, Mailgun, SES (also inside SNS or EventBridge), Resend, Brevo, Mandrill, SparkPost and the rows of a
table differ in names and nesting only. A key is looked for by its letters and digits, the outermost first.
"""

import re
from collections.abc import Iterator
from email.utils import getaddresses
from typing import Any

from outreach.audit.names import (
    A_TIME,
    ADDRESS,
    AT,
    CAMPAIGN,
    EVENT,
    HANDLE,
    MAIL_ID,
    MAY_BE_OTHERS,
    NOT_OF_A_MAIL,
    SENDER,
    STATE_OF,
    STEP,
    SUBJECT,
    WORKER,
    key_name,
    plain,
)
from outreach.audit.sightings import BadLine, Sighting, State, bare, key_of, worker_in
from outreach.audit.times import Clock

DEPTH = 5


def read_record(given: dict[str, Any], clock: Clock) -> Iterator[Sighting]:
    """The sightings of one event, one for each address it names. Raises BadLine."""
    levels = by_level(given)
    state = state_of(levels)
    if state is None:
        return
    addresses = addresses_of(first(levels, ADDRESS))
    if not addresses:
        raise BadLine("no address in it")
    try:
        at = clock.any(time_in(levels))
    except ValueError as fault:
        raise BadLine(str(fault)[:80]) from None
    ids = [str(one) for name in MAIL_ID for one in every(levels, name) if isinstance(one, str | int)]
    mail_id = bare(next((one for one in ids if "@" in one), ""))
    handle = str(first(levels, ("sgmessageid",)) or "").partition(".")[0]
    handle = handle or next((bare(one) for one in ids if "@" not in one), "") or mail_id
    handle = handle or text_of(first(levels, HANDLE))
    if not handle and at is None:
        raise BadLine("says neither when nor which mail")
    sender = text_of(first(levels, SENDER))
    for address in addresses:
        yield Sighting(
            address=address,
            state=state,
            road="events",
            at=at,
            handle=handle,
            mail_id=mail_id,
            worker=text_of(first(levels, WORKER)) or ("" if "@" in sender else sender) or worker_in(mail_id),
            campaign=text_of(first(levels, CAMPAIGN)),
            step=text_of(first(levels, STEP)),
            sender=sender if "@" in sender else "",
            subject=text_of(first(levels, SUBJECT)),
        )


def time_of(record: dict[str, Any]) -> Any:
    """What a record has for a time, as it is written."""
    return time_in(by_level(record))


def time_in(levels: list[dict[str, list[Any]]]) -> Any:
    """The time in a record; without one of the known names what else is called a time at the top."""
    value = first(levels, AT)
    return first(levels[:1], tuple(filter(A_TIME.fullmatch, levels[0]))) if value is None else value


def by_level(record: dict[str, Any]) -> list[dict[str, list[Any]]]:
    """All keys with their values, by how deep they lie. A list of pairs `name`, `value` counts as keys (headers)."""
    levels: list[dict[str, list[Any]]] = []
    here = [record]
    while here and len(levels) < DEPTH:
        level: dict[str, list[Any]] = {}
        below: list[dict[str, Any]] = []
        for one in here:
            for key, value in one.items():
                level.setdefault(key_name(key), []).append(value)
                if isinstance(value, dict):
                    below.append(value)
                elif isinstance(value, list) and all(
                    isinstance(v, dict) and {"name", "value"} <= set(v) for v in value
                ):
                    below.append({str(v["name"]): v["value"] for v in value})
        levels.append(level)
        here = below
    return levels


def every(levels: list[dict[str, list[Any]]], name: str) -> Iterator[Any]:
    """The values of a key, the outermost first, without empty ones."""
    for level in levels:
        yield from (value for value in level.get(name, ()) if value not in (None, "", [], {}))


def first(levels: list[dict[str, list[Any]]], names: tuple[str, ...]) -> Any:
    """The value of the first of these keys that has one. An object is none, but for a list of recipients."""
    for name in names:
        for value in every(levels, name):
            if not isinstance(value, dict):
                return value
    return None


def text_of(value: Any) -> str:
    """A value as one short text; a list by its members."""
    if isinstance(value, list | tuple):
        return ",".join(filter(None, map(text_of, value)))
    return "" if value is None or isinstance(value, dict) else str(value).strip()[:300]


def addresses_of(value: Any) -> list[str]:
    """The addresses in a value: a text, or a list of texts or of objects that have one. Raises BadLine."""
    found = []
    for one in value if isinstance(value, list) else [value]:
        if isinstance(one, dict):
            one = first(by_level(one), ("emailaddress", "email", "address", "recipient"))
        text = str(one or "").partition("##")[0]  # so a trace of Exchange writes `ann@acme.example##Receive, Send`
        if text.count("@") > 1:
            found += [key_of(address) for _, address in getaddresses([text.replace(";", ",")]) if address]
        elif text:
            found.append(key_of(text))
    return list(dict.fromkeys(found))


def state_of(levels: list[dict[str, list[Any]]]) -> State | None:
    """What the event means for the mail; None where it is about no mail. Raises BadLine for one that nobody knows."""
    for name in (*EVENT, "type"):
        for value in every(levels, name):
            if not isinstance(value, str | int):
                continue
            said = plain(re.sub(r"^(email|message|mail|activity)[._]", "", str(value).strip(), flags=re.IGNORECASE))
            if said in NOT_OF_A_MAIL:
                return None
            if re.match(r"[245]\d\d", said):
                return {"2": "delivered", "4": "deferred", "5": "bounced"}[said[0]]  # type: ignore[return-value]
            state = STATE_OF.get(said) or STATE_OF.get(plain(str(value).split("(")[0].split(" ")[0]))
            if state:
                temporary = said == "failed" and "temporary" in map(str, every(levels, "severity"))
                return "deferred" if temporary else state
            if name not in MAY_BE_OTHERS:
                raise BadLine(f"{name} “{str(value)[:40]}” is unknown")
    if any(True for name in EVENT if name not in MAY_BE_OTHERS for _ in every(levels, name)):
        raise BadLine("no known event in it")
    return "handed"  # a row that names an address says that a mail was sent
