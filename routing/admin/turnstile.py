"""Changes to who takes turns: they wait for the turnstile, and say so where it stays busy."""

from collections.abc import Callable
from typing import Any

import psycopg.errors
from django.contrib import messages
from django.db import OperationalError, transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from crmsync.desk.confirm import Asked
from crmsync.desk.lists import Kept

BUSY = "Leads are being given out in this team right now. Nothing was changed; try again in a moment."


class ChangedBetweenTurns(Kept):
    """Rows that a turn reads. Saving one calls a move of routing.members, in the transaction the admin opens."""

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        try:
            return super().changeform_view(request, object_id, form_url, extra_context)
        except OperationalError as fault:
            if not isinstance(fault.__cause__, psycopg.errors.LockNotAvailable):
                raise
            self.message_user(request, BUSY, messages.ERROR)
            return redirect(request.get_full_path())

    def carry_out(self, asked: Asked, move: Callable[[], int], verb: str, others: str) -> HttpResponse | None:
        """Carry out a confirmed action in a transaction of its own, and say what came of it."""
        try:
            with transaction.atomic(durable=True):
                done = move()
        except OperationalError as fault:
            if not isinstance(fault.__cause__, psycopg.errors.LockNotAvailable):
                raise
            self.message_user(asked.request, BUSY, messages.ERROR)
            return None
        return asked.tell(self, done, verb, others)
