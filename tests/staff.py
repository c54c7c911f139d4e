"""People of the operations staff: logged in without the slow work of a password, choosing rows and pressing buttons."""

from typing import Any

from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse


def logged_in(name: str = "robin", *, may: tuple[str, ...] | None = None) -> Client:
    """A client of somebody who may do everything, or only what `may` names by codename."""
    user = User.objects.create(username=name, is_staff=True, is_superuser=may is None)
    if may is not None:
        user.user_permissions.set(Permission.objects.filter(codename__in=may))
    client = Client()
    client.force_login(user)
    return client


def listed(model: str) -> str:
    """The address of a list; `model` is app_model."""
    return reverse(f"admin:{model}_changelist")


def page_of(model: str, pk: int) -> str:
    """The address of a row's page."""
    return reverse(f"admin:{model}_change", args=[pk])


def ask(client: Client, model: str, action: str, *pks: int) -> Any:
    """Choose rows of a list and an action."""
    return client.post(listed(model), {"action": action, "_selected_action": pks, "index": 0})


def confirm(client: Client, model: str, action: str, *pks: int, reason: str = "", **more: object) -> Any:
    """Press the button of the page that asks, with `more` filled in."""
    given = {"action": action, "_selected_action": pks[0], "select_across": 1, "confirmed": "yes", "reason": reason}
    return client.post(listed(model), {**given, **more, "chosen": ",".join(map(str, pks))}, follow=True)


def said(answer: Any) -> list[str]:
    """The messages on a page."""
    return [str(message) for message in answer.context["messages"]]


def hands_on(client: Client, path: str, given: dict[str, object]) -> Any:
    """Send a form, which must be accepted."""
    answer = client.post(path, given, follow=True)
    assert not answer.context.get("errors"), answer.context["errors"]
    return answer


def nothing(*rows: str) -> dict[str, object]:
    """What a form sends of the tables of rows below it, where nothing was written into them."""
    return {f"{name}-{count}_FORMS": 0 for name in rows for count in ("TOTAL", "INITIAL")}
