"""Requests of one agent at the same moment: each is charged, and none of them stands in another's way."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import OperationalError, connection

from outreach.models import Agent
from outreach.moves.agents import admit, digest_of
from tests.outreach.api.asking import Asking
from tests.races.crowd import at_once, beside, second_connection, until, waiting_for_a_lock

pytestmark = pytest.mark.django_db(transaction=True)

MANY = 8
LOCK_THEN_UPDATE = """
    WITH found AS MATERIALIZED (
        SELECT id FROM outreach_agent WHERE digest = %s FOR NO KEY UPDATE),
    charged AS (
        UPDATE outreach_agent SET allowance = allowance - 1 FROM found WHERE outreach_agent.id = found.id RETURNING 1)
    SELECT count(*) FROM charged
"""


def all_waiting(agent: Asking, work: Callable[[int], Any]) -> list[Any]:
    """What came of the work of many who all waited for the agent's row, while one who refers to it stood by.

    An open INSERT that refers to the agent, as every write of it begins, holds the row's key.
    """
    with (
        second_connection() as writer,
        second_connection() as first,
        writer.cursor() as referring,
        first.cursor() as charging,
    ):
        referring.execute("BEGIN")
        referring.execute("SELECT FROM outreach_agent WHERE id = %s FOR KEY SHARE", [agent.agent.pk])
        charging.execute("BEGIN")
        charging.execute("UPDATE outreach_agent SET allowance = allowance - 1 WHERE id = %s", [agent.agent.pk])
        with beside(lambda: at_once(MANY, work)) as answers:
            until(lambda: waiting_for_a_lock("tuple") + waiting_for_a_lock("transactionid") >= MANY)
            charging.execute("COMMIT")
        referring.execute("COMMIT")
    return list(answers[0])


def test_requests_of_one_agent_take_turns_and_none_fails() -> None:
    agent = Asking()
    before = Agent.objects.get().allowance
    answers = all_waiting(agent, lambda _: admit(token=agent.token))
    assert [answer for answer in answers if not isinstance(answer, Agent)] == []
    assert Agent.objects.get().allowance <= before, "all were charged, within the rate"


def test_negative_control_to_lock_the_row_and_then_update_it_in_one_statement_ends_in_deadlocks() -> None:
    agent = Asking()

    def charge(_: int) -> None:
        with connection.cursor() as cursor:
            cursor.execute(LOCK_THEN_UPDATE, [digest_of(agent.token)])

    faults = [answer for answer in all_waiting(agent, charge) if answer is not None]
    assert faults and all(isinstance(fault, OperationalError) for fault in faults)
    assert any("deadlock detected" in str(fault) for fault in faults)
