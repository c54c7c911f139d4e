"""The one door to Salesforce: signs in, carries a call there, and says exactly what it was told.

simple-salesforce does the talking. Around it stand what it lacks: a deadline for every call, one token per process,
renewed at most once per refusal (its own renewal recurses without end while the org keeps refusing), and no retry of
anything that may have been taken. What is written by such calls stands in `direct`, `bulk2` and `bulk1`.
"""

import json
import logging
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar
from urllib.parse import urlsplit

import requests
from django.conf import settings
from simple_salesforce.api import Salesforce
from simple_salesforce.exceptions import SalesforceAuthenticationFailed, SalesforceError
from simple_salesforce.format import format_external_id, format_soql
from simple_salesforce.login import SalesforceLogin
from simple_salesforce.util import exception_handler

from crmsync.answers import fault_of
from crmsync.classify import LOGIN_WORDS
from crmsync.errors import NOT_CONNECTED, CallFailed, Fault, NotConfigured
from crmsync.wire import BoundedAdapter

log = logging.getLogger(__name__)
T = TypeVar("T")

LOOPBACK = {"127.0.0.1", "localhost", "::1"}
LOCAL_DOMAIN = "rota-local.my"  # never resolved: the adapter of a local org sends every host to CRM_URL
KEYS_PER_QUERY = 100  # an address may have 16 kB
NOT_SIGNED_IN = {"INVALID_SESSION_ID", "InvalidSessionId"}  # the second is Bulk API 1.0's, and comes with a 400
USAGE = re.compile(r"api-usage=(\d+)/(\d+)")


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
        self.usage: tuple[int, int] | None = None
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

    @contextmanager
    def until(self, not_after: float) -> Iterator[None]:
        """What is called inside ends before `not_after` (time.monotonic), a renewed token and a second call included;
        after it nothing is sent any more."""
        self.wire.not_after = not_after
        try:
            yield
        finally:
            self.wire.not_after = None

    def users_by_email(self, emails: Sequence[str]) -> dict[str, str]:
        """Each address (in lower case) that exactly one active user of the org has, with that user's id."""
        wanted = sorted({email.lower() for email in emails})
        found: dict[str, set[str]] = {}
        for start in range(0, len(wanted), KEYS_PER_QUERY):
            part = wanted[start : start + KEYS_PER_QUERY]
            query = soql("SELECT Id, Email FROM User WHERE IsActive = true AND Email IN {}", part)
            for user in self.query(query):
                found.setdefault(user["Email"].lower(), set()).add(user["Id"])
        return {email: ids.pop() for email, ids in found.items() if len(ids) == 1}

    def ids_of(self, object: str, external_id_field: str, external_ids: Sequence[str]) -> dict[str, list[str]]:
        """The org's ids of the records with these external ids, by external id in lower case, as the org compares."""
        found: dict[str, list[str]] = {}
        asked = f"SELECT Id, {external_id_field} FROM {object} WHERE {external_id_field} IN {{}}"
        for start in range(0, len(external_ids), KEYS_PER_QUERY):
            for record in self.query(format_soql(asked, list(external_ids[start : start + KEYS_PER_QUERY]))):
                found.setdefault(str(record[external_id_field]).casefold(), []).append(record["Id"])
        return found

    def names_of(self, object: str, ids: Sequence[str]) -> dict[str, str]:
        """Those of these ids (18 letters) that the org has, with the names of the records."""
        asked, parts = f"SELECT Id, Name FROM {object} WHERE Id IN {{}}", range(0, len(ids), KEYS_PER_QUERY)
        found = [self.query(format_soql(asked, list(ids[start : start + KEYS_PER_QUERY]))) for start in parts]
        return {str(record["Id"]): str(record["Name"]) for page in found for record in page}

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
        body: Any,
        headers: Mapping[str, str],
        params: dict[str, str] | None = None,
    ) -> Any:
        """One REST request and its JSON, sent again only where the org refused the token it came with.

        `path` below /services/data/vNN.0/. Raises CallFailed.
        """
        data = None if body is None else as_json(body)

        def ask(salesforce: Salesforce) -> Any:
            return salesforce.restful(path, params=params, method=method, data=data, headers=dict(headers))

        return self.signed_in(ask)

    def send(
        self,
        method: str,
        path: str,
        *,
        data: bytes | None = None,
        headers: Mapping[str, str],
        api: Literal["data", "async"] = "data",
    ) -> bytes:
        """One request of any content and the bytes that came back, with the token as `api` wants it. Raises CallFailed.

        `path` below /services/data/vNN.0/, or /services/async/NN.0/ for Bulk API 1.0.
        """

        def ask(salesforce: Salesforce) -> bytes:
            if api == "async":
                url, token = f"{salesforce.bulk_url}{path}", {"X-SFDC-Session": self.token}
            else:
                url, token = f"{salesforce.base_url}{path}", {"Authorization": f"Bearer {self.token}"}
            answer = self.session.request(method, url, data=data, headers={**token, **headers})
            if answer.status_code >= 300:
                exception_handler(answer, name=path)
            return answer.content

        return self.signed_in(ask)

    def signed_in(self, ask: Callable[[Salesforce], T]) -> T:
        self.sign_in()
        for last in (False, True):
            assert self.salesforce is not None
            try:
                return ask(self.salesforce)
            except (SalesforceError, requests.RequestException) as error:
                fault = fault_of(error)
                if last or fault.code not in NOT_SIGNED_IN or LOGIN_WORDS.search(fault.text):
                    raise CallFailed(replace(fault, retry_after_s=self.retry_after_s)) from error
            TOKENS.forget(self, self.token)
            self.sign_in()
        raise AssertionError("unreachable")

    def note(self, response: requests.Response, **kwargs: Any) -> None:
        """Keep what the client library drops: for how many seconds the org asks us to stay away (0 if it does not), and
        how many of the day's calls are used, of how many."""
        asked = response.headers.get("Retry-After", "")
        self.retry_after_s = min(int(asked), 3_600) if asked.isdecimal() else 0
        if found := USAGE.search(response.headers.get("Sforce-Limit-Info", "")):
            self.usage = int(found[1]), int(found[2])


def path_of(object: str, external_id_field: str, external_id: str) -> str:
    """The path of a record by its external id, whatever characters that has."""
    return f"sobjects/{object}/{format_external_id(external_id_field, external_id)}"


def as_json(body: Any) -> bytes:
    return json.dumps(body, allow_nan=False, ensure_ascii=False).encode()


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
