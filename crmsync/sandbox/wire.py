"""The connections under the HTTP server, so that one can be cut in the middle of a call, as a network does."""

import asyncio
import socket

from uvicorn.protocols.http.h11_impl import H11Protocol

Address = tuple[str, int]

_open: dict[Address, "Wire"] = {}


class Wire(H11Protocol):
    """uvicorn's own HTTP/1.1, which here remembers its open connections by the client's address."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        # asyncio leaves this off for a listener that was bound elsewhere; with it off every answer took 40 ms longer.
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.is_lost = asyncio.Event()
        if self.client is not None:
            _open[self.client] = self

    def connection_lost(self, exc: Exception | None) -> None:
        if self.client is not None:
            _open.pop(self.client, None)
        self.is_lost.set()
        super().connection_lost(exc)


async def cut(client: Address) -> None:
    """Close the client's connection without a word; an answer made afterwards goes nowhere."""
    wire = _open.get(client)
    if wire is not None:
        wire.transport.abort()
        await wire.is_lost.wait()


async def finish(client: Address) -> None:
    """Close the client's connection once everything written so far is on its way."""
    wire = _open.get(client)
    if wire is not None:
        wire.transport.close()
        await wire.is_lost.wait()
