"""Logins: who shows the client's id and secret gets a token that is good for a while, also across a restart."""

import secrets
import time
from collections import deque

from crmsync.sandbox.facts import Facts
from crmsync.sandbox.options import Options
from crmsync.sandbox.store import Store, Writes

ORG_ID = "00D5R0000000001"


HOUR_S = 3_600.0


class TooManyLogins(Exception):
    """More logins in an hour than the setting `logins_an_hour_most` allows."""


class Sessions:
    """The tokens that were given out, with the wall clock second at which each expires."""

    def __init__(self, store: Store, options: Options, facts: Facts) -> None:
        self._store = store
        self._options = options
        self._facts = facts
        self._users: dict[str, str] = {}
        self._logins: deque[float] = deque()
        self._expires_at = store.sessions()

    def knows_client(self, client_id: str, client_secret: str) -> bool:
        right_id = secrets.compare_digest(client_id.encode(), self._options.client_id.encode())
        return secrets.compare_digest(client_secret.encode(), self._options.client_secret.encode()) and right_id

    async def open(self, user: str) -> str:
        """A new token for the user with this id, on disk before it is given out. Raises TooManyLogins."""
        most, now = self._facts.logins_an_hour_most, time.monotonic()
        while self._logins and self._logins[0] <= now - HOUR_S * self._options.scale:
            self._logins.popleft()
        if 0 < most <= len(self._logins):
            raise TooManyLogins
        self._logins.append(now)
        token = f"{ORG_ID}!{secrets.token_urlsafe(48)}"
        self._users[token] = user
        self._expires_at[token] = time.time() + self._options.token_ttl
        await self._store.commit(Writes(session=(token, self._expires_at[token])))
        return token

    def user(self, token: str) -> str | None:
        """The id of the user who logged in; None for a token from before a restart."""
        return self._users.get(token)

    def restore(self) -> None:
        """Forget how many logins there were."""
        self._logins.clear()

    def is_good(self, token: str) -> bool:
        return self._expires_at.get(token, 0.0) > time.time()

    async def expire(self, token: str) -> None:
        """End a token before its time; a token that was never given out changes nothing."""
        if token in self._expires_at:
            self._expires_at[token] = 0.0
            await self._store.commit(Writes(session=(token, 0.0)))
