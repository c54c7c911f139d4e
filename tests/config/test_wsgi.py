"""What is loaded before the web workers are forked, and so waits for nobody's first request."""

import os
import subprocess
import sys

from config.supervise import PROJECT

PROGRAM = "import sys, config.wsgi; print({'config.urls', 'routing.views', 'outreach.api'} - set(sys.modules))"


def test_every_address_is_read_before_the_first_request() -> None:
    env = {**os.environ, "DATABASE_URL": "postgres://nobody@localhost/none", "SECRET_KEY": "x" * 50}
    told = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM], cwd=PROJECT, env=env, capture_output=True, text=True
    )
    assert told.stdout == "set()\n", told.stderr
