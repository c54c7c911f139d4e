"""The local mailbox: where campaign mail goes while no relay is set, to be looked at instead of sent.

`python -m config.mailbox --port PORT --folder FOLDER` listens on this machine only and keeps each mail in a Maildir,
one file for each recipient, on disk before it answers 250. Nothing goes on from there.
"""

import argparse
import asyncio
import contextlib
import mailbox
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from email import policy
from email.message import EmailMessage
from email.parser import BytesHeaderParser, BytesParser
from pathlib import Path
from typing import Any

HOST = "127.0.0.1"
READ_MOST = 1_000_000
"""Bytes of a mail that are read for a page."""


class Keeping:
    """What aiosmtpd asks at the end of each mail."""

    def __init__(self, folder: Path) -> None:
        for part in ("tmp", "new", "cur"):
            (folder / part).mkdir(parents=True, exist_ok=True)
        self.box = mailbox.Maildir(folder)

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        for recipient in envelope.rcpt_tos:
            top = f"Return-Path: <{envelope.mail_from}>\r\nDelivered-To: {recipient}\r\n"
            self.box.add(top.encode() + envelope.content)  # written, synced, and only then given its name
        return "250 kept, not sent"


async def serve(*, port: int, folder: Path) -> None:
    """Take mail until cancelled."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # aiosmtpd warns of what it imports
        from aiosmtpd.smtp import SMTP

    keeping, loop = Keeping(folder), asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: SMTP(keeping, enable_SMTPUTF8=True, hostname="mailbox.localhost", ident="Rota's mailbox", loop=loop),
        HOST,
        port,
    )
    print(f"listening on {HOST}:{server.sockets[0].getsockname()[1]}, keeping mails in {folder}", flush=True)
    await server.serve_forever()


@dataclass(frozen=True)
class Kept:
    """A mail that came in: its file's name, when, to whom and what its headers say."""

    name: str
    at: datetime
    to: str
    sender: str
    subject: str
    mail_id: str


def newest(folder: Path, *, most: int | None = None) -> Iterator[Kept]:
    """The mails in the mailbox, the newest first."""
    files = [(file.stat().st_mtime_ns, file) for file in (folder / "new").glob("*")]
    for written, file in sorted(files, reverse=True)[:most]:
        with open(file, "rb") as lines:
            mail = BytesHeaderParser(policy=policy.default).parse(lines)
        yield Kept(
            name=file.name,
            at=datetime.fromtimestamp(written / 1e9, UTC),
            to=str(mail["Delivered-To"] or ""),
            sender=str(mail["From"] or ""),
            subject=str(mail["Subject"] or ""),
            mail_id=str(mail["Message-ID"] or ""),
        )


def how_many(folder: Path) -> int:
    """Mails in the mailbox."""
    return sum(1 for _ in (folder / "new").glob("*"))


def text_of(folder: Path, name: str) -> tuple[list[tuple[str, str]], str] | None:
    """Headers and text of one mail; None where there is no file of that name."""
    file = folder / "new" / name
    if file.parent != folder / "new" or Path(name).name != name or not file.is_file():
        return None
    with open(file, "rb") as data:
        mail = BytesParser(_class=EmailMessage, policy=policy.default).parsebytes(data.read(READ_MOST))
    body = mail.get_body(("plain", "html"))
    return [(key, str(value)) for key, value in mail.items()], str(body.get_content()) if body else ""


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    given = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(port=given.port, folder=given.folder))
