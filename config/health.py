"""Answers for load balancers: `/healthz` says that the web server lives, `/readyz` that Rota can do its work."""

from django.db import DatabaseError, connection, transaction
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import cache_control
from django.views.decorators.http import require_safe

READY_TIMEOUT_MS = 1_000


@require_safe
@cache_control(no_store=True)
def healthz(request: HttpRequest) -> HttpResponse:
    """200 without touching anything: a database that is down is no reason to kill web servers."""
    return HttpResponse("ok\n", content_type="text/plain")


@require_safe
@cache_control(no_store=True)
def readyz(request: HttpRequest) -> JsonResponse:
    """200 where the database answers within a second and has every migration, else 503 with the reason."""
    try:
        pending = pending_migrations()
    except DatabaseError:
        return JsonResponse({"ready": False, "reason": "the database does not answer"}, status=503)
    if pending:
        reason = f"{pending} migrations are not applied"
        return JsonResponse({"ready": False, "reason": reason}, status=503)
    return JsonResponse({"ready": True})


def pending_migrations() -> int:
    """How many migrations the database lacks. Opens a transaction."""
    with transaction.atomic(durable=True):
        with connection.cursor() as cursor:
            cursor.execute(f"set local statement_timeout = {READY_TIMEOUT_MS}")
        executor = MigrationExecutor(connection)
        return len(executor.migration_plan(executor.loader.graph.leaf_nodes()))
