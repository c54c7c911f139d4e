"""Files of leads for tests, kept in a folder of the test's own, and imports of them."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from routing import imports
from routing.import_files import keep
from routing.models import Import, ImportRow, InboundSource

CASES = Path(__file__).resolve().parent.parent / "cases" / "csv"


def table(*rows: Sequence[str], header: Sequence[str] = ("email", "name")) -> bytes:
    """A file with this header and these rows."""
    text = io.StringIO(newline="")
    csv.writer(text).writerows([header, *rows])
    return text.getvalue().encode()


def received(content: bytes | Path, *, source: InboundSource, **told: Any) -> Import:
    """An import of this file, received and saved."""
    content = content.read_bytes() if isinstance(content, Path) else content
    digest, path = keep([content])
    row = imports.receive(path=path, digest=digest, file_name="leads.csv", source=source, by="kim", **told)
    return imports.save(row=row)[0]


def imported(content: bytes | Path, *, source: InboundSource, **told: Any) -> Import:
    """The same, run to its end."""
    row = received(content, source=source, **told)
    assert imports.start(row=row)
    return imports.run(import_id=row.pk, budget_s=600)


def verdicts(row: Import) -> list[tuple[int, str]]:
    """Line and verdict of every row."""
    return list(ImportRow.objects.filter(of=row).order_by("number").values_list("line", "verdict"))


def reasons(row: Import) -> dict[int, str]:
    """Why, by line, where there is a reason."""
    return dict(ImportRow.objects.filter(of=row).exclude(reason="").values_list("line", "reason"))
