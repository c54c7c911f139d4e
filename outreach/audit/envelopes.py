"""Events out of what they were sent or kept in: notices of a cloud, webhooks, queues, pages of an interface."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from outreach.audit.json_records import decoded
from outreach.audit.sightings import BadLine

DEEP = 6
"""Envelopes in one another: an event in a notice in a queue's message in a page."""
OBJECTS = ("event-data", "event_data", "detail", "Sns", "message_event", "track_event", "_source", "hits")
"""Mailgun, EventBridge, a function that SNS calls, SparkPost, a search index."""
TEXTS = ("Message", "body", "Body", "payload", "message", "data", "log")
"""JSON in a text: SNS, SQS, and programs that write an event into a line of their log."""
LISTS = ("items", "events", "messages", "Messages", "Records", "records", "data", "results", "hits", "value", "mails")
"""A page of events."""
NO_EVENT = ("SubscriptionConfirmation", "UnsubscribeConfirmation")


def events_in(given: dict[str, Any], deep: int = 0) -> Iterator[dict[str, Any]]:
    """The events of one record, mostly itself. Raises BadLine where there is none in it."""
    if deep > DEEP:
        raise BadLine("too many envelopes")
    if given.get("Type") in NO_EVENT:
        return
    inner = [given[name] for name in OBJECTS if isinstance(given.get(name), dict)]
    if isinstance(given.get("msys"), dict):  # SparkPost
        inner = [given["msys"]] if set(given["msys"]) & set(OBJECTS) else list(given["msys"].values())
    if not inner:
        inner = in_text(given)
    page = None if inner or names_a_mail(given) else next((given[n] for n in LISTS if is_page(given.get(n))), None)
    for one in inner or page or ():
        if not isinstance(one, dict):
            raise BadLine("no event in it")
        yield from events_in(one, deep + 1)
    if not inner and page is None and not is_greeting(given):
        yield given


def in_text(given: dict[str, Any]) -> list[Any]:
    """What a text of the record has as JSON."""
    for name in TEXTS:
        text = given.get(name)
        if isinstance(text, str) and text.lstrip().startswith(("{", "[{")):
            with suppress(BadLine):
                value, _ = decoded(text.lstrip())
                return value if isinstance(value, list) else [value]
    if given.get("Type") == "Notification" and not is_greeting(given):
        raise BadLine("a notification whose message is no JSON")
    return []


def is_greeting(given: dict[str, Any]) -> bool:
    """What SES sends when somebody has it send events here."""
    return given.get("Type") == "Notification" and str(given.get("Message")).startswith("Successfully validated")


def is_page(value: Any) -> bool:
    """Whether it is a list of objects, and not of headers."""
    return isinstance(value, list) and all(isinstance(one, dict) and not {"name", "value"} <= set(one) for one in value)


def names_a_mail(given: dict[str, Any]) -> bool:
    """Whether the record itself is about one mail, whatever lists it has."""
    return any(name.lower() in ("email", "recipient", "to", "event", "eventtype", "recordtype") for name in given)
