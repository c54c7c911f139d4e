"""Changes to who takes turns: they wait for the turnstile, and say so where it stays busy."""

from collections.abc import Callable
from typing import Any, TypeVar

import psycopg.errors
from django.contrib import messages
from django.contrib.admin import ModelAdmin
from django.db import OperationalError, transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from crmsync.desk.confirm import Asked
from crmsync.desk.lists import Kept
from routing.errors import RoutingError

BUSY = "Leads are being given out in this team right now. Nothing was changed; try again in a moment."
Done = TypeVar("Done")


def told(model_admin: ModelAdmin, request: HttpRequest, deed: Callable[[], Done]) -> Done | None:
    """What a deed comes to; None, and a message, where a turnstile stays busy or routing refuses it."""
    try:
        return deed()
    except OperationalError as fault:
        if not isinstance(fault.__cause__, psycopg.errors.LockNotAvailable):
            raise
        model_admin.message_user(request, BUSY, messages.ERROR)
    except RoutingError as refusal:
        model_admin.message_user(request, str(refusal), messages.ERROR)
    return None


class ChangedBetweenTurns(Kept):
    """Rows that a turn reads. Saving one calls a move of routing, in the transaction the admin opens."""

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        page = super().changeform_view
        answer = told(self, request, lambda: page(request, object_id, form_url, extra_context))
        return answer or redirect(request.get_full_path())

    def carry_out(self, asked: Asked, move: Callable[[], int], verb: str, others: str) -> HttpResponse | None:
        """Carry out a confirmed action in a transaction of its own, and say what came of it."""

        def deed() -> int:
            with transaction.atomic(durable=True):
                return move()

        done = told(self, asked.request, deed)
        return None if done is None else asked.tell(self, done, verb, others)
