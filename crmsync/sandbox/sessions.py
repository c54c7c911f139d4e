"""Logins: who shows the client's id and secret gets a token that is good for a while, also across a restart."""

import secrets
import time

from crmsync.sandbox.options import Options
from crmsync.sandbox.store import Store, Writes

ORG_ID = "00D5R0000000001"


class Sessions:
    """The tokens that were given out, with the wall clock second at which each expires."""

    def __init__(self, store: Store, options: Options) -> None:
        self._store = store
        self._options = options
        self._expires_at = store.sessions()

    def knows_client(self, client_id: str, client_secret: str) -> bool:
        right_id = secrets.compare_digest(client_id.encode(), self._options.client_id.encode())
        return secrets.compare_digest(client_secret.encode(), self._options.client_secret.encode()) and right_id

    async def open(self) -> str:
        """A new token, on disk before it is given out."""
        token = f"{ORG_ID}!{secrets.token_urlsafe(48)}"
        self._expires_at[token] = time.time() + self._options.token_ttl
        await self._store.commit(Writes(session=(token, self._expires_at[token])))
        return token

    def is_good(self, token: str) -> bool:
        return self._expires_at.get(token, 0.0) > time.time()

    async def expire(self, token: str) -> None:
        """End a token before its time; a token that was never given out changes nothing."""
        if token in self._expires_at:
            self._expires_at[token] = 0.0
            await self._store.commit(Writes(session=(token, 0.0)))
