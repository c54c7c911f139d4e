"""Mail relays for tests: a real one in a process of its own that counts, and a scripted one that fails on command."""

import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

DROP = "drop"
"""A script's answer that hangs up."""
GREETING = {"connect": "220 relay.example", "ehlo": "250 relay.example", "data": "354 go on", "quit": "221 bye"}


@dataclass
class Stall:
    """A point at which a scripted relay stops: `reached` is set there, and it goes on once `go` is."""

    then: str = ""
    reached: threading.Event = field(default_factory=threading.Event)
    go: threading.Event = field(default_factory=threading.Event)


Script = Mapping[str, "str | Stall | Callable[[], str] | list[str | Stall]"]


@dataclass
class ScriptedRelay:
    """Answers each phase as the script says, or well: connect, ehlo, before_mail, mail, rcpt, data, body,
    dot, quit.

    `body` is asked before the body is read; a list is used up entry by entry; a function answers for itself. `kept` are
    the mails that it did not refuse after their last dot: those an honest relay might deliver.
    """

    script: Script = field(default_factory=dict)
    extensions: tuple[str, ...] = ()
    kept: list[str] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    connections: int = 0

    def __post_init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.port = self.listener.getsockname()[1]
        self.left = {phase: list(say) for phase, say in self.script.items() if isinstance(say, list)}
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self.listener.close()

    def _serve(self) -> None:
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._talk, args=(sock,), daemon=True).start()

    def _answer(self, phase: str) -> str:
        say = self.left[phase].pop(0) if self.left.get(phase) else self.script.get(phase, "")
        if isinstance(say, Stall):
            say.reached.set()
            say.go.wait(60)
            say = say.then
        if callable(say):
            say = say()
        return say if isinstance(say, str) else ""

    def _talk(self, sock: socket.socket) -> None:
        try:
            with sock, sock.makefile("rb") as lines:
                self._session(sock, lines)
        except OSError:
            pass

    def _session(self, sock: socket.socket, lines) -> None:  # type: ignore[no-untyped-def]
        recipient = ""

        def say(phase: str, otherwise: str = "250 ok") -> bool:
            answer = self._answer(phase) or GREETING.get(phase, otherwise)
            if answer == DROP:
                return False
            if phase == "ehlo" and answer.startswith("250 "):
                answer = "\r\n".join(("250-relay.example", *(f"250-{name}" for name in self.extensions), "250 HELP"))
            sock.sendall(answer.encode() + b"\r\n")
            return answer[0] in "23"

        if not say("connect"):
            return
        for line in lines:
            verb = line[:4].decode("ascii", "replace").strip().lower()
            self.commands.append(line.decode("utf-8", "replace").strip())
            if verb == "rcpt":
                recipient = line.decode("utf-8", "replace").partition("<")[2].partition(">")[0]
            well = say(verb)
            if verb == "ehlo":
                self._answer("before_mail")
            if verb == "data" and well:
                if self._answer("body") == DROP:
                    return
                for text in lines:
                    if text == b".\r\n":
                        break
                else:
                    return
                self.seen.append(recipient)
                self.kept.append(recipient)
                answer = self._answer("dot") or "250 queued"
                if answer == DROP:
                    return
                if answer[0] in "45":
                    self.kept.remove(recipient)
                sock.sendall(answer.encode() + b"\r\n")
            elif verb == "quit" or (not well and self._hung_up(verb)):
                return

    def _hung_up(self, verb: str) -> bool:
        return self.script.get(verb) == DROP


@contextmanager
def scripted(script: Script | None = None, *, extensions: tuple[str, ...] = ()) -> Iterator[ScriptedRelay]:
    """A scripted relay for the time of a test."""
    relay = ScriptedRelay(script or {}, extensions)
    try:
        yield relay
    finally:
        relay.close()


@dataclass(frozen=True)
class Sink:
    """A real relay in its own process: takes everything and writes a line for each mail it took."""

    port: int
    log: Path

    def deliveries(self) -> Counter[str]:
        """How often each (recipient, Message-ID) was taken, as one text."""
        return Counter(self.log.read_text().splitlines())

    def addresses(self) -> Counter[str]:
        return Counter(line.split("\t")[0] for line in self.log.read_text().splitlines())


@contextmanager
def sink(folder: Path, *, slow_ms: int = 0, seed: int = 0) -> Iterator[Sink]:
    """Run a counting relay; `slow_ms` is the longest time it takes, now before and now after it has taken a mail."""
    log = folder / "sink.log"
    log.touch()
    command = [sys.executable, "-m", "tests.outreach.sink", str(log), str(slow_ms), str(seed)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield Sink(int(process.stdout.readline()), log)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
