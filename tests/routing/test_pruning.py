"""Old bodies, answers, refused events and files are forgotten; young ones, the facts, and what is needed still stay."""

import os
import time
from collections.abc import Iterable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone

from routing import import_files
from routing.import_files import keep, path_of
from routing.import_report import verdict_lines
from routing.models import Delivery, Fetch, Import, InboundEvent, Lead
from routing.pruning import prune_answers, prune_bodies, prune_stuck
from routing.tasks import fetch
from routing.tasks import prune as task_of_the_rest
from routing.tasks import prune_bodies as task
from tests.make import make_payload, make_source, make_team
from tests.routing.files_of_leads import CASES, imported
from tests.routing.providers import Provider, contact_event, make_source_of, post, provider
from tests.routing.senders import send
from tests.routing.sessions import another_session

pytestmark = pytest.mark.django_db(transaction=True)


def deliver(count, *, days=0):
    source = make_source()
    newest = Delivery.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
    for _ in range(count):
        send(source)
    Delivery.objects.filter(pk__gt=newest).update(received_at=timezone.now() - timedelta(days=days))


def bodies():
    return Delivery.objects.filter(body__isnull=False).count()


def test_bodies_older_than_the_setting_are_forgotten_and_what_events_said_stays(settings):
    settings.BODY_KEPT_DAYS = 7
    deliver(3, days=8)
    deliver(2, days=6)
    assert task() == {"pruned": 3}
    assert (bodies(), Delivery.objects.count()) == (2, 5)
    assert all(event.payload["email"] for event in InboundEvent.objects.all())
    assert task() == {"pruned": 0}


def test_pruning_goes_on_where_it_stopped_over_many_small_steps_and_over_replays():
    deliver(2, days=9)
    source = make_source()
    payload = make_payload()
    for _ in range(4):
        send(source, payload, event_id="evt_1")
    Delivery.objects.update(received_at=timezone.now() - timedelta(days=9))
    deliver(1)
    assert prune_bodies(days=7, most=2) == 3
    assert bodies() == 1
    Delivery.objects.update(received_at=timezone.now() - timedelta(days=8))
    assert prune_bodies(days=7, most=2) == 1 and bodies() == 0


def test_a_young_delivery_stops_the_pruning_even_before_an_older_one():
    deliver(1)
    deliver(1, days=9)
    assert prune_bodies(days=7) == 0, "rows come in the order of time: this one began early and was committed late"
    Delivery.objects.update(received_at=timezone.now() - timedelta(days=9))
    assert prune_bodies(days=7) == 2


@pytest.fixture
def api() -> Iterator[Provider]:
    with provider() as server:
        yield server


def fetched(api: Provider, *records: dict[str, str]) -> list[InboundEvent]:
    """Events of which only an id came, each with what the API answered."""
    source = make_source_of("hubspot", api_url=api.url, api_token="the-token")
    for number, record in enumerate(records, start=1):
        api.records[str(42_000 + number)] = record
    post(source, [contact_event(number) for number in range(1, len(records) + 1)])
    fetch()
    return list(InboundEvent.objects.select_related("fetch").order_by("pk"))


def aged(events: Iterable[InboundEvent], *, days: int) -> None:
    InboundEvent.objects.filter(pk__in=[event.pk for event in events]).update(
        received_at=timezone.now() - timedelta(days=days)
    )


def answers() -> list[bool]:
    return [answer is not None for answer in Fetch.objects.order_by("pk").values_list("answer", flat=True)]


def test_answers_of_leads_are_forgotten_after_their_days_and_those_without_a_lead_are_kept(api, settings):
    settings.ANSWER_KEPT_DAYS = 90
    records = [{"email": f"ada{number}@customer.example"} for number in range(5)]
    records[1] = {"firstname": "Nobody"}
    events = fetched(api, *records)
    assert [event.outcome for event in events] == ["created", "refused", "created", "created", "created"]
    aged(events[:4], days=91)
    assert task_of_the_rest()["answers"] == 3
    assert answers() == [False, True, False, False, True]
    assert (
        Lead.objects.count() == 4 and [event.lead_id for event in InboundEvent.objects.order_by("pk")].count(None) == 1
    )
    assert prune_answers(days=90) == 0
    aged(events, days=91)
    assert prune_answers(days=90, most=1) == 1, "it goes on behind what is kept"


def test_a_refused_event_can_be_replayed_until_it_is_deleted_with_what_was_fetched_of_it(api, settings):
    settings.REFUSED_KEPT_DAYS = 365
    events = fetched(api, {"firstname": "Nobody"}, {"firstname": "Nemo"}, {"email": "ada@customer.example"})
    aged(events, days=364)
    assert task_of_the_rest()["events"] == 0
    aged([events[0], events[2]], days=366)
    assert task_of_the_rest()["events"] == 1
    assert list(InboundEvent.objects.order_by("pk")) == events[1:] and Fetch.objects.count() == 2
    InboundEvent.objects.update(outcome="failed", because="gone", lead=None)
    aged(events, days=366)
    assert prune_stuck(days=365, most=1) == 2, "not to be fetched, and nobody asked again"


def test_an_event_that_somebody_replays_at_this_moment_is_left_to_them(api):
    (event,) = fetched(api, {"firstname": "Nobody"})
    aged([event], days=400)
    with another_session() as other:
        other.execute("SELECT 1 FROM routing_inboundevent WHERE id = %s FOR NO KEY UPDATE", [event.pk])
        assert prune_stuck(days=365) == 0
        other.rollback()
    assert prune_stuck(days=365) == 1


def grown_old(path: Path, *, days: int) -> None:
    then = time.time() - days * 86_400
    os.utime(path, (then, then))


@pytest.fixture
def folder(settings, tmp_path):
    settings.IMPORT_DIR = str(tmp_path)
    return tmp_path


def test_a_file_of_leads_is_kept_as_long_as_an_import_may_read_it_and_its_days(folder, settings):
    settings.IMPORT_KEPT_DAYS = 90
    source = make_source(team=make_team(reps=1))
    row = imported(CASES / "linkedin_leads_200.csv", source=source)
    path = path_of(row.digest)
    assert task_of_the_rest()["files"] == 0
    grown_old(path, days=91)
    assert task_of_the_rest()["files"] == 0, "the import ended just now"
    Import.objects.update(ended_at=timezone.now() - timedelta(days=91))
    again = Import.objects.get()
    for status in ("received", "running", "paused", "failed"):
        ended = again.ended_at if status == "failed" else None
        Import.objects.filter(pk=again.pk).update(status=status, ended_at=ended)
        assert task_of_the_rest()["files"] == 0, status
    Import.objects.filter(pk=again.pk).update(status="finished", ended_at=again.ended_at)
    verdicts = list(verdict_lines(row=row))
    assert task_of_the_rest()["files"] == 1 and not path.exists()
    assert len(list(verdict_lines(row=row))) == len(verdicts), "the verdicts stay"
    assert row.rows.count() == 200


def test_a_file_that_was_only_looked_at_goes_too_and_one_kept_anew_stays(folder):
    looked_at, anew = (keep([text])[1] for text in (b"Email\na@customer.example\n", b"Email\nb@customer.example\n"))
    half = folder / ".new-of-a-dead-process"
    half.write_bytes(b"Email")
    for path in (looked_at, anew, half):
        grown_old(path, days=8)
    keep([b"Email\nb@customer.example\n"])
    assert import_files.prune(days=7) == 1
    assert [path.name for path in folder.iterdir()] == [anew.name]


def test_a_file_kept_anew_while_it_is_being_deleted_stays(folder, monkeypatch):
    digest, path = keep([b"Email\na@customer.example\n"])
    grown_old(path, days=8)
    rename = Path.rename

    def kept_meanwhile(self, target):
        keep([b"Email\na@customer.example\n"])
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", kept_meanwhile)
    assert import_files.prune(days=7) == 0
    assert [found.name for found in folder.iterdir()] == [f"{digest}.csv"]
