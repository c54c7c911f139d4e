"""What an empty database gets: a person who may log in, and, beside the sandbox org only, demo data."""

import secrets
from dataclasses import dataclass

from django.apps import apps
from django.conf import settings
from django.contrib.auth import get_user_model

USED_ONCE_IN = ("routing.Team", "routing.Lead")


@dataclass(frozen=True)
class FirstStart:
    """The password of the administrator just made (None: there was one), and whether demo data is wanted."""

    password: str | None
    wants_demo: bool


def prepare() -> FirstStart:
    """Make the administrator where there is none. Demo data never goes into a database that writes to a real org."""
    return FirstStart(make_administrator(), settings.CRM_IS_SANDBOX and never_used())


def make_administrator() -> str | None:
    """Create the superuser `admin` with a random password, and return that; None where a superuser exists."""
    users = get_user_model()._default_manager
    if users.filter(is_superuser=True).exists():
        return None
    password = secrets.token_urlsafe(12)
    users.create_superuser("admin", "", password)
    return password


def never_used() -> bool:
    """Whether nobody has made a team or sent a lead yet."""
    models = [apps.get_model(name) for name in USED_ONCE_IN]
    return not any(model._default_manager.exists() for model in models)
