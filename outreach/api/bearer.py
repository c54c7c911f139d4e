"""Who asks: the agent whose token came with the request, if its scope and its rate allow that."""

from django.http import HttpRequest
from ninja.security import HttpBearer

from outreach.errors import NotAllowed
from outreach.models import Agent
from outreach.moves.agents import admit


class AgentToken(HttpBearer):
    """`Authorization: Bearer rota_...`, made under Agents in the admin and shown there once."""

    def authenticate(self, request: HttpRequest, token: str) -> Agent:
        return admit(token=token)


def agent_of(request: HttpRequest, *, scope: str) -> Agent:
    """The agent of a request that was let in. Raises NotAllowed if it may not do this kind of work."""
    agent: Agent = request.auth  # type: ignore[attr-defined]
    if not getattr(agent, f"may_{scope}"):
        raise NotAllowed(f"Its token is not for {scope}.")
    return agent
