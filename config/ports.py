"""The ports that a running Rota listens on: free before anything starts, and kept until those start that need them."""

import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from config.processes import Wanted


class PortsTaken(Exception):
    """Some ports cannot be used; the message has a line for each, with the setting to change."""


@dataclass(frozen=True)
class Port:
    """A port, and the setting that says which it is."""

    setting: str
    host: str
    number: int


def ports_of(wanted: Wanted, *, host: str, port: int) -> list[Port]:
    """Every port of this installation: the web server's on that host, the others on this machine only."""
    found = [Port("PORT", host, port)]
    if wanted.sandbox_port is not None:
        found.append(Port("SANDBOX_PORT", "127.0.0.1", wanted.sandbox_port))
    if wanted.mailbox_port is not None:
        found.append(Port("MAILBOX_PORT", "127.0.0.1", wanted.mailbox_port))
    return found


@contextmanager
def held(ports: Sequence[Port]) -> Iterator[None]:
    """Keep the ports, so that nobody else takes one meanwhile. Raises PortsTaken."""
    with ExitStack() as stack:
        problems = []
        for position, one in enumerate(ports):
            twin = next((other for other in ports[:position] if other.number == one.number), None)
            if twin:
                problems.append(f"{twin.setting} and {one.setting} are both {one.number}. Set one of them to another.")
            elif fault := taken(one, stack):
                problems.append(fault)
        if problems:
            raise PortsTaken("\n".join(problems))
        yield


def taken(one: Port, stack: ExitStack) -> str:
    """Listen on the port for as long as the stack lasts; or why that cannot be."""
    probe = stack.enter_context(socket.socket(socket.AF_INET6 if ":" in one.host else socket.AF_INET))
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # one that was given up a moment ago is free
    try:
        probe.bind((one.host, one.number))
        probe.listen()
    except OSError as fault:
        return f"Port {one.number} of {one.host} cannot be used ({fault.strerror}). Set {one.setting} to a free one."
    return ""
