"""Times that must fit into each other, or a slow call would be taken for a dead one."""

from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, register

from crmsync import lockpolicy
from crmsync.errors import NotConfigured
from crmsync.flows.send import READY_SHARE
from crmsync.gateway import where
from crmsync.moves.begin import MARGIN_S
from crmsync.tasks import DELIVER_BUDGET_S


@register()
def the_lease_outlasts_the_call(app_configs: Sequence[Any] | None, **kwargs: Any) -> list[CheckMessage]:
    least = 2 * settings.CRM_TIMEOUT_S + MARGIN_S  # signing in and the call itself
    if least > settings.CRM_LEASE_S:
        told = f"CRM_LEASE_S is {settings.CRM_LEASE_S}; with CRM_TIMEOUT_S {settings.CRM_TIMEOUT_S} it must be at least"
        return [Error(f"{told} {least}: signing in, the call itself, and {MARGIN_S} s.", id="crmsync.E001")]
    return []


@register()
def the_task_outlasts_the_drain(app_configs: Sequence[Any] | None, **kwargs: Any) -> list[CheckMessage]:
    queues: dict[str, Any] = settings.Q_CLUSTER
    timeout = {**queues, **queues["ALT_CLUSTERS"].get("crm", {})}["timeout"]
    longest = DELIVER_BUDGET_S + settings.CRM_TIMEOUT_S * (1 + READY_SHARE)
    if timeout <= longest:
        told = (
            f"Queue crm: timeout is {timeout}; with CRM_TIMEOUT_S {settings.CRM_TIMEOUT_S} it must exceed {longest:g}"
        )
        return [Error(f"{told}: lower CRM_TIMEOUT_S, or raise timeout in Q_CLUSTER (settings.py).", id="crmsync.E002")]
    return []


@register()
def the_org_can_be_called(app_configs: Sequence[Any] | None, **kwargs: Any) -> list[CheckMessage]:
    if not settings.CRM_URL:
        return []
    try:
        where(settings.CRM_URL)
    except NotConfigured as error:
        return [Error(str(error), id="crmsync.E003")]
    return []


@register()
def the_relations_have_readable_names(app_configs: Sequence[Any] | None, **kwargs: Any) -> list[CheckMessage]:
    try:
        lockpolicy.declared(settings.CRM_RELATIONS)
    except ValueError as error:
        return [Error(f"CRM_RELATIONS: {error}", id="crmsync.E010")]
    return []
