"""The last place among the calls under way: of two workers that are ready only one may begin."""

from typing import Any

import pytest
from django.db import transaction

from crmsync.models import Claim
from crmsync.moves.begin import begin
from crmsync.moves.claim import Chunk
from crmsync.moves.pace import has_place
from tests.crmsync.piled import claim_all, put_contacts_of
from tests.crmsync.rows import run_sql
from tests.races.controls import until_seen
from tests.races.crowd import at_once

pytestmark = pytest.mark.django_db(transaction=True)

PLACES, WORKERS = 8, 10


@pytest.fixture(autouse=True)
def eight_places(settings: Any) -> None:
    settings.CRM_ROADS = {"Contact": "collections"}
    settings.CRM_CONCURRENCY_MOST = PLACES


def ready() -> list[Chunk]:
    """Ten chunks of piles of the same length, so that none goes before another."""
    run_sql("TRUNCATE crmsync_outboxmessage, crmsync_crmrecord, crmsync_claim, crmsync_lane, crmsync_pile CASCADE")
    run_sql("INSERT INTO crmsync_orgstate (id, concurrency) VALUES (1, %s) ON CONFLICT DO NOTHING", [PLACES])
    put_contacts_of({f"a{n}": 150 for n in range(WORKERS)})
    chunks = claim_all()
    assert len(chunks) == WORKERS
    return chunks


def under_way() -> int:
    return Claim.objects.live().filter(begun_at__isnull=False).count()


def look_and_begin(chunk: Chunk) -> bool:
    """As `begin` would be without the lock."""
    with transaction.atomic():
        if not has_place(token=chunk.token):
            return False
        run_sql("SELECT pg_sleep(0.005)")
        run_sql("UPDATE crmsync_claim SET begun_at = clock_timestamp() WHERE token = %s", [chunk.token])
    return True


def test_control_who_only_looks_for_a_place_takes_one_that_somebody_else_takes_too() -> None:
    def attempt() -> dict[str, int]:
        chunks = ready()
        at_once(WORKERS, lambda number: look_and_begin(chunks[number]))
        return {"places": PLACES, "under_way": under_way()}

    until_seen(attempt, lambda seen: seen["under_way"] > PLACES, "a look without a lock")


def test_no_more_begin_at_once_than_there_are_places() -> None:
    for _ in range(5):
        chunks = ready()
        began = at_once(WORKERS, lambda number, chunks=chunks: begin(chunk=chunks[number]))
        assert sorted(began) == [False] * (WORKERS - PLACES) + [True] * PLACES
        assert under_way() == PLACES
