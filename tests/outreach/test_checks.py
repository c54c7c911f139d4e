"""Times that depend on each other are compared at start, not found out by mailing somebody twice."""

import re
from pathlib import Path
from typing import Any

import pytest
from django.core.checks import run_checks

from outreach import checks
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


@pytest.mark.parametrize(("sender", "found_"), [("leads@rota.example", []), ("no address", ["outreach.E007"])])
def test_a_sender_of_notices_that_is_no_address_is_refused_at_start(
    settings: Any, sender: str, found_: list[str]
) -> None:
    settings.NOTICE_FROM = sender
    assert found() == found_


def test_a_provider_is_one_that_rota_knows_with_its_key_and_without_a_relay_beside_it(settings: Any) -> None:
    settings.EMAIL_HOST, settings.EMAIL_PROVIDER = "", "pigeon"
    assert found() == ["outreach.E004"]
    settings.EMAIL_PROVIDER = "postmark"
    assert found() == ["outreach.E006"]
    settings.EMAIL_PROVIDER_KEY = "key"
    assert found() == []
    settings.EMAIL_HOST = "relay.example"
    assert found() == ["outreach.E005"]


def test_a_job_lock_anywhere_but_in_redis_is_refused_at_start(settings: Any) -> None:
    settings.JOB_LOCK_URL = "memcached://localhost"
    assert found() == ["outreach.E008"]
    settings.JOB_LOCK_URL = "redis://localhost:6379/0"
    assert found() == []


@pytest.mark.parametrize("url", ["redis://127.0.0.1:notaport", "redis://127.0.0.1:99999", "redis://[::1"])
def test_a_job_lock_whose_address_cannot_be_read_is_refused_at_start(settings: Any, url: str) -> None:
    settings.JOB_LOCK_URL = url
    assert found() == ["outreach.E008"]


def test_every_check_has_ids_of_its_own() -> None:
    text = Path(checks.__file__).read_text()
    by_check = [set(re.findall(r"outreach\.E\d+", part)) for part in text.split("@register")]
    ids = [one for several in by_check for one in several]
    assert sorted(ids) == sorted(set(ids))
