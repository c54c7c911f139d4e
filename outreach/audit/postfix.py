"""Postfix's log: several lines for each queue id, over several daemons, and over files that were rotated meanwhile.

Who the mail is for and what became of it stand in a delivery line; its Message-ID, sender and client in others that may
lie in another file. So lines are taken one by one, and joined by host, queue id and time when all are read.
"""

import re
from collections.abc import Iterator

from outreach.audit.sightings import BadLine, Queued, Sighting, State, bare, key_of
from outreach.audit.times import Clock

LINE = re.compile(
    r"(?:\S+ +\| +|\S+ std(?:out|err) [FP] )?"  # containers put these before each line
    r"(?:<\d+>\d? ?)?"
    r"(?P<at>[A-Z][a-z]{2} +\d{1,2} (?:\d{4} )?\d\d:\d\d:\d\d(?:\.\d+)?(?: \d{4})?"
    r"|(?:[A-Z][a-z]{2} )?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d| [A-Z]{3,4}\b)?)"
    r":? (?:(?P<host>[^\s\[]+) )?(?:(?P<program>[^\s\[:]+)(?:\[\d+\])?: "
    r"|(?P<plain>\S+) (?:\d+|-) \S+ (?:-|\[.*?\]) )(?:\ufeff)?(?P<rest>.*)"  # RFC 5424 has fields instead of a colon
)
BETWEEN_BOOTS = re.compile(r"-- .*(?:--|cursor: .*)$")
"""What journalctl says between the lines."""
ZONED = re.compile(r"^[A-Z][a-z]{2} (?=\d{4}-)| [A-Z]{3,4}$")
"""The day of the week, and a zone by its letters, which is taken for the one that is asked for."""
QUEUE_ID = re.compile(r"(?:\[ID \d+ \S+\] )?(?P<queue>[0-9A-Za-z]{5,20}): (?P<rest>.*)")
RECIPIENT = re.compile(r"to=<(?P<to>[^>]*)>(?:, orig_to=<(?P<orig_to>[^>]*)>)?")
STATUS = re.compile(r", status=(?P<status>[\w-]+)(?: \((?P<reply>.*)\))?")
QUEUED_AS = re.compile(r"queued as ([0-9A-Za-z]+)")
FACTS = {
    "mail_id": re.compile(r"(?:resent-)?message-id=(?P<value>.*)"),
    "sender": re.compile(r"from=<(?P<value>[^>]*)>"),
    "client": re.compile(r"client=(?:unknown\[)?(?P<value>[^,\s\[\]]+)"),
    "removed": re.compile(r"(?P<value>)removed$"),
}
STATES: dict[str, State | None] = {
    "sent": "delivered",
    "deferred": "deferred",
    "bounced": "bounced",
    "expired": "bounced",
    "undeliverable": None,  # an address that is probed, without a mail
    "deliverable": None,
    "softbounce": "deferred",
    "SOFTBOUNCE": "deferred",
}


def is_line(text: str) -> bool:
    """Whether this is a line of a system log."""
    return LINE.match(text) is not None


def is_ours(text: str) -> bool:
    """Whether it is a line of Postfix."""
    line = LINE.match(text)
    return line is not None and program_of(line).startswith("postfix")


def program_of(line: re.Match[str]) -> str:
    return line["program"] or line["plain"]


def read_line(text: str, clock: Clock) -> Iterator[Sighting | Queued]:
    """What one line says; nothing where it is about something else. Raises BadLine."""
    line = LINE.match(text)
    if line is None:
        if BETWEEN_BOOTS.match(text):
            return
        raise BadLine("no line of a system log")
    if not program_of(line).startswith("postfix"):
        return
    found = QUEUE_ID.fullmatch(line["rest"])
    if found is None or found["queue"] == "NOQUEUE":
        if "status=" in line["rest"] and "to=<" in line["rest"]:
            raise BadLine("a delivery without a queue id")
        return
    at = time_of(line["at"], clock)
    host, queue, rest = line["host"] or "", found["queue"], found["rest"]
    if rest.startswith("to=<"):
        yield from delivery(rest, program=program_of(line), host=host, queue=queue, at=at)
        return
    if rest.startswith("from=<") and "status=expired" in rest:
        return  # returned to its sender: the deliveries before said deferred
    for fact, pattern in FACTS.items():
        if said := pattern.match(rest):
            value = bare(said["value"]) if fact == "mail_id" else said["value"]
            yield Queued(host, queue, at, fact, value)  # type: ignore[arg-type]
            return


def time_of(text: str, clock: Clock) -> float:
    try:
        text = text.replace(",", ".")
        return clock.syslog(ZONED.sub("", text.replace(" UTC", "+00:00").replace(" GMT", "+00:00")))
    except ValueError:
        raise BadLine(f"{text} is no time") from None


def delivery(rest: str, *, program: str, host: str, queue: str, at: float) -> Iterator[Sighting]:
    """What became of a mail for one recipient, this time."""
    to, status = RECIPIENT.match(rest), STATUS.search(rest)
    if to is None or status is None:
        raise BadLine("a delivery without recipient or status")
    if status["status"] not in STATES:
        raise BadLine(f"status={status['status']} is unknown")
    state = STATES[status["status"]]
    if state is None:
        return
    if state == "delivered" and program.endswith("/discard"):
        state = "dropped"
    try:
        address = key_of(to["orig_to"] or to["to"])
    except BadLine:
        address = key_of(to["to"])  # an alias such as root is no address
    onward = QUEUED_AS.findall(status["reply"] or "")
    yield Sighting(
        address=address,
        state=state,
        road="postfix",
        at=at,
        handle=queue,
        host=host,
        onward=onward[-1] if onward else "",
    )
