"""A load balancer learns whether Rota lives and whether it can work."""

import pytest
from django.db import OperationalError
from django.db.migrations.recorder import MigrationRecorder
from django.test import Client

pytestmark = pytest.mark.django_db(transaction=True)


def test_alive_without_a_database(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("django.db.connection.ensure_connection", no_database)
    answer = client.get("/healthz")
    assert (answer.status_code, answer.content, answer["Cache-Control"]) == (200, b"ok\n", "no-store")


def test_ready_with_every_migration(client: Client) -> None:
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json(), answer["Cache-Control"]) == (200, {"ready": True}, "no-store")


def test_not_ready_while_a_migration_is_missing(client: Client) -> None:
    last = MigrationRecorder.Migration.objects.filter(app="django_q").latest("pk")
    last.delete()
    answer = client.get("/readyz")
    last.save(force_insert=True)
    assert (answer.status_code, answer["Cache-Control"]) == (503, "no-store")
    assert answer.json() == {"ready": False, "reason": "1 migrations are not applied"}


def test_not_ready_without_a_database(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("config.health.pending_migrations", no_database)
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert answer.json() == {"ready": False, "reason": "the database does not answer"}


def no_database() -> None:
    raise OperationalError("secret details")
