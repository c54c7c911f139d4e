"""Runs the org as a process: listens, says where, and on SIGTERM stops at once without losing what it has answered."""

import asyncio
import signal
import socket
import sys
from types import FrameType

import uvicorn
from starlette.applications import Starlette
from starlette.routing import Route

from crmsync.sandbox import admin, bulk1, data, login, soap_login
from crmsync.sandbox.automation import BadAutomation
from crmsync.sandbox.background import Writers
from crmsync.sandbox.bulk_run import Runner
from crmsync.sandbox.facts import BadSetting
from crmsync.sandbox.faulty_calls import with_faults
from crmsync.sandbox.options import Options
from crmsync.sandbox.org import Org
from crmsync.sandbox.schema import BadSchema
from crmsync.sandbox.store import DirectoryInUse
from crmsync.sandbox.wire import Wire

HEADERS_MOST_BYTES = 128 * 1024
KEEP_ALIVE_S = 75
BACKLOG = 2048
METHODS = ["GET", "POST", "PATCH", "PUT", "DELETE"]


def serve(options: Options) -> int:
    """Run until SIGTERM or SIGINT. Returns the exit code: 0 stopped, 1 could not start (the reason is on stderr)."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _ignore)  # uvicorn raises the signal again after its own handler has stopped it
    try:
        asyncio.run(_run(options))
    except (DirectoryInUse, OSError, BadSetting, BadAutomation, BadSchema) as error:
        print(f"sandbox org cannot start: {error}", file=sys.stderr)
        return 1
    return 0


def application(org: Org) -> Starlette:
    """The HTTP side of the org."""
    routes = [
        Route("/services/oauth2/token", with_faults(login.token), methods=["POST"]),
        Route("/services/oauth2/revoke", login.revoke, methods=["POST"]),
        Route("/services/oauth2/userinfo", with_faults(login.user_info), methods=["GET", "POST"]),
        Route("/services/Soap/u/{rest:path}", with_faults(soap_login.login), methods=["POST"]),
        Route("/services/data", with_faults(data.versions), methods=["GET"]),
        Route("/services/data/", with_faults(data.versions), methods=["GET"]),
        Route("/services/data/{rest:path}", with_faults(data.data), methods=METHODS),
        Route("/services/async/{rest:path}", with_faults(bulk1.endpoint), methods=METHODS),
        *admin.ROUTES,
    ]
    app = Starlette(routes=routes)
    app.state.org = org
    return app


class _Server(uvicorn.Server):
    """uvicorn, which also says where it listens and sends away whoever waits when it is told to stop."""

    def __init__(self, config: uvicorn.Config, org: Org, address: str) -> None:
        super().__init__(config)
        self._org = org
        self._address = address

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        print(f"sandbox org listening on {self._address}", flush=True)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        asyncio.get_running_loop().call_soon_threadsafe(self._org.stop)


async def _run(options: Options) -> None:
    listener = socket.create_server((options.host, options.port), backlog=BACKLOG)
    try:
        host, port = listener.getsockname()[:2]
        org = Org(options)
        org.attach(Runner(org), Writers(org))
        await org.open()
        org.runner.resume()
        config = uvicorn.Config(
            application(org),
            http=Wire,
            ws="none",
            lifespan="off",
            log_level="warning",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE_S,
            h11_max_incomplete_event_size=HEADERS_MOST_BYTES,
        )
        await _Server(config, org, f"http://{host}:{port}").serve(sockets=[listener])
        await org.close()
    finally:
        listener.close()


def _ignore(number: int, frame: FrameType | None) -> None:
    pass
