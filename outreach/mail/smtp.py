"""Hand one mail to the relay and know exactly how far that came.

The phase is written down before each command. A fault up to and including the body is a definite no: the relay has not
seen the end of the mail and must forget it. From the moment the final dot may be on its way, silence is doubt. There
are no retries in here: whoever tries again goes through the gate again.
"""

import smtplib
import socket
import ssl
import time
from types import TracebackType
from typing import Self

from django.conf import settings

from outreach.errors import CredentialsRefused, RoadClosed
from outreach.mail.compose import Mail
from outreach.mail.outcome import Outcome, broken_off, outcome_of
from outreach.mail.timing import before_dot_s

CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Goes on while the machine sleeps: a hand-over that slept beyond its time must not end in a mail."""
IDLE_MOST_S = 5.0
"""A connection idle for longer is asked whether it still lives before a mail is begun on it."""
LINE_MOST = 8192


def now_s() -> float:
    return time.clock_gettime(CLOCK)


class Lines:
    """The relay's reply lines, read against one deadline: a relay that drips bytes cannot stretch it."""

    def __init__(self, relay: "PhasedSMTP") -> None:
        assert relay.sock is not None
        self.relay, self.sock, self.buffer = relay, relay.sock, b""

    def readline(self, limit: int = LINE_MOST) -> bytes:
        while b"\n" not in self.buffer and len(self.buffer) < limit:
            left = self.relay.deadline - now_s()
            if left <= 0:
                raise TimeoutError("no reply in time")
            self.sock.settimeout(left)
            more = self.sock.recv(4096)
            if not more:
                break
            self.buffer += more
        line, newline, self.buffer = self.buffer.partition(b"\n")
        return line + newline

    def close(self) -> None:
        self.buffer = b""


class PhasedSMTP(smtplib.SMTP):
    """smtplib's client, with a deadline for each phase and small packets sent at once."""

    deadline = 0.0
    sock: socket.socket | ssl.SSLSocket | None

    def allow(self, seconds: float) -> None:
        """The next command and its reply have this long together."""
        self.deadline = now_s() + seconds
        if self.sock is not None:
            self.sock.settimeout(seconds)

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        sock = super()._get_socket(host, port, timeout)  # type: ignore[misc]
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock

    def getreply(self) -> tuple[int, bytes]:
        if self.file is None:
            self.file = Lines(self)
        return super().getreply()


class PhasedSMTPS(PhasedSMTP, smtplib.SMTP_SSL):
    """The same over TLS from the first byte."""


class Relay:
    """The connection to the relay, kept over the mails of a batch. Use as a context; one thread."""

    def __init__(self) -> None:
        self.smtp: PhasedSMTP | None = None
        self.used_at = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close(politely=kind is None)

    @property
    def is_open(self) -> bool:
        """A mail can begin at once, on the connection that carried the last."""
        return self.smtp is not None and now_s() - self.used_at <= IDLE_MOST_S

    def ready(self) -> None:
        """Have a connection on which a mail can begin. No mail has begun while this runs.

        Raises CredentialsRefused where the relay does not know us, RoadClosed where there is no relay to talk to.
        """
        if self.smtp is not None and now_s() - self.used_at > IDLE_MOST_S:
            try:
                self.smtp.allow(settings.EMAIL_PHASE_TIMEOUT_S)
                alive = self.smtp.noop()[0] == 250
            except (OSError, smtplib.SMTPException):
                alive = False
            if not alive:
                self.close(politely=False)
        if self.smtp is None:
            self.smtp = connect()
        self.used_at = now_s()

    def takes(self, mail: Mail) -> bool:
        """Whether the relay can carry an address with characters outside ASCII before the @ (RFC 6531)."""
        return not mail.needs_utf8 or (self.smtp is not None and self.smtp.has_extn("smtputf8"))

    def hand_over(self, mail: Mail) -> Outcome:
        """Hand over one mail to one recipient, once. Call `ready` before, outside a transaction. Never raises.

        Takes `longest_handover_s()` at most. Each phase has its timeout, and the final dot is not sent at all where the
        process was held up beyond them.
        """
        smtp = self.smtp
        assert smtp is not None, "Call ready() first."
        until = now_s() + before_dot_s()
        phase = "mail"
        try:
            options = ["SMTPUTF8", "BODY=8BITMIME"] if mail.needs_utf8 else []
            smtp.allow(settings.EMAIL_PHASE_TIMEOUT_S)
            code, reply = smtp.mail(mail.sender, options)
            if code == 250:
                phase = "rcpt"
                smtp.allow(settings.EMAIL_PHASE_TIMEOUT_S)
                code, reply = smtp.rcpt(mail.recipient)
            if phase == "rcpt" and code in (250, 251):
                phase = "data"
                smtp.allow(settings.EMAIL_PHASE_TIMEOUT_S)
                code, reply = smtp.docmd("DATA")
            if phase == "data" and code == 354:
                phase = "body"
                smtp.allow(settings.EMAIL_PHASE_TIMEOUT_S)
                smtp.sock.sendall(stuffed(mail.data))  # type: ignore[union-attr]
                if now_s() > until:
                    raise TimeoutError("held up too long before the end of the body")
                phase = "dot"
                smtp.allow(settings.EMAIL_REPLY_TIMEOUT_S)
                smtp.sock.sendall(b".\r\n")  # type: ignore[union-attr]
                code, reply = smtp.getreply()
        except (OSError, smtplib.SMTPException, UnicodeError) as fault:
            self.close(politely=False)
            return broken_off(phase=phase, why=f"{type(fault).__name__}: {fault}")
        self.used_at = now_s()
        outcome = outcome_of(phase=phase, code=code, reply=reply.decode("utf-8", "replace"))
        self._tidy_up(outcome)
        return outcome

    def _tidy_up(self, outcome: Outcome) -> None:
        """Leave the connection ready for the next mail, or closed."""
        if outcome.verdict == "accepted":
            return
        if outcome.fault == "road" or outcome.phase == "data" or self.smtp is None:
            self.close(politely=False)
            return
        try:
            self.smtp.allow(settings.EMAIL_PHASE_TIMEOUT_S)
            if self.smtp.rset()[0] != 250:
                self.close(politely=False)
        except (OSError, smtplib.SMTPException):
            self.close(politely=False)

    def close(self, *, politely: bool) -> None:
        """Say goodbye, or just hang up. What the relay makes of it changes nothing: outcomes are known by now."""
        smtp, self.smtp = self.smtp, None
        if smtp is None:
            return
        try:
            if politely:
                smtp.allow(1)
                smtp.quit()
        except (OSError, smtplib.SMTPException):
            pass
        finally:
            smtp.close()


def connect() -> PhasedSMTP:
    """Open a connection and log in. Raises CredentialsRefused or RoadClosed."""
    if not settings.EMAIL_HOST:
        raise RoadClosed("EMAIL_HOST is not set.")
    phase_s = settings.EMAIL_PHASE_TIMEOUT_S
    if settings.EMAIL_USE_SSL:
        smtp: PhasedSMTP = PhasedSMTPS(timeout=phase_s, context=ssl.create_default_context())
    else:
        smtp = PhasedSMTP(timeout=phase_s)
    try:
        smtp.allow(phase_s)
        smtp._host = settings.EMAIL_HOST  # type: ignore[attr-defined]  # smtplib takes the TLS name from here
        code, reply = smtp.connect(settings.EMAIL_HOST, settings.EMAIL_PORT)
        if code != 220:
            raise RoadClosed(f"The relay greets with {code}.")
        smtp.allow(2 * phase_s)
        smtp.ehlo_or_helo_if_needed()
        if settings.EMAIL_USE_TLS:
            smtp.allow(2 * phase_s)
            smtp.starttls(context=ssl.create_default_context())
            smtp.ehlo()
        if settings.EMAIL_HOST_USER:
            smtp.allow(phase_s)
            smtp.login(settings.EMAIL_HOST_USER, settings.EMAIL_HOST_PASSWORD)
    except smtplib.SMTPAuthenticationError as fault:
        smtp.close()
        if 400 <= fault.smtp_code < 500:
            raise RoadClosed(f"The relay cannot check our credentials now: {fault.smtp_code}.") from fault
        raise CredentialsRefused(f"The relay answered {fault.smtp_code}.") from fault
    except smtplib.SMTPNotSupportedError as fault:
        smtp.close()
        raise CredentialsRefused(str(fault)) from fault
    except (OSError, smtplib.SMTPException) as fault:
        smtp.close()
        raise RoadClosed(f"{type(fault).__name__}: {fault}") from fault
    except RoadClosed:
        smtp.close()
        raise
    return smtp


def stuffed(data: bytes) -> bytes:
    """The body as it goes over the wire but for the final dot: lines end in CRLF, leading dots are doubled."""
    lines = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    return b"".join((b"." + line if line.startswith(b".") else line) + b"\r\n" for line in lines)
