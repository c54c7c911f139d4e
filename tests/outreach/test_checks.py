"""Times that depend on each other are compared at start, not found out by mailing somebody twice."""

from typing import Any

from django.core.checks import run_checks

from outreach.checks import CHECKS


def found() -> list[str | None]:
    return [message.id for message in run_checks(tags=[CHECKS])]


def test_the_settings_as_they_come_pass() -> None:
    assert found() == []


def test_a_lease_shorter_than_the_longest_batch_is_refused_at_start(settings: Any) -> None:
    settings.CLAIM_LEASE_S = settings.SEND_LONGEST_S
    assert found() == ["outreach.E001"]


def test_a_task_timeout_shorter_than_the_longest_batch_is_refused_at_start(settings: Any) -> None:
    settings.Q_CLUSTER = {"ALT_CLUSTERS": {"outreach": {"timeout": 50}}}
    assert found() == ["outreach.E002"]


def test_two_kinds_of_tls_at_once_are_refused_at_start(settings: Any) -> None:
    settings.EMAIL_USE_TLS = settings.EMAIL_USE_SSL = True
    assert found() == ["outreach.E003"]
