"""The one door to Salesforce: signs in, writes rows by external id, and says exactly what it was told.

simple-salesforce does the talking. Around it stand what it lacks: a deadline for every call, one token per process,
renewed at most once per refusal (its own renewal recurses without end while the org keeps refusing), and no retry of
anything that may have been taken. This is the only module that knows simple-salesforce or requests.
"""

import json
import logging
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar
from urllib.parse import urlsplit

import requests
from django.conf import settings
from simple_salesforce.api import Salesforce
from simple_salesforce.exceptions import SalesforceAuthenticationFailed, SalesforceError
from simple_salesforce.format import format_external_id, format_soql
from simple_salesforce.login import SalesforceLogin
from urllib3.exceptions import MaxRetryError, NewConnectionError

from crmsync.errors import NO_ANSWER, NOT_CONNECTED, CallFailed, Fault, NotConfigured
from crmsync.wire import BoundedAdapter

log = logging.getLogger(__name__)
T = TypeVar("T")

LOOPBACK = {"127.0.0.1", "localhost", "::1"}
LOCAL_DOMAIN = "rota-local.my"  # never resolved: the adapter of a local org sends every host to CRM_URL
EMAILS_PER_QUERY = 100
NOT_SIGNED_IN = {"INVALID_SESSION_ID"}


@dataclass(frozen=True, slots=True)
class Row:
    """One record to write: Salesforce's field names, without the external id itself."""

    external_id: str
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RowResult:
    """What the org said about one row: taken (then with its id, if it told), or why not."""

    crm_id: str | None = None
    fault: Fault | None = None


@dataclass(frozen=True, slots=True)
class Address:
    url: str
    client_id: str
    client_secret: str
    api_version: str
    timeout_s: float


class Org:
    """A warm connection to the org. One thread at a time; see `connect`."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.domain, plain_http_to = where(address.url)
        self.session = requests.Session()
        self.session.trust_env = False  # a proxy or .netrc of this machine must not see or answer these calls
        # Here and not per call, so that no assignment rule of the org takes the lead from the rep it was given to.
        self.session.headers["Sforce-Auto-Assign"] = "FALSE"
        self.wire = BoundedAdapter(total_s=address.timeout_s, plain_http_to=plain_http_to)
        self.session.mount("https://", self.wire)
        self.session.mount("http://", BoundedAdapter(total_s=address.timeout_s, refuse=True))
        self.session.hooks["response"].append(self.note)
        self.retry_after_s = 0
        self.salesforce: Salesforce | None = None
        self.token = ""

    def sign_in(self) -> None:
        """Have a token. Raises CallFailed; nothing was written then."""
        token, instance = TOKENS.get(self)
        if self.salesforce is None or self.token != token:
            self.token = token
            self.salesforce = Salesforce(
                session_id=token,
                instance_url=f"https://{instance}",
                version=self.address.api_version,
                session=self.session,
            )

    def upsert(
        self,
        *,
        object: str,
        external_id_field: str,
        rows: Sequence[Row],
        headers: Mapping[str, str],
        not_after: float | None = None,
    ) -> list[RowResult]:
        """Create or update the rows by external id, and answer one result per row, in their order.

        One row goes by REST, more by one sObject Collections request, which the org takes row by row. Raises CallFailed
        where the org did not take the request, or nobody knows whether it did. `not_after` (time.monotonic) bounds
        everything this takes, a renewed token and a second call included; after it nothing is sent any more.
        """
        self.wire.not_after = not_after
        try:
            return self.upsert_in_time(object, external_id_field, rows, headers)
        finally:
            self.wire.not_after = None

    def upsert_in_time(
        self, object: str, external_id_field: str, rows: Sequence[Row], headers: Mapping[str, str]
    ) -> list[RowResult]:
        if len(rows) == 1:
            path = f"sobjects/{object}/{format_external_id(external_id_field, rows[0].external_id)}"
            answer = self.call("PATCH", path, rows[0].body, headers)
            return [RowResult(crm_id=(answer or {}).get("id"))]
        records = [{"attributes": {"type": object}, external_id_field: row.external_id, **row.body} for row in rows]
        path = f"composite/sobjects/{object}/{external_id_field}"
        answer = self.call("PATCH", path, {"allOrNone": False, "records": records}, headers)
        if not isinstance(answer, list) or len(answer) != len(rows):
            raise CallFailed(Fault(NO_ANSWER, f"{len(rows)} rows were sent; the answer does not account for them."))
        return [row_result(entry) for entry in answer]

    def users_by_email(self, emails: Sequence[str]) -> dict[str, str]:
        """Each address (in lower case) that exactly one active user of the org has, with that user's id."""
        wanted = sorted({email.lower() for email in emails})
        found: dict[str, set[str]] = {}
        for start in range(0, len(wanted), EMAILS_PER_QUERY):
            part = wanted[start : start + EMAILS_PER_QUERY]
            query = soql("SELECT Id, Email FROM User WHERE IsActive = true AND Email IN {}", part)
            for user in self.query(query):
                found.setdefault(user["Email"].lower(), set()).add(user["Id"])
        return {email: ids.pop() for email, ids in found.items() if len(ids) == 1}

    def query(self, soql: str) -> list[dict[str, Any]]:
        return [record for page in self.pages(soql) for record in page]

    def pages(self, soql: str) -> Iterator[list[dict[str, Any]]]:
        """The records of a query, up to 2,000 at a time. Raises CallFailed."""
        answer = self.call("GET", "query/", None, {}, params={"q": soql})
        while True:
            yield answer["records"]
            if answer["done"]:
                return
            answer = self.call("GET", answer["nextRecordsUrl"].split(f"/v{self.address.api_version}/", 1)[1], None, {})

    def call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        headers: Mapping[str, str],
        params: dict[str, str] | None = None,
    ) -> Any:
        """One request, sent again only where the org refused the token it came with. Raises CallFailed."""
        data = None if body is None else json.dumps(body, allow_nan=False, ensure_ascii=False).encode()
        self.sign_in()
        for last in (False, True):
            assert self.salesforce is not None
            try:
                return self.salesforce.restful(path, params=params, method=method, data=data, headers=dict(headers))
            except (SalesforceError, requests.RequestException) as error:
                fault = fault_of(error)
                if last or fault.code not in NOT_SIGNED_IN:
                    raise CallFailed(replace(fault, retry_after_s=self.retry_after_s)) from error
            TOKENS.forget(self, self.token)
            self.sign_in()
        raise AssertionError("unreachable")

    def note(self, response: requests.Response, **kwargs: Any) -> None:
        """Keep what the client library drops: how long the org asks us to stay away, in seconds; 0 if it does not."""
        asked = response.headers.get("Retry-After", "")
        self.retry_after_s = min(int(asked), 3_600) if asked.isdecimal() else 0


class Tokens:
    """One token per org and process. Whoever finds it missing fetches it while the others wait."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.known: dict[Address, tuple[str, str]] = {}

    def get(self, org: Org) -> tuple[str, str]:
        with self.lock:
            if org.address not in self.known:
                self.known[org.address] = fetch_token(org)
            return self.known[org.address]

    def forget(self, org: Org, token: str) -> None:
        """The org refused this token. Somebody may have fetched a newer one meanwhile: that one stays."""
        with self.lock:
            if self.known.get(org.address, ("", ""))[0] == token:
                del self.known[org.address]


TOKENS = Tokens()
CONNECTED = threading.local()


def connect() -> Org:
    """The connection of this thread to the configured org, opened when first used. Raises NotConfigured."""
    address = Address(
        url=settings.CRM_URL.rstrip("/"),
        client_id=settings.CRM_CLIENT_ID,
        client_secret=settings.CRM_CLIENT_SECRET,
        api_version=settings.CRM_API_VERSION,
        timeout_s=settings.CRM_TIMEOUT_S,
    )
    mine: tuple[int, Org] | None = getattr(CONNECTED, "org", None)
    if mine is None or mine[0] != os.getpid() or mine[1].address != address:
        mine = CONNECTED.org = (os.getpid(), Org(address))  # a forked child must not share its parent's socket
    return mine[1]


def soql(text: str, *values: Any) -> str:
    """The query with each {} replaced by a value, quoted and escaped as SOQL wants it."""
    return str(format_soql(text, *values))


def where(url: str) -> tuple[str, str | None]:
    """The My Domain name for signing in, and the plain-http address of a local org. Raises NotConfigured."""
    if not url:
        raise NotConfigured("CRM_URL is not set.")
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme == "http" and host in LOOPBACK:
        return LOCAL_DOMAIN, url
    if parts.scheme == "http":
        raise NotConfigured(f"CRM_URL is plain http to {host}: credentials would travel readable. Use https.")
    if parts.scheme != "https" or not host.endswith(".salesforce.com"):
        raise NotConfigured("CRM_URL should be the org's My Domain, https://<name>.my.salesforce.com.")
    domain = host.removesuffix(".salesforce.com")
    if domain in ("login", "test"):
        raise NotConfigured("Client credentials need the org's My Domain; login and test do not take them.")
    return domain, None


def fetch_token(org: Org) -> tuple[str, str]:
    try:
        return SalesforceLogin(
            consumer_key=org.address.client_id,
            consumer_secret=org.address.client_secret,
            domain=org.domain,
            session=org.session,
        )
    except SalesforceAuthenticationFailed as error:
        status = error.code if isinstance(error.code, int) else 0
        raise CallFailed(Fault("" if status else str(error.code), str(error.auth_message), status=status)) from error
    except requests.RequestException as error:
        # A token that was fetched and lost writes nothing: this is never an unknown outcome.
        raise CallFailed(Fault(NOT_CONNECTED, f"signing in: {fault_of(error).text}")) from error


def row_result(entry: Mapping[str, Any]) -> RowResult:
    if entry.get("success") is True:
        return RowResult(crm_id=entry.get("id"))
    errors = entry.get("errors") or [{}]
    return RowResult(fault=as_fault(errors[0], status=0))


def as_fault(error: Mapping[str, Any], *, status: int) -> Fault:
    return Fault(
        code=str(error.get("errorCode") or error.get("statusCode") or error.get("exceptionCode") or ""),
        text=str(error.get("message") or error.get("exceptionMessage") or ""),
        fields=tuple(str(name) for name in error.get("fields") or ()),
        status=status,
    )


def fault_of(error: Exception) -> Fault:
    """What went wrong: by the code in the answer's body; by the kind of exception only where nothing was answered."""
    if isinstance(error, SalesforceError):
        content: Any = error.content
        if isinstance(content, list) and content and isinstance(content[0], dict):
            if "errorCode" in content[0]:
                return as_fault(content[0], status=error.status)
            return Fault("DUPLICATE_EXTERNAL_ID", "More than one record has this external id.", status=error.status)
        if isinstance(content, dict):
            return as_fault(content, status=error.status)
        if error.status == 300:
            return Fault("DUPLICATE_EXTERNAL_ID", str(content), status=error.status)
        return Fault("", str(content)[:2000], status=error.status)
    if isinstance(error, requests.exceptions.ConnectTimeout | requests.exceptions.SSLError):
        return Fault(NOT_CONNECTED, type(error).__name__)
    reason = error.args[0] if error.args else None
    if isinstance(reason, MaxRetryError) and isinstance(reason.reason, NewConnectionError):
        return Fault(NOT_CONNECTED, type(reason.reason).__name__)
    return Fault(NO_ANSWER, type(error).__name__)
