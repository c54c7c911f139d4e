"""Keep files of leads where every process of this host finds them, under the digest of their bytes."""

import hashlib
import os
import tempfile
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path

from django.conf import settings
from django.db.models import Q
from django.utils import timezone

from crmsync.csvfile import Table, Unreadable, open_table
from routing import columns
from routing.errors import BadFile
from routing.models import Import

MB = 1 << 20
NEW, OLD = ".new-", ".old-"
"""What names of files begin with that are not there yet, or not any more."""


def folder() -> Path:
    """Where files are kept: IMPORT_DIR."""
    return Path(settings.BASE_DIR) / settings.IMPORT_DIR


def keep(pieces: Iterable[bytes]) -> tuple[str, Path]:
    """Write a file and return its digest and path. It is there whole or not at all, whatever dies meanwhile.

    Raises BadFile if it is larger than IMPORT_MOST_MB.
    """
    home = folder()
    home.mkdir(parents=True, exist_ok=True)
    digest, size = hashlib.sha256(), 0
    with tempfile.NamedTemporaryFile(dir=home, prefix=NEW, delete=False) as file:
        try:
            for piece in pieces:
                size += len(piece)
                if size > settings.IMPORT_MOST_MB * MB:
                    raise BadFile(f"The file is larger than {settings.IMPORT_MOST_MB} MB. Split it.")
                digest.update(piece)
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        except BaseException:
            os.unlink(file.name)
            raise
    path = path_of(digest.hexdigest())
    os.replace(file.name, path)
    return digest.hexdigest(), path


def keep_copy(path: Path) -> tuple[str, Path]:
    """Keep a copy of a file of this machine. Raises OSError, BadFile."""
    with path.open("rb") as file:
        return keep(iter(lambda: file.read(MB), b""))


def prune(*, days: int) -> int:
    """Delete files that were kept more than so many days ago and that no import still reads; return how many.

    An import that has not ended, or that failed and can be resumed, keeps its file; one that has ended, for so many
    days. Its verdicts stay.
    """
    before = timezone.now() - timedelta(days=days)
    old = {path.stem: path for path in folder().glob("*.csv") if path.stat().st_mtime < before.timestamp()}
    done = Q(status__in=(Import.Status.FINISHED, Import.Status.CANCELLED), ended_at__lt=before)
    wanted = set(Import.objects.filter(~done, digest__in=list(old)).values_list("digest", flat=True))
    pruned = sum(_delete_old(path, before.timestamp()) for digest, path in old.items() if digest not in wanted)
    for path in (*folder().glob(f"{NEW}*"), *folder().glob(f"{OLD}*")):  # of processes that died
        if path.stat().st_mtime < before.timestamp():
            path.unlink(missing_ok=True)
    return pruned


def _delete_old(path: Path, before: float) -> bool:
    """Delete a file unless somebody has just kept the same one anew, who is going to read it."""
    aside = path.with_name(f"{OLD}{path.name}")
    try:
        path.rename(aside)
    except FileNotFoundError:  # somebody else prunes
        return False
    if aside.stat().st_mtime >= before:
        aside.replace(path)
        return False
    aside.unlink(missing_ok=True)
    return True


def path_of(digest: str) -> Path:
    """Where the file with this digest is."""
    return folder() / f"{digest}.csv"


def open_kept(row: Import) -> Table:
    """The import's file, read as it was when its columns were mapped. Raises BadFile with what to do."""
    try:
        return open_table(
            path_of(row.digest), encoding=row.encoding, delimiter=row.delimiter, header_line=row.header_line
        )
    except Unreadable as fault:
        raise BadFile(str(fault)) from fault
    except OSError as fault:
        raise BadFile(
            f"The file is not in {folder()} any more ({fault.strerror}). Put it back there under its digest, or "
            "upload it again."
        ) from fault


def look_at(path: Path, *, encoding: str = "", delimiter: str = "", header_line: int | None = None) -> Table:
    """What a file is like, told or guessed. Raises BadFile."""
    try:
        return open_table(path, encoding=encoding, delimiter=delimiter, header_line=header_line, known=columns.is_known)
    except Unreadable as fault:
        raise BadFile(str(fault)) from fault
