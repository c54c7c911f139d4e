"""The org's memory: one SQLite file with a table for each object and a journal; what is answered is on disk.

Writes go through one thread that puts everything waiting into one disk commit. Single records are read on the event
loop (tens of microseconds); queries, which may scan, run on a thread of their own. Both see committed data only.
"""

import asyncio
import fcntl
import json
import sqlite3
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from crmsync.sandbox.schema import Field, Schema, SObject

Record = dict[str, Any]

SQL_TYPES = {"boolean": "INTEGER", "int": "INTEGER", "double": "REAL", "currency": "REAL", "percent": "REAL"}
NO_CASE = {"string", "textarea", "email", "phone", "url", "picklist"}


class DirectoryInUse(Exception):
    """Another org runs on this data directory; its locks would not be ours."""


class Batched(NamedTuple):
    """A bulk job or batch as it is kept: which of the two, its number, what is known of it, what was uploaded if
    new."""

    kind: str
    number: int
    text: str
    upload: bytes | None


class Result(NamedTuple):
    """What became of neighbouring rows of a batch, from the place of the first."""

    batch_id: str
    place: int
    text: str


@dataclass
class Writes:
    """What is committed together: whole records, the transaction's line of the journal, a token with its end, bulk jobs
    and batches, results of their rows, the numbers of jobs and batches to be forgotten.

    `wipe` removes all records, jobs and the journal first.
    """

    records: list[tuple[SObject, Record]] = field(default_factory=list)
    journal: tuple[int, str] | None = None
    session: tuple[str, float] | None = None
    batched: list[Batched] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    forgotten: list[int] = field(default_factory=list)
    wipe: bool = False


class Store:
    """Open with the directory; `close` when done. Raises DirectoryInUse."""

    def __init__(self, directory: Path, schema: Schema) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._guard = (directory / "in-use").open("w")
        try:
            fcntl.flock(self._guard, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._guard.close()
            raise DirectoryInUse(f"another sandbox org runs on {directory}") from None
        self._path = directory / "org.sqlite3"
        self._schema = schema
        self._write = self._connect()
        _create(self._write, schema)
        self._read = self._connect()
        self._scan = self._connect()
        self._writer = ThreadPoolExecutor(1, "commit")
        self._scanner = ThreadPoolExecutor(1, "query")
        self._pending: list[tuple[Writes, asyncio.Future[None]]] = []
        self._flushing: asyncio.Task[None] | None = None

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        return connection

    def get(self, sobject: SObject, record_id: str) -> Record | None:
        """The record with this 18-character id, deleted or not."""
        row = self._read.execute(f'{_select_sql(sobject)} WHERE "Id" = ?', (record_id,)).fetchone()
        return None if row is None else dict(zip(sobject.fields, row, strict=True))

    def ids_with(self, sobject: SObject, by: Field, value: Any) -> list[str]:
        """The ids of the records that are not deleted and have this value; text is compared without regard to case."""
        sql = f'SELECT "Id" FROM "{sobject.name}" WHERE "{by.name}" = ? AND NOT "IsDeleted" ORDER BY "Id"'
        return [row[0] for row in self._read.execute(sql, (value,))]

    def was_deleted(self, sobject: SObject, by: Field, value: Any) -> bool:
        """Whether a deleted record has this value."""
        sql = f'SELECT 1 FROM "{sobject.name}" WHERE "{by.name}" = ? AND "IsDeleted"'
        return self._read.execute(sql, (value,)).fetchone() is not None

    def count(self) -> int:
        """How many records there are that are not deleted."""
        total = 0
        for name in self._schema.objects:
            total += self._read.execute(f'SELECT count(*) FROM "{name}" WHERE NOT "IsDeleted"').fetchone()[0]
        return total

    def ids_of(self, sobject: SObject) -> list[str]:
        """The ids of all records that are not deleted."""
        return [row[0] for row in self._read.execute(f'SELECT "Id" FROM "{sobject.name}" WHERE NOT "IsDeleted"')]

    def highest_id(self, sobject: SObject) -> str | None:
        highest: str | None = self._read.execute(f'SELECT max("Id") FROM "{sobject.name}"').fetchone()[0]
        return highest

    def records(self, sobject: SObject) -> list[Record]:
        """All records of the object that are not deleted, in id order."""
        rows = self._read.execute(f'{_select_sql(sobject)} WHERE NOT "IsDeleted" ORDER BY "Id"')
        return [dict(zip(sobject.fields, row, strict=True)) for row in rows]

    async def query(self, sql: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
        """All rows of a SELECT, read on the query thread."""

        def fetch() -> list[tuple[Any, ...]]:
            return self._scan.execute(sql, parameters).fetchall()

        return await asyncio.get_running_loop().run_in_executor(self._scanner, fetch)

    def journal(self, after: int, limit: int) -> list[Record]:
        """Entries of the journal in the order they ended, each with its `seq`, from the first beyond `after`."""
        sql = "SELECT seq, entry FROM journal WHERE seq > ? ORDER BY seq LIMIT ?"
        return [{"seq": seq, **json.loads(entry)} for seq, entry in self._read.execute(sql, (after, limit))]

    def highest_transaction(self) -> int:
        number: int = self._read.execute("SELECT coalesce(max(number), 0) FROM journal").fetchone()[0]
        return number

    def sessions(self) -> dict[str, float]:
        return dict(self._read.execute("SELECT token, expires_at FROM session"))

    def batched(self) -> list[tuple[str, int, str, bytes]]:
        """The bulk jobs and batches, in the order in which they were made."""
        return list(self._read.execute("SELECT kind, number, text, upload FROM batched ORDER BY number"))

    def results(self, batch_id: str) -> list[tuple[int, str]]:
        return list(self._read.execute("SELECT place, text FROM result WHERE batch_id = ?", (batch_id,)))

    async def commit(self, writes: Writes) -> None:
        """Return when the writes are on disk, all of them or none. Commits that wait together share one disk commit."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._pending.append((writes, done))
        if self._flushing is None or self._flushing.done():
            self._flushing = asyncio.create_task(self._flush())
        await done

    async def _flush(self) -> None:
        while self._pending:
            batch, self._pending = self._pending, []
            loop = asyncio.get_running_loop()
            try:
                await loop.run_in_executor(self._writer, self._write_all, [writes for writes, _ in batch])
            except Exception as error:  # whatever it was, those who wait must hear of it
                for _, done in batch:
                    done.set_exception(error)
            else:
                for _, done in batch:
                    done.set_result(None)

    def _write_all(self, batch: Iterable[Writes]) -> None:
        with self._write:
            self._write.execute("BEGIN IMMEDIATE")
            for writes in batch:
                if writes.wipe:
                    for table in (*self._schema.objects, "journal", "batched", "result"):
                        self._write.execute(f'DELETE FROM "{table}"')
                for sobject, record in writes.records:
                    self._write.execute(_upsert_sql(sobject), tuple(record[name] for name in sobject.fields))
                if writes.journal:
                    self._write.execute("INSERT INTO journal (number, entry) VALUES (?, ?)", writes.journal)
                for batched in writes.batched:
                    self._write.execute(
                        "INSERT INTO batched (kind, number, text, upload) VALUES (?, ?, ?, ?) "
                        "ON CONFLICT (number) DO UPDATE SET text = excluded.text",
                        batched,
                    )
                for result in writes.results:
                    self._write.execute("INSERT INTO result (batch_id, place, text) VALUES (?, ?, ?)", result)
                for number in writes.forgotten:
                    self._write.execute("DELETE FROM batched WHERE number = ?", (number,))
                if writes.session:
                    self._write.execute(
                        "INSERT OR REPLACE INTO session (token, expires_at) VALUES (?, ?)", writes.session
                    )

    async def close(self) -> None:
        if self._flushing is not None:
            await self._flushing
        self._writer.shutdown()
        self._scanner.shutdown()
        for connection in (self._write, self._read, self._scan):
            connection.close()
        self._guard.close()


@cache
def _select_sql(sobject: SObject) -> str:
    names = ", ".join(f'"{name}"' for name in sobject.fields)
    return f'SELECT {names} FROM "{sobject.name}"'


@cache
def _upsert_sql(sobject: SObject) -> str:
    names = ", ".join(f'"{name}"' for name in sobject.fields)
    marks = ", ".join("?" for _ in sobject.fields)
    changes = ", ".join(f'"{name}" = excluded."{name}"' for name in sobject.fields)
    return f'INSERT INTO "{sobject.name}" ({names}) VALUES ({marks}) ON CONFLICT ("Id") DO UPDATE SET {changes}'


def _create(connection: sqlite3.Connection, schema: Schema) -> None:
    """Make what is missing: tables, columns that the schema gained, indexes of ids that people look up by."""
    connection.execute(
        "CREATE TABLE IF NOT EXISTS journal (seq INTEGER PRIMARY KEY AUTOINCREMENT, number INTEGER, entry TEXT)"
    )
    connection.execute("CREATE TABLE IF NOT EXISTS session (token TEXT PRIMARY KEY, expires_at REAL)")
    connection.execute(
        "CREATE TABLE IF NOT EXISTS batched (number INTEGER PRIMARY KEY, kind TEXT, text TEXT, upload BLOB)"
    )
    connection.execute(
        "CREATE TABLE IF NOT EXISTS result (batch_id TEXT, place INTEGER, text TEXT, PRIMARY KEY (batch_id, place))"
    )
    for sobject in schema.objects.values():
        connection.execute(f'CREATE TABLE IF NOT EXISTS "{sobject.name}" ("Id" TEXT PRIMARY KEY) WITHOUT ROWID')
        have = {row[1] for row in connection.execute(f'PRAGMA table_info("{sobject.name}")')}
        for known in sobject.fields.values():
            if known.name not in have:
                collate = " COLLATE NOCASE" if known.type in NO_CASE else ""
                sql_type = SQL_TYPES.get(known.type, "TEXT")
                connection.execute(f'ALTER TABLE "{sobject.name}" ADD COLUMN "{known.name}" {sql_type}{collate}')
            if known in sobject.sought:
                unique = "UNIQUE " if known.unique else ""
                connection.execute(
                    f'CREATE {unique}INDEX IF NOT EXISTS "{sobject.name}_{known.name}" '
                    f'ON "{sobject.name}" ("{known.name}") WHERE NOT "IsDeleted"'
                )
