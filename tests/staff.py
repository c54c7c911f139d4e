"""People of the operations staff, logged in, without the slow work of a password."""

from django.contrib.auth.models import Permission, User
from django.test import Client


def logged_in(name: str = "robin", *, may: tuple[str, ...] | None = None) -> Client:
    """A client of somebody who may do everything, or only what `may` names by codename."""
    user = User.objects.create(username=name, is_staff=True, is_superuser=may is None)
    if may is not None:
        user.user_permissions.set(Permission.objects.filter(codename__in=may))
    client = Client()
    client.force_login(user)
    return client
