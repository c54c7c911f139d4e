"""The token endpoint of OAuth 2.0: client credentials, a password, or a signed assertion buy an access token."""

import base64
import binascii
import time
from collections.abc import Awaitable, Callable, Mapping
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from crmsync.sandbox.assertion import BadAssertion, username_in
from crmsync.sandbox.faulty_calls import bearer
from crmsync.sandbox.org import Org
from crmsync.sandbox.sessions import ORG_ID, TooManyLogins

Form = Mapping[str, str]


class Refusal(Exception):
    """`error` and `error_description` of the answer; its status is 400 for every one of them."""


async def token(request: Request) -> Response:
    """`POST /services/oauth2/token`. Client id and secret come as Basic authorization or in the form."""
    org: Org = request.app.state.org
    form = {name: values[0] for name, values in parse_qs((await request.body()).decode("utf-8", "replace")).items()}
    grant = GRANTS.get(form.get("grant_type", ""))
    try:
        if grant is None:
            raise Refusal("unsupported_grant_type", "grant type not supported")
        user = await grant(org, request, form)
        access_token = await org.sessions.open(user)
    except Refusal as refusal:
        return _refuse(*refusal.args)
    except TooManyLogins:
        return _refuse("invalid_grant", "login rate exceeded")
    instance_url = f"http://{request.headers.get('host', request.url.netloc)}"
    answer = {
        "access_token": access_token,
        "instance_url": instance_url,
        "id": f"{instance_url}/id/{ORG_ID}/{user}",
        "token_type": "Bearer",
        "scope": "api",
        "issued_at": str(int(time.time() * 1000)),
    }
    return JSONResponse(answer, headers={"Cache-Control": "no-store"})


async def revoke(request: Request) -> Response:
    """`POST /services/oauth2/revoke`, form `token`: ends it; 200 without a body."""
    org: Org = request.app.state.org
    form = parse_qs((await request.body()).decode("utf-8", "replace"))
    await org.sessions.expire(form.get("token", [""])[0])
    return Response()


async def user_info(request: Request) -> Response:
    """`GET /services/oauth2/userinfo`: whose token this is (OpenID Connect)."""
    org: Org = request.app.state.org
    if not org.sessions.is_good(bearer(request)):
        return Response("Bad_OAuth_Token", 403)
    user = org.sessions.user(bearer(request)) or org.integration_user
    record = org.store.get(org.schema.objects["User"], user) or {}
    return JSONResponse(
        {
            "sub": f"http://{request.headers.get('host', '')}/id/{ORG_ID}/{user}",
            "user_id": user,
            "organization_id": ORG_ID,
            "preferred_username": record.get("Username"),
            "name": record.get("Name"),
            "email": record.get("Email"),
            "active": bool(record.get("IsActive")),
            "user_type": "STANDARD",
            "urls": {"rest": f"http://{request.headers.get('host', '')}/services/data/v{{version}}/"},
        }
    )


async def _client_credentials(org: Org, request: Request, form: Form) -> str:
    _check_client(org, request, form)
    return org.integration_user


async def _password(org: Org, request: Request, form: Form) -> str:
    _check_client(org, request, form)
    user = org.user_with(form.get("username", ""), form.get("password", ""))
    if user is None:
        raise Refusal("invalid_grant", "authentication failure")
    return user


async def _jwt_bearer(org: Org, request: Request, form: Form) -> str:
    try:
        username = username_in(form.get("assertion", ""), org.options.client_id, org.options.jwt_key)
    except BadAssertion as error:
        raise Refusal("invalid_grant", str(error)) from None
    user = org.active_user(username)
    if user is None:
        raise Refusal("invalid_grant", "user hasn't approved this consumer")
    return user


GRANTS: dict[str, Callable[[Org, Request, Form], Awaitable[str]]] = {
    "client_credentials": _client_credentials,
    "password": _password,
    "urn:ietf:params:oauth:grant-type:jwt-bearer": _jwt_bearer,
}


def _check_client(org: Org, request: Request, form: Form) -> None:
    client_id, client_secret = _basic(request) or (form.get("client_id", ""), form.get("client_secret", ""))
    if not org.sessions.knows_client(client_id, client_secret):
        raise Refusal("invalid_client", "invalid client credentials")


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
