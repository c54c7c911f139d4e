"""The usual ways to write many rows: chunks as they come, or sorted by parent, by several workers or by one.

Each sends what is left, waits a little longer after every failure (with jitter), and tries the failed rows again.
"""

import random
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from queue import Empty, Queue

from crmsync.direct import Row, Target, write
from crmsync.errors import CallFailed
from crmsync.gateway import connect
from crmsync.mapping import MAPPING, body
from tests.bench._workloads import CHUNK, Contact

TRIES_MOST = 30


@dataclass
class Told:
    """`wasted`: row attempts that failed."""

    seconds: float = 0.0
    landed: int = 0
    wasted: int = 0
    faults: list[str] = field(default_factory=list)


def send_all(rows: Sequence[Contact], *, workers: int, scale: float) -> Told:
    """Write the rows in chunks of 200, in their order, by so many threads; until all have landed."""
    told, lock, left = Told(), threading.Lock(), [len(rows)]
    work: Queue[tuple[Sequence[Contact], int]] = Queue()
    for start in range(0, len(rows), CHUNK):
        work.put((rows[start : start + CHUNK], 0))

    def run() -> None:
        chance = random.Random(threading.get_ident())
        while left[0] > 0 and not told.faults:
            try:
                chunk, tries = work.get(timeout=0.05)
            except Empty:
                continue
            try:
                failed = send(chunk)
            except CallFailed as fault:
                told.faults.append(str(fault))
                return
            except BaseException:
                left[0] = 0  # the others go home, too; our own mistakes are no figures
                raise
            with lock:
                told.landed += len(chunk) - len(failed)
                left[0] -= len(chunk) - len(failed)
                told.wasted += len(failed)
            if failed:
                if tries + 1 >= TRIES_MOST:
                    told.faults.append(f"{len(failed)} rows failed {TRIES_MOST} times")
                    return
                time.sleep(chance.uniform(0, min(60, 2 * 2**tries)) * scale)
                work.put((failed, tries + 1))

    began = time.perf_counter()
    with ThreadPoolExecutor(workers) as pool:
        for done in [pool.submit(run) for _ in range(workers)]:
            done.result()
    told.seconds = time.perf_counter() - began
    return told


def send(chunk: Sequence[Contact]) -> list[Contact]:
    """Write one chunk; the rows that failed."""
    rows = [
        Row(
            row.key,
            body(
                table=MAPPING["Contact"],
                fields=row.fields,
                parents=[{"relation": "Account", "object": "Account", "external_id": row.account}],
                external_id_field="Rota_Id__c",
                creating=True,
            ),
        )
        for row in chunk
    ]
    headers = {"Sforce-Call-Options": "client=naive"}
    results = write(connect(), Target("Contact", "upsert", "Rota_Id__c"), rows, headers=headers)
    return [row for row, result in zip(chunk, results, strict=True) if result.fault is not None]
