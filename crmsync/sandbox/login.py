"""The token endpoint: a client shows its id and secret and gets an access token (OAuth 2.0 client credentials)."""

import base64
import binascii
import time
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from crmsync.sandbox.org import Org
from crmsync.sandbox.sessions import ORG_ID


async def token(request: Request) -> Response:
    """`POST /services/oauth2/token`. Client id and secret come as Basic authorization or in the form."""
    org: Org = request.app.state.org
    form = {name: values[0] for name, values in parse_qs((await request.body()).decode("utf-8", "replace")).items()}
    if form.get("grant_type") != "client_credentials":
        return _refuse("unsupported_grant_type", "grant type not supported")
    client_id, client_secret = _basic(request) or (form.get("client_id", ""), form.get("client_secret", ""))
    if not org.sessions.knows_client(client_id, client_secret):
        return _refuse("invalid_client", "invalid client credentials")
    instance_url = f"http://{request.headers.get('host', request.url.netloc)}"
    answer = {
        "access_token": await org.sessions.open(),
        "instance_url": instance_url,
        "id": f"{instance_url}/id/{ORG_ID}/{org.integration_user}",
        "token_type": "Bearer",
        "scope": "api",
        "issued_at": str(int(time.time() * 1000)),
    }
    return JSONResponse(answer, headers={"Cache-Control": "no-store"})


def _basic(request: Request) -> tuple[str, str] | None:
    scheme, _, encoded = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        client_id, _, client_secret = base64.b64decode(encoded, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return "", ""
    return client_id, client_secret


def _refuse(error: str, description: str) -> Response:
    return JSONResponse({"error": error, "error_description": description}, 400)
