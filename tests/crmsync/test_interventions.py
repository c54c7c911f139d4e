"""What a person does by hand to lanes and to the org holds, is noted with who and why, and can be taken back."""

from datetime import datetime, timedelta

import pytest
from django.utils import timezone

from crmsync.errors import Fault, WrongState
from crmsync.models import Intervention, Lane, OrgState, OutboxMessage
from crmsync.moves import org as org_moves
from crmsync.moves.claim import claim_next
from crmsync.moves.interventions import hold, release, resume_org, stop_org
from crmsync.moves.lanes import prune_lanes
from crmsync.moves.retry import retry_dead
from crmsync.moves.settle import Outcome, settle
from tests.crmsync.rows import again, put, put_contacts

pytestmark = pytest.mark.django_db(transaction=True)


def in_an_hour() -> datetime:
    return timezone.now() + timedelta(hours=1)


def deeds() -> list[tuple[str, str, str, str]]:
    return list(Intervention.objects.order_by("pk").values_list("kind", "about", "by", "reason"))


def test_nothing_is_written_under_a_held_parent_and_all_else_is() -> None:
    put_contacts("hot", 3)
    (other,) = put_contacts("cold", 1)
    hold(key="Account:hot", until=in_an_hour(), by="ops", reason="month end load")
    chunk = claim_next(worker="w")
    assert chunk is not None and [row.message_id for row in chunk.rows] == [other.pk]
    assert claim_next(worker="w") is None
    assert release(key="Account:hot", by="ops", reason="load is over")
    chunk = claim_next(worker="w")
    assert chunk is not None and len(chunk.rows) == 3
    assert deeds() == [
        ("held", "Account:hot", "ops", "month end load"),
        ("released", "Account:hot", "ops", "load is over"),
    ]


def test_a_lane_in_use_when_it_is_held_is_closed_once_its_call_is_over() -> None:
    put_contacts("hot", 1)
    chunk = claim_next(worker="w")
    assert chunk is not None
    hold(key="Account:hot", until=in_an_hour(), by="ops", reason="r")
    settle(chunk=chunk, outcomes=[Outcome(row) for row in chunk.rows])
    put_contacts("hot", 2)
    assert claim_next(worker="w") is None
    assert Lane.objects.get(key="Account:hot").claim_id is None


def test_neither_a_retry_nor_the_pruning_of_idle_lanes_opens_a_held_one() -> None:
    (dead,) = put_contacts("hot", 1)
    chunk = claim_next(worker="w")
    assert chunk is not None
    settle(chunk=chunk, outcomes=[Outcome(chunk.rows[0], fault=Fault("FIELD_CUSTOM_VALIDATION_EXCEPTION"))])
    hold(key="Account:hot", until=in_an_hour(), by="ops", reason="r")
    assert retry_dead(message_ids=[dead.pk], by="ops", reason="r").retried == 1
    prune_lanes(idle_s=0, most=100)
    assert claim_next(worker="w") is None


def test_a_hold_ends_by_itself_and_must_end_in_the_future() -> None:
    with pytest.raises(WrongState):
        hold(key="Account:hot", until=timezone.now() - timedelta(seconds=1), by="ops", reason="r")
    assert not release(key="Account:hot", by="ops", reason="r")
    hold(key="Account:hot", until=timezone.now() + timedelta(milliseconds=300), by="ops", reason="r")
    (message,) = put_contacts("hot", 1)
    assert claim_next(worker="w") is None
    assert again(message).due_at <= timezone.now() + timedelta(milliseconds=300)


def test_a_stopped_org_is_written_by_nobody_until_a_person_resumes_whatever_it_answers() -> None:
    put("one")
    chunk = claim_next(worker="w")
    assert chunk is not None
    assert stop_org(by="ops", reason="release week-end")
    assert not stop_org(by="another", reason="too late")
    settle(chunk=chunk, outcomes=[Outcome(row) for row in chunk.rows])
    put("two")
    assert claim_next(worker="w") is None
    assert OrgState.objects.get().stopped_by == "ops"
    assert resume_org(by="ops", reason="done")
    assert not resume_org(by="ops", reason="done")
    assert claim_next(worker="w") is not None
    assert [deed[0] for deed in deeds()] == ["stopped", "resumed"]


def test_resuming_ends_a_pause_of_rotas_own_too() -> None:
    OrgState.objects.create(paused_until=in_an_hour(), paused_reason="Login refused", failures=3)
    put("one")
    assert not org_moves.may_write()
    assert resume_org(by="ops", reason="new secret")
    assert claim_next(worker="w") is not None
    assert OutboxMessage.objects.get().status == "claimed"
