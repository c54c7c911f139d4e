"""How long one hand-over may take at most, and what must be longer than that."""

from django.conf import settings

PHASES = 4
"""MAIL, RCPT, DATA and the body; then comes the wait for the reply to its end."""
CONNECT_PHASES = 5
"""Connecting, greeting, EHLO, STARTTLS and EHLO again, login: done before the gate."""


def before_dot_s() -> float:
    """Seconds from the gate within which the end of the body is sent, or not at all."""
    return float(PHASES * settings.EMAIL_PHASE_TIMEOUT_S)


def longest_handover_s() -> float:
    """Seconds after which a hand-over that was begun is over, one way or the other."""
    return before_dot_s() + settings.EMAIL_REPLY_TIMEOUT_S


def longest_batch_s() -> float:
    """Seconds from claim to the end of the last hand-over: the time spent until the last gate, and what follows it."""
    return settings.SEND_BUDGET_S + CONNECT_PHASES * settings.EMAIL_PHASE_TIMEOUT_S + longest_handover_s()
