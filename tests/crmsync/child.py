"""The environment of a child process that works on the test's database and the test's org."""

import os

from django.conf import settings

from tests.crmsync.sandbox_org import SandboxOrg
from tests.database import database_url

CHILD = "from crmsync.flows.deliver import deliver; deliver(budget_s=30, worker='victim')"
PROGRAM = f"import django; django.setup(); {CHILD}"


def environment(org: SandboxOrg, **more: str) -> dict[str, str]:
    """Our own, with patience in whole units: a call may take 3 s, a lease is 7 s."""
    return {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "config.settings",
        "DATABASE_URL": more.get("DATABASE_URL") or database_url(),
        "SECRET_KEY": settings.SECRET_KEY,
        "CRM_URL": org.url,
        "CRM_CLIENT_ID": settings.CRM_CLIENT_ID,
        "CRM_CLIENT_SECRET": settings.CRM_CLIENT_SECRET,
        "CRM_TIMEOUT_S": "3",
        "CRM_LEASE_S": "7",
        "CRM_QUARANTINE_S": "1",
        "CRM_PAUSE_S": "1",
        "CRM_BACKOFF_FIRST_MS": "50",
        "CRM_BACKOFF_CAP_MS": "400",
        "DB_LOCK_TIMEOUT_MS": "60000",
        "LOG_LEVEL": "WARNING",
        **more,
    }
