"""Rota does not start where its promises cannot hold."""

from typing import Any

import pytest
from django.conf import settings
from django.core.checks import run_checks
from django.db import connection
from pytest_django.fixtures import Settings

from config import checks


def ids(**wanted: Any) -> set[str]:
    return {str(found.id) for found in run_checks(**wanted) if str(found.id).startswith("rota.")}


def test_the_settings_we_ship_pass() -> None:
    assert ids() == set()


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ({"ATOMIC_REQUESTS": True}, "rota.E001"),
        ({"CONN_MAX_AGE": 0}, "rota.E002"),
        ({"OPTIONS": {"pool": True}}, "rota.E003"),
    ],
)
def test_a_database_setting_that_breaks_a_promise_is_refused(
    wrong: dict[str, Any], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in wrong.items():
        monkeypatch.setitem(settings.DATABASES["default"], name, value)
    found = checks.transactions_are_ours(None) + checks.connections_outlive_a_poll(None)
    assert [one.id for one in found] == [expected]


def test_a_queue_that_could_run_a_task_twice_by_impatience_is_refused(settings: Settings) -> None:
    settings.Q_CLUSTER = {**settings.Q_CLUSTER, "ALT_CLUSTERS": {"crm": {"timeout": 50, "retry": 60}}}
    assert ids() == {"rota.E004"}


@pytest.mark.parametrize("wrong", [{"ack_failures": False}, {"max_attempts": 3}, {"catch_up": True}, {"save_limit": 9}])
def test_a_queue_that_retries_by_itself_is_refused(wrong: dict[str, Any], settings: Settings) -> None:
    settings.Q_CLUSTER = {**settings.Q_CLUSTER, **wrong}
    assert ids() == {"rota.E005"}


@pytest.mark.django_db(transaction=True)
def test_the_database_is_asked_where_a_command_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ids(databases=["default"]) == set()
    monkeypatch.setattr(checks, "POSTGRES_LEAST", 99)
    assert ids() == set()
    assert ids(databases=["default"]) == {"rota.E007"}
    with connection.cursor() as cursor:
        cursor.execute("set default_transaction_isolation = 'repeatable read'")
        assert ids(databases=["default"]) == {"rota.E007", "rota.E008"}
        cursor.execute("reset default_transaction_isolation")


@pytest.mark.django_db(transaction=True)
def test_a_database_that_does_not_answer_is_named_as_the_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    connection.close()
    with monkeypatch.context() as patch:
        patch.setitem(connection.settings_dict, "HOST", "/nowhere")
        assert ids(databases=["default"]) == {"rota.E006"}
