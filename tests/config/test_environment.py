"""Settings come from the environment, and whatever is wrong with them is said at once and in one list."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from config import settings
from config.environment import Environment
from config.localpg import PROJECT


def start(**environment: str) -> str:
    """What `manage.py check` says on stderr with these settings."""
    said = subprocess.run(
        [sys.executable, "manage.py", "check"],
        cwd=PROJECT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    return said.stderr


def test_the_example_file_names_every_setting_and_no_other() -> None:
    named = re.findall(r"^#?([A-Z][A-Z_0-9]+)=", (PROJECT / ".env.example").read_text(), re.MULTILINE)
    assert sorted(named) == sorted(settings.env.names)
    assert len(named) == len(set(named))


def test_the_example_file_shows_the_defaults(tmp_path: Path) -> None:
    shown = dict(re.findall(r"^#([A-Z][A-Z_0-9]+)=(.+)$", (PROJECT / ".env.example").read_text(), re.MULTILINE))
    del shown["DATABASE_URL"], shown["EMAIL_PORT"]  # given by `./rota`; the mailbox's while no relay is set
    for name, text in shown.items():
        value = getattr(settings, name)
        plain = ",".join(value) if isinstance(value, list) else str(value)
        assert plain.lower() == text.lower(), name


def test_everything_wrong_is_reported_in_one_list() -> None:
    said = start(
        DEBUG="perhaps",
        PORT="http",
        WEB_THREADS="0",
        SECRET_KEY="",
        DATABASE_URL="sqlite:///rota.db",
        CRM_ROADS="Contact=bulk1,Task=tram",
    )
    for part in (
        "DEBUG should be true or false",
        "PORT should be a whole number",
        "WEB_THREADS is 0; it should be from 1 to 256",
        "SECRET_KEY is not set",
        "CRM_ROADS has 'Task=tram'; it should be name=value, the value auto or collections",
        "DATABASE_URL names a sqlite database. Rota needs PostgreSQL 15",
        "SKIP LOCKED",
    ):
        assert part in said


def test_what_the_crm_could_never_take_is_refused_at_start() -> None:
    said = start(
        CRM_API_VERSION="abc",
        CRM_EXTERNAL_ID_FIELD="Rota Id",
        CRM_LAST_CAMPAIGN_FIELD="Last Campaign",
        CRM_BACKOFF_FIRST_MS="500000",
        CRM_ROADS="Contact=bulk1,Contact=bulk2",
        CRM_RELATIONS="Visit__c.Account__r=lookup,Visit__c.Account__r=roll-up",
    )
    for part in (
        "CRM_API_VERSION should be a version such as 59.0",
        "CRM_EXTERNAL_ID_FIELD should be the API name of a field",
        "CRM_LAST_CAMPAIGN_FIELD should be the API name of a field",
        "CRM_BACKOFF_FIRST_MS is 500000, above CRM_BACKOFF_CAP_MS, which is 300000",
        "CRM_ROADS names Contact twice",
        "CRM_RELATIONS names Visit__c.Account__r twice",
    ):
        assert part in said
    assert "CRM_API_VERSION should be" in start(CRM_API_VERSION="20.0")


@pytest.mark.parametrize("timeout", [1, 20, 21, 50, 333, 600])
def test_a_deadline_may_be_as_long_as_is_said_if_the_lease_outlasts_it(timeout: int) -> None:
    said = start(CRM_TIMEOUT_S=str(timeout), CRM_LEASE_S=str(max(60, 2 * timeout + 1)))
    assert "crmsync.E" not in said and "rota.E" not in said, said


def test_a_lease_that_the_deadline_outgrew_is_told_with_both_settings() -> None:
    assert "CRM_LEASE_S is 60; with CRM_TIMEOUT_S 50 it must be at least 101" in start(CRM_TIMEOUT_S="50")


def test_the_environment_wins_over_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".env").write_text("ROTA_TEST_A=file\nROTA_TEST_B=file\n")
    monkeypatch.setenv("ROTA_TEST_A", "environment")
    monkeypatch.setenv("ROTA_TEST_B", "x")
    monkeypatch.delenv("ROTA_TEST_B")
    read = Environment(tmp_path / ".env")
    assert (read.text("ROTA_TEST_A"), read.text("ROTA_TEST_B")) == ("environment", "file")


@pytest.mark.parametrize("url", ["mysql://host/x", "sqlite:///x", "redis://host", "host/x"])
def test_only_postgres_is_taken(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTA_TEST_URL", url)
    read = Environment(tmp_path / ".env")
    assert read.postgres("ROTA_TEST_URL") == {}
    with pytest.raises(ImproperlyConfigured, match="Rota needs PostgreSQL 15"):
        read.check()
