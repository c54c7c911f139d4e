"""Which way mail leaves: a relay over SMTP, or a hosted provider's HTTP API. Both keep one contract."""

from typing import Protocol

from django.conf import settings

from outreach.mail.compose import Mail
from outreach.mail.hosted import Hosted
from outreach.mail.outcome import Outcome
from outreach.mail.smtp import Relay


class Road(Protocol):
    """Ready before the gate, hands over after it, and never raises there. `is_open`: to be ready takes no time."""

    @property
    def is_open(self) -> bool: ...

    def ready(self) -> None: ...

    def takes(self, mail: Mail) -> bool: ...

    def hand_over(self, mail: Mail) -> Outcome: ...


def configured() -> bool:
    """Whether there is a way at all."""
    return bool(settings.EMAIL_HOST or settings.EMAIL_PROVIDER)


def chosen_road() -> Relay | Hosted:
    """The way that the settings name; use as a context."""
    return Hosted() if settings.EMAIL_PROVIDER else Relay()
