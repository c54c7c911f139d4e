"""Hand one mail to a hosted provider over its HTTP API, through django-anymail, and know how far that came.

The same contract as SMTP's: a fault before the last of the request had left is a definite no, silence after that is
doubt. The request goes out once: no retries, no redirects. What the provider answered decides the rest (`read_answer`).
"""

from types import TracebackType
from typing import Any, Self

import requests
from anymail.message import AnymailMessage
from django.conf import settings
from django.utils.module_loading import import_string
from requests.adapters import HTTPAdapter

from outreach.errors import CredentialsRefused
from outreach.mail.compose import Mail
from outreach.mail.outcome import Outcome, broken_off
from outreach.mail.parts import parts_of
from outreach.mail.providers import Provider, chosen
from outreach.mail.smtp import IDLE_MOST_S, now_s
from outreach.mail.timing import before_dot_s

OURS = (401, 402, 403, 404, 405)
"""Statuses about our account or address, whatever the mail: sending stops, no lead is charged."""
LATER = (408, 425, 429, 503)
"""Statuses with which a server says that it did not take the request on."""

TAKEN, NOT_FOR = frozenset({"sent", "queued"}), frozenset({"rejected", "invalid"})
"""Anymail's words for what a provider said of a recipient."""


class Body:
    """The request's body, which notes how far the sending of it has come: nothing of a mail leaves unseen."""

    def __init__(self, data: bytes, until: float) -> None:
        self.data, self.until, self.at, self.phase = data, until, 0, "connect"

    def read(self, size: int = -1) -> bytes:
        """The next part. The last one is not given out at all where the process was held up beyond its time."""
        if now_s() > self.until:
            raise TimeoutError("held up too long before the end of the request")
        end = len(self.data) if size < 0 else min(len(self.data), self.at + size)
        part, self.at = self.data[self.at : end], end
        self.phase = "dot" if self.at >= len(self.data) else "body"
        return part


class Once(HTTPAdapter):
    """Sends each request once, from a `Body`."""

    body: Body | None = None
    until = 0.0

    def send(self, request: requests.PreparedRequest, *args: Any, **kwargs: Any) -> requests.Response:
        data = request.body or b""
        self.body = Body(data.encode() if isinstance(data, str) else bytes(data), self.until)
        request.body = self.body  # type: ignore[assignment]
        return super().send(request, *args, **kwargs)


class OnceSession(requests.Session):
    """A session over `Once` that takes a redirect for an answer: following it would send the mail a second time."""

    def __init__(self) -> None:
        super().__init__()
        self.once = Once()
        self.mount("https://", self.once)
        self.mount("http://", self.once)

    def get_redirect_target(self, resp: requests.Response) -> None:
        return None


class Hosted:
    """The way to the provider, kept over the mails of a batch. Use as a context; one thread."""

    def __init__(self) -> None:
        provider = chosen()
        assert provider is not None, "EMAIL_PROVIDER is checked at start."
        self.provider: Provider = provider
        self.session: OnceSession | None = None
        self.backend: Any = None
        self.used_at = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @property
    def is_open(self) -> bool:
        """A mail can begin at once, in the session that carried the last."""
        return self.session is not None and now_s() - self.used_at <= IDLE_MOST_S

    def ready(self) -> None:
        """Have a session on which a mail can begin; nothing is sent yet. Raises CredentialsRefused without a key."""
        if not settings.EMAIL_PROVIDER_KEY:
            raise CredentialsRefused("EMAIL_PROVIDER_KEY is not set.")
        if self.session is not None and now_s() - self.used_at > IDLE_MOST_S:
            self.close()  # the provider may have hung up, and a request on a dead connection is one in doubt
        if self.session is None:
            self.session = OnceSession()
            self.backend = import_string(self.provider.backend)(**self._options())
            self.backend.session = self.session
        self.used_at = now_s()

    def _options(self) -> dict[str, Any]:
        timeout = (settings.EMAIL_PHASE_TIMEOUT_S, settings.EMAIL_REPLY_TIMEOUT_S)
        url = {"api_url": settings.EMAIL_PROVIDER_URL} if settings.EMAIL_PROVIDER_URL else {}
        return {self.provider.key: settings.EMAIL_PROVIDER_KEY, "timeout": timeout, **url}

    def takes(self, mail: Mail) -> bool:
        """Providers take addresses that are ASCII before the @."""
        return not mail.needs_utf8

    def hand_over(self, mail: Mail) -> Outcome:
        """Hand over one mail to one recipient, once. Call `ready` before, outside a transaction. Never raises."""
        assert self.session is not None, "Call ready() first."
        once, message = self.session.once, message_of(mail, self.provider)
        once.body, once.until = None, now_s() + before_dot_s()
        if self.provider.idempotency:
            self.session.headers[self.provider.idempotency] = mail.mail_id.strip("<>")
        fault: Exception | None = None
        try:
            self.backend.send_messages([message])
        except Exception as raised:  # anymail trips over odd answers in many ways; the answer itself is read below
            fault = raised
        response = getattr(fault, "response", None)
        if response is None:
            response = message.anymail_status.esp_response
        if response is not None:
            outcome = outcome_of_answer(response, message, self.provider)
        elif once.body is None:  # anymail itself could not make a request of it
            outcome = Outcome("refused", "mail", None, f"{type(fault).__name__}: {fault}"[:1_000], "content")
        else:
            outcome = broken_off(phase=once.body.phase, why=f"{type(fault).__name__}: {fault}")
        if outcome.fault == "road":
            self.close()
        self.used_at = now_s()
        return outcome

    def close(self) -> None:
        """Hang up. What the provider makes of it changes nothing: outcomes are known by now."""
        session, self.session, self.backend = self.session, None, None
        if session is not None:
            session.close()


def message_of(mail: Mail, provider: Provider) -> AnymailMessage:
    """The mail as anymail wants it: one Message-ID for every try, and in the metadata that events come back with."""
    parts = parts_of(mail)
    return AnymailMessage(
        subject=parts.subject,
        body=parts.text,
        from_email=parts.sender,
        to=[parts.recipient],
        headers={"Message-ID": mail.mail_id, **parts.headers, **provider.headers},
        metadata={"mail_id": mail.mail_id},
    )


def outcome_of_answer(response: requests.Response, message: AnymailMessage, provider: Provider) -> Outcome:
    """What an HTTP answer says of the one recipient, as anymail read it, and of the mail.

    Taken is only what the provider gave a number of its own, under a status that says so. Rejected is an address that
    it knows to be dead, invalid one that it cannot read.
    """
    said = message.anymail_status.recipients.values()
    statuses, numbers = {one.status for one in said} - {"unknown"}, {one.message_id for one in said if one.message_id}
    code, text = response.status_code, response.text[:1_000]
    if statuses and statuses <= NOT_FOR:
        return Outcome("refused", "dot", code, text, "mailbox" if "rejected" in statuses else "recipient")
    if 200 <= code < 300 and statuses and statuses <= TAKEN and numbers:
        return Outcome("accepted", "done", code, f"taken as {', '.join(sorted(map(str, numbers)))}")
    if statuses:  # it says yes and no, or yes without a number
        return Outcome("in_doubt", "dot", code, text, "road")
    return read_answer(response, provider)


def read_answer(response: requests.Response, provider: Provider) -> Outcome:
    """Read an HTTP answer that says nothing of the recipient. What may have been taken is in doubt: 2xx, 500, 504."""
    code, text = response.status_code, response.text[:1_000]
    error = error_in(response)
    if code in OURS or error in provider.ours:
        return Outcome("deferred", "dot", code, text, "sender")
    if error in provider.dead:
        return Outcome("refused", "dot", code, text, "mailbox")
    if code in LATER or 300 <= code < 400:
        return Outcome("deferred", "dot", code, text, "road")
    if code == 409 and provider.idempotency:  # an earlier request with this key was, or is being, taken
        return Outcome("in_doubt", "dot", code, text, "road")
    if code == 413:
        return Outcome("refused", "dot", code, text, "content")
    if 400 <= code < 500:
        return Outcome("deferred", "dot", code, text, "content")
    return Outcome("in_doubt", "dot", code, text, "road")


def error_in(response: requests.Response) -> Any:
    """The error code in the answer's body: Postmark's ErrorCode, Resend's name, Brevo's code."""
    try:
        said = response.json()
    except ValueError:
        return None
    if not isinstance(said, dict):
        return None
    found = said.get("ErrorCode") or said.get("name") or said.get("code")
    return found if isinstance(found, int | str) else None
