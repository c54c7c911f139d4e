"""Keep every process of a running Rota alive, with supervisor: whatever dies is started again.

`python -m config.supervise CONFIG` is the supervisor itself, in the foreground. The table of processes is
`config/processes.py`; each is tethered to the supervisor, so that a kill -9 of it leaves nothing behind.
"""

import os
import shlex
import signal
import sys
from pathlib import Path
from typing import NoReturn

import psutil

from config.processes import Process

PROJECT = Path(__file__).resolve().parent.parent
RUN = PROJECT / "var" / "run"
LOGS = PROJECT / "var" / "log"
FOR_EVER = 1_000_000  # starts; supervisor waits one second longer after each that failed
STOP_SECONDS_MOST = 120

HEAD = """\
[supervisord]
nodaemon = true
silent = true
user = {user}
directory = {project}
pidfile = {run}/supervisord.pid
logfile = {logs}/supervisord.log
childlogdir = {logs}
logfile_maxbytes = 5MB
logfile_backups = 1

[group:rota]
programs = {names}
"""
# q2's clean stop wants SIGTERM at its main process only, so no stopasgroup; and a main process may exit 0 when its
# sentinel dies, so a restart must not depend on the exit code.
PROGRAM = """
[program:{name}]
command = {command}
environment = {environment}
priority = {priority}
autorestart = true
startsecs = 1
startretries = {for_ever}
stopsignal = TERM
stopwaitsecs = {stop_seconds}
killasgroup = true
redirect_stderr = true
stdout_logfile = {logs}/{name}.log
stdout_logfile_maxbytes = 5MB
stdout_logfile_backups = 1
"""


def configuration(table: list[Process], supervisor: int | str, run: Path = RUN, logs: Path = LOGS) -> str:
    """supervisord's configuration for these processes, to be run by the process with the pid `supervisor`."""

    def plain(value: object) -> str:
        return str(value).replace("%", "%%")  # supervisor expands %(name)s

    names = ",".join(process.name for process in table)
    text = HEAD.format(user=os.geteuid(), project=plain(PROJECT), run=plain(run), logs=plain(logs), names=names)
    for priority, process in enumerate(table):
        command = shlex.join((sys.executable, "-m", "config.tether", str(supervisor), *process.command))
        environment = ",".join(f'{name}="{plain(value)}"' for name, value in process.environment.items())
        text += PROGRAM.format(
            name=process.name,
            command=plain(command),
            environment=environment,
            priority=priority,
            for_ever=FOR_EVER,
            stop_seconds=process.stop_seconds,
            logs=plain(logs),
        )
    return text


def become_supervisor(table: list[Process]) -> NoReturn:
    """Replace this process by the supervisor of these processes."""
    for folder in (RUN, LOGS):
        folder.mkdir(parents=True, exist_ok=True)
    path = RUN / "supervisord.conf"
    path.write_text(configuration(table, os.getpid()))
    os.chdir(PROJECT)
    os.execv(sys.executable, [sys.executable, "-m", "config.supervise", str(path)])


def supervisor(run: Path = RUN) -> psutil.Process | None:
    """The supervisor that runs here now, by its pid file, if that pid is really it."""
    try:
        found = psutil.Process(int((run / "supervisord.pid").read_text()))
        return found if found.cmdline()[1:] == ["-m", "config.supervise", str(run / "supervisord.conf")] else None
    except (OSError, ValueError, psutil.Error):
        return None


def stop(run: Path = RUN) -> bool:
    """Stop the supervisor and all its processes, cleanly; False where none runs. Waits STOP_SECONDS_MOST at most."""
    running = supervisor(run)
    if running is None:
        return False
    running.terminate()
    try:
        running.wait(STOP_SECONDS_MOST)
    except psutil.TimeoutExpired:
        running.kill()  # the tether takes the rest with it
    return True


def main(path: str) -> None:
    from supervisor import options, supervisord

    set_signals = options.ServerOptions.setsignals

    def setsignals(self: options.ServerOptions) -> None:
        set_signals(self)
        signal.signal(signal.SIGHUP, lambda *_: os.kill(os.getpid(), signal.SIGTERM))

    options.ServerOptions.setsignals = setsignals  # type: ignore[method-assign]
    # a closed terminal stops Rota; supervisor would restart everything
    supervisord.main(["-c", path])


if __name__ == "__main__":
    main(sys.argv[1])
