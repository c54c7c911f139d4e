"""A relay that takes every mail and writes down that it did, before it says so. Run as a process, port on stdout."""

import asyncio
import random
import sys
import warnings
from email.parser import BytesHeaderParser
from typing import IO, Any

warnings.simplefilter("ignore")

from aiosmtpd.smtp import SMTP, Envelope, Session  # noqa: E402 - it warns while it is imported


class Taking:
    """Counts at the end of the body; waits a little before or after, so that a kill may fall on either side."""

    def __init__(self, log: IO[str], slow_ms: int, seed: int) -> None:
        self.log, self.slow_ms, self.random = log, slow_ms, random.Random(seed)

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        early = self.random.random() < 0.5
        wait_s = self.random.random() * self.slow_ms / 1_000
        if self.slow_ms and early:
            await asyncio.sleep(wait_s)
        content: Any = envelope.content
        mail_id = BytesHeaderParser().parsebytes(content)["Message-ID"]
        for recipient in envelope.rcpt_tos:
            self.log.write(f"{recipient}\t{mail_id}\n")
        self.log.flush()
        if self.slow_ms and not early:
            await asyncio.sleep(wait_s)
        return "250 taken"


async def main(path: str, slow_ms: int, seed: int) -> None:
    with open(path, "a") as log:
        taking = Taking(log, slow_ms, seed)
        loop = asyncio.get_running_loop()
        server = await loop.create_server(
            lambda: SMTP(taking, enable_SMTPUTF8=True, hostname="sink.example", loop=loop), "127.0.0.1", 0
        )
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
