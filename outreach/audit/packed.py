"""A file as it lies there, or an unpacked copy of it for the time it is needed."""

import bz2
import gzip
import lzma
import shutil
import sys
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from outreach.errors import NotALog

PACKED: dict[bytes, Any] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ": lzma.open}
UNKNOWN = {b"\x28\xb5\x2f\xfd": "zstd -d", b"PK\x03\x04": "unzip"}
"""Packed in a way that is not read here, and what unpacks it."""
PIECE = 1 << 16


@contextmanager
def plain_file(path: Path) -> Iterator[tuple[Path, str]]:
    """The file, or standard input for `-`, unpacked; and why the packed file ends too early, or nothing.

    Raises NotALog where nothing could be unpacked; OSError.
    """
    with tempfile.TemporaryDirectory(prefix="rota-audit-") as folder:
        file, fault = path, ""
        if str(path) == "-":
            file = Path(folder) / "log"
            with open(file, "wb") as out:
                shutil.copyfileobj(sys.stdin.buffer, out)
        with open(file, "rb") as opened:
            head = opened.read(6)
        for magic, command in UNKNOWN.items():
            if head.startswith(magic):
                raise NotALog(f"{path} is packed: unpack it with `{command}` first.")
        unpack = next((opener for magic, opener in PACKED.items() if head.startswith(magic)), None)
        if unpack is not None:
            unpacked = Path(folder) / "unpacked"
            fault = unpack_to(unpacked, file, unpack)
            if fault and not unpacked.stat().st_size:
                raise NotALog(f"{path} cannot be unpacked: {fault}.")
            file = unpacked
        yield file, fault


def unpack_to(wanted: Path, path: Path, unpack: Any) -> str:
    """Unpack as much as there is; why it ends too early, or nothing."""
    with unpack(path) as packed, open(wanted, "wb") as out:
        try:
            while piece := packed.read1(PIECE):  # `read` would keep back what stands before the fault
                out.write(piece)
        except (EOFError, OSError, zlib.error, lzma.LZMAError) as fault:
            return str(fault).rstrip(".")[:120]
    return ""
