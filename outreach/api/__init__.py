"""The API for external senders and AI agents: disjoint work, and the gate before anything leaves.

Every answer that is no success is application/problem+json. The page at /api/docs needs nothing from other hosts.
"""

import logging
from http import HTTPStatus

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.db import DatabaseError, InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, HttpError, ValidationError

from outreach.api.bearer import AgentToken
from outreach.api.leads import router as leads
from outreach.api.mail import router as mail
from outreach.api.refusals import answer_for, path_of
from outreach.errors import OutreachError
from routing.problem import problem

logger = logging.getLogger(__name__)

HELP = """
Work for external senders and AI agents. **Claim** a batch: it is yours alone until its lease ends. **Begin** each piece
before you act: this is the gate, and 409 says why you must not. **Settle** what came of it. What you do not get to,
**release**. A claim that is not extended ends by itself; what was begun and not settled then waits for a person.

Every POST carries an `Idempotency-Key`. The same key with the same body gets the same answer again; so after a lost
answer send the very same request once more. With another body it is refused (422). An answer given again says so
(`Idempotent-Replayed: true`): of a `begin` it tells what was allowed, not that nothing was sent since. Who does not
know whether it has acted settles `in_doubt`.
"""

api = NinjaAPI(
    title="Rota for agents",
    version="1",
    description=HELP,
    urls_namespace="agents",
    auth=AgentToken(),
)
api.add_router("/mail", mail, tags=["Campaign mail"])
api.add_router("/leads", leads, tags=["Leads"])


@api.exception_handler(OutreachError)
def refused(request: HttpRequest, refusal: OutreachError) -> HttpResponse:
    return answer_for(refusal)


@api.exception_handler(AuthenticationError)
def no_token(request: HttpRequest, refusal: AuthenticationError) -> HttpResponse:
    answer = problem(HTTPStatus.UNAUTHORIZED, "Send Authorization: Bearer and your token.")
    answer["WWW-Authenticate"] = "Bearer"
    return answer


@api.exception_handler(ValidationError)
def invalid(request: HttpRequest, refusal: ValidationError) -> HttpResponse:
    """Paths and what is wrong there, never the values."""
    errors = [{"path": path_of(error["loc"]), "problem": str(error["msg"])} for error in refusal.errors]
    return problem(HTTPStatus.UNPROCESSABLE_ENTITY, "The request is not what this address takes.", errors=errors)


@api.exception_handler(RequestDataTooBig)
def too_large(request: HttpRequest, refusal: RequestDataTooBig) -> HttpResponse:
    return problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"A request has {settings.INBOUND_MAX_BYTES} bytes at most.")


@api.exception_handler(DatabaseError)
def database_refusal(request: HttpRequest, fault: Exception) -> HttpResponse:
    """The database does not take what we wrote for this request: a fault of ours, which another try would meet too."""
    logger.error("api failed path=%s fault=%s", request.path, type(fault.__cause__ or fault).__name__, exc_info=fault)
    return problem(HTTPStatus.INTERNAL_SERVER_ERROR, "It was not done. To send it again would not help.")


@api.exception_handler(InterfaceError)
@api.exception_handler(OperationalError)
def database_fault(request: HttpRequest, fault: Exception) -> HttpResponse:
    """A lock held too long, a deadlock, a database that restarts: the same request with the same key again is right."""
    logger.error("api failed path=%s fault=%s", request.path, type(fault.__cause__ or fault).__name__)
    return problem(HTTPStatus.SERVICE_UNAVAILABLE, "It was not done. Send it again.", retry_after_s=5)


@api.exception_handler(HttpError)
def other(request: HttpRequest, refusal: HttpError) -> HttpResponse:
    return problem(HTTPStatus(refusal.status_code), str(refusal))


@api.exception_handler(Http404)
def not_here(request: HttpRequest, refusal: Http404) -> HttpResponse:
    return problem(HTTPStatus.NOT_FOUND, "There is nothing at this address.")


__all__ = ["api"]
