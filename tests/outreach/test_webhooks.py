"""What is reported in texts that cannot be stored or read: no bounce and no complaint is lost by it."""

import json
import threading
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.utils import timezone

from outreach.errors import NotAllTakenIn
from outreach.flows.feedback import take_all_in
from outreach.mail.reports import Report
from outreach.models import ProviderEvent, Recipient, Suppression
from tests.outreach.api.asking import Asking
from tests.outreach.test_feedback import BOUNCE, line, postmark, postmarked, secret, told
from tests.staff import listed, logged_in

pytestmark = pytest.mark.django_db(transaction=True)

Kind = ProviderEvent.Kind
FIXTURES = (postmarked, secret)
DEEP = "[" * 100_000


def about(event: str, who: str, **more: Any) -> dict[str, Any]:
    return line(event, message_id=None, email=f"{who}@a.example", **more)


def nested(said: dict[str, Any], field: str, depth: int) -> str:
    return (
        json.dumps({**said, field: None})[:-1].replace(f'"{field}": null', f'"{field}": {"[" * depth + "]" * depth}')
        + "}"
    )


def suppressed() -> list[str]:
    keys = Suppression.objects.order_by("recipient__key").values_list("recipient__key", flat=True)
    return [key.split("@")[0] for key in keys]


@pytest.mark.parametrize("odd", ["a\x00", "\ud800", "\ude00b"])
@pytest.mark.parametrize("field", ["reason", "id", "bounce_type", "more"])
def test_a_report_with_a_text_that_cannot_be_stored_is_taken_in_and_so_are_its_neighbours(
    secret: str, field: str, odd: str
) -> None:
    lines = [about("bounced", "u55"), about("bounced", "u56", **{field: odd}), about("complained", "u57")]
    assert told(secret, *lines).json() == {"new": 3, "known": 0, "acted": 3}
    assert suppressed() == ["u55", "u56", "u57"]
    assert told(secret, *lines).json() == {"new": 0, "known": 3, "acted": 0}


def test_what_cannot_be_stored_is_kept_as_a_replacement_character(secret: str) -> None:
    told(secret, about("bounced", "u56", reason="550 \x00no\ud800"))
    assert ProviderEvent.objects.get().detail == "550 \ufffdno\ufffd"


def test_lines_end_at_a_newline_only(secret: str) -> None:
    raw = json.dumps(about("bounced", "u1", reason="one\u2028two\x85three"), ensure_ascii=False)
    assert told(secret, raw, json.dumps(about("bounced", "u2")) + "\r").json()["new"] == 2
    assert ProviderEvent.objects.get(address="u1@a.example").detail == "one\u2028two\ufffdthree"


def test_a_line_is_named_by_its_place_among_all_lines_blank_ones_included(secret: str) -> None:
    answer = told(secret, about("bounced", "u1"), "", "{", "", DEEP, '{"id":1,"id":2}')
    assert answer.status_code == 422
    assert [error["path"] for error in answer.json()["errors"]] == ["line 3", "line 5", "line 6"]
    assert not ProviderEvent.objects.exists()


@pytest.mark.parametrize("depth", [100, 900, 970, 100_000])
def test_a_line_nested_however_deep_is_taken_in_or_refused_by_its_line(secret: str, depth: int) -> None:
    answer = told(secret, nested(about("bounced", "u1"), "reason", depth))
    assert answer.status_code == 200 or answer.json()["errors"][0]["path"] == "line 1"


@pytest.mark.usefixtures("postmarked")
@pytest.mark.parametrize("odd", ["a\x00", "\ud800"])
def test_a_providers_event_with_a_text_that_cannot_be_stored_is_taken_in(odd: str) -> None:
    event = BOUNCE | {"Details": odd, "ID": odd, "Metadata": {"mail_id": odd}, "MessageID": odd}
    assert postmark(event).json() == {"new": 1, "known": 0, "acted": 1}
    assert suppressed() == ["a"]
    assert postmark(event).json()["known"] == 1


@pytest.mark.usefixtures("postmarked")
@pytest.mark.parametrize("depth", [100, 900, 970, 100_000])
def test_a_providers_event_nested_however_deep_is_taken_in_or_refused(depth: int) -> None:
    assert postmark(DEEP).status_code == 422
    assert postmark(nested(BOUNCE, "Details", depth)).status_code in (200, 422)


@pytest.mark.parametrize("odd", ["a\x00", "\ud800"])
def test_an_agents_report_with_a_text_that_cannot_be_stored_is_taken_in_and_so_are_its_neighbours(odd: str) -> None:
    events = [about("bounced", "u1"), about("bounced", "u2", reason=odd), about("complained", "u3")]
    assert Asking().get("mail/events", events=events)["acted"] == 3
    assert suppressed() == ["u1", "u2", "u3"]


ODD_TIMES = ("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00", "1999-12-31T23:59:59Z", "nonsense")


@pytest.mark.parametrize("moment", ODD_TIMES)
def test_an_odd_time_is_not_believed_and_the_page_of_reports_still_opens(secret: str, moment: str) -> None:
    assert told(secret, about("bounced", "u1", timestamp=moment)).json()["acted"] == 1
    code, answer = Asking().post("mail/events", events=[about("complained", "u2", timestamp=moment)])
    assert code == 200 or (moment == "nonsense" and answer["errors"][0]["path"].endswith("timestamp"))
    assert set(ProviderEvent.objects.values_list("occurred_at", flat=True)) == {None}
    assert logged_in().get(listed("outreach_providerevent")).status_code == 200


@pytest.mark.usefixtures("postmarked")
@pytest.mark.parametrize("moment", ODD_TIMES[:3])
def test_an_odd_time_of_a_provider_is_not_believed(moment: str) -> None:
    assert postmark(BOUNCE | {"BouncedAt": moment}).json()["acted"] == 1
    assert ProviderEvent.objects.get().occurred_at is None


def test_a_clock_a_little_ahead_is_believed_and_one_far_ahead_is_not(secret: str) -> None:
    ahead = [timezone.now() + timedelta(hours=hours) for hours in (23, 25)]
    told(secret, *(about("bounced", f"u{n}", timestamp=moment.isoformat()) for n, moment in enumerate(ahead)))
    assert list(ProviderEvent.objects.order_by("pk").values_list("occurred_at", flat=True)) == [ahead[0], None]


def bounce(number: int, **more: Any) -> Report:
    return Report("test", **{"event_id": str(number), "kind": Kind.BOUNCED, "address": f"u{number}@a.example", **more})


def test_a_report_that_the_database_refuses_leaves_the_others_taken_in_and_is_named() -> None:
    with pytest.raises(NotAllTakenIn) as refusal:
        take_all_in([bounce(1), bounce(2, event_id="x" * 1_000), bounce(3)])
    assert (refusal.value.places, refusal.value.again) == ((1,), False)
    assert suppressed() == ["u1", "u3"]


def test_a_report_that_waited_too_long_leaves_the_others_taken_in_and_may_be_sent_again(secret: str) -> None:
    held = Recipient.objects.create(key="u2@a.example")
    locked, done = threading.Event(), threading.Event()

    def hold() -> None:
        with transaction.atomic():
            Recipient.objects.select_for_update().get(pk=held.pk)
            locked.set()
            done.wait(60)
        connection.close()

    holder = threading.Thread(target=hold)
    holder.start()
    lines = [about("bounced", f"u{number}") for number in (1, 2, 3)]
    try:
        assert locked.wait(60)
        answer = told(secret, *lines)
        events = Asking().answer("mail/events", key="k", events=lines)
    finally:
        done.set()
        holder.join()
    assert (answer.status_code, answer["Retry-After"]) == (503, "5")
    assert [error["path"] for error in answer.json()["errors"]] == ["line 2"]
    assert suppressed() == ["u1", "u3"]
    assert told(secret, *lines).json() == {"new": 1, "known": 2, "acted": 1}
    assert (events.status_code, events["Retry-After"]) == (503, "5")
    assert [error["path"] for error in events.json()["errors"]] == ["events.1"]
