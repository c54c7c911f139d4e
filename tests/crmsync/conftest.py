"""A sandbox org for the whole run, empty and well again for each test, and patience measured in milliseconds."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.crmsync.sandbox_org import CREDENTIALS, SandboxOrg


@pytest.fixture(scope="session")
def org_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxOrg]:
    org = SandboxOrg(tmp_path_factory.mktemp("org"))
    org.start()
    yield org
    org.stop()


@pytest.fixture
def org(org_process: SandboxOrg, settings: Any) -> SandboxOrg:
    org_process.reset()
    for name, value in CREDENTIALS.items():
        setattr(settings, name, value)
    settings.CRM_URL = org_process.url
    settings.CRM_TIMEOUT_S = 3
    settings.CRM_LEASE_S = 7
    settings.CRM_QUARANTINE_S = 0.2
    settings.CRM_PAUSE_S = 0.3
    settings.CRM_BACKOFF_FIRST_MS = 20
    settings.CRM_BACKOFF_CAP_MS = 80
    settings.CRM_ATTEMPTS_MOST = 3
    settings.CRM_POLL_FIRST_MS = 20
    return org_process
