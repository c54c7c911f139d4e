"""How gunicorn serves Rota: threads for many short requests, two processes for two cores."""

import os
import signal
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

from django.conf import settings  # noqa: E402

from config.tether import die_with  # noqa: E402

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


def post_fork(server: Any, worker: Any) -> None:
    """A worker that outlived its master would hold the port against the next start."""
    die_with(server.pid, signal.SIGKILL)
