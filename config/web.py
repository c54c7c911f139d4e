"""How gunicorn serves Rota: threads for many short requests, two processes for two cores."""

import gc
import logging
import os
import signal
import threading
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

from django.conf import settings  # noqa: E402

from config.tether import die_with  # noqa: E402

logger = logging.getLogger(__name__)
REHEARSAL_S = 60

bind = f"{settings.HOST}:{settings.PORT}"
worker_class = "gthread"
workers = settings.WEB_WORKERS
threads = settings.WEB_THREADS
timeout = 30
graceful_timeout = 25
keepalive = 5
preload_app = True
control_socket_disable = True  # its default place is shared by every gunicorn of the user
errorlog = "-"


def when_ready(server: Any) -> None:
    """Leave what is loaded out of the garbage collector's rounds: the first one in each worker would copy all of it."""
    gc.freeze()


def post_fork(server: Any, worker: Any) -> None:
    """A worker that outlived its master would hold the port against the next start."""
    die_with(server.pid, signal.SIGKILL)


def post_worker_init(worker: Any) -> None:
    """Have every thread, each with its own connection, take in a lead for rehearsal before the first real one comes."""
    from routing.warm_up import rehearse

    everybody = threading.Barrier(threads, timeout=REHEARSAL_S)  # so that no thread rehearses twice

    def one() -> None:
        try:
            everybody.wait()
            rehearse()
        except Exception as fault:  # a server without a database still says so by /readyz
            logger.warning("rehearsal failed fault=%s", type(fault).__name__)

    for done in [worker.tpool.submit(one) for _ in range(threads)]:
        done.result()
