"""What the columns of an export are: guessed from their names, in the usual tools' words and a few languages.

Pure. A mapping has one text for each column, by position: one of LEAD_FIELDS, the name of another field of the lead, or
nothing where the column is left out.
"""

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache

from routing.column_names import NAMES
from routing.errors import BadMapping

FULL_NAME = "full_name"
LEAD_FIELDS = ("email", "phone", "first_name", "last_name", FULL_NAME, "company", "country")
NOT_A_NAME = re.compile(r"[^a-z0-9]+")
FIELD_MOST = 60
TOOLS_OWN = re.compile(r"^(contact|lead|attendee|registrant|participant|person|customer|kontakt)s? (?=.)")
"""What a report puts before the names of its columns."""


def plain(name: str) -> str:
    """A column's name in the form in which names are compared: lower case, without accents, signs as one space."""
    text = unicodedata.normalize("NFKD", name.replace("_", " ").replace("ł", "l").replace("Ł", "L").casefold())
    text = "".join(char if char.isalnum() else " " for char in text if not unicodedata.combining(char))
    return " ".join(unicodedata.normalize("NFC", text).split())


RANKED = {field: [plain(name) for name in names.split(",")] for field, names in NAMES.items()}
KNOWN = {name: field for field, names in RANKED.items() for name in names}


@lru_cache(maxsize=4_096)
def field_of(name: str) -> str:
    """The lead's field that a column with this name usually is, or nothing."""
    key = plain(name)
    return KNOWN.get(key) or KNOWN.get(TOOLS_OWN.sub("", key), "")


def is_known(name: str) -> bool:
    """Whether a column of this name is of use: it helps to tell a header from what stands above it."""
    return bool(field_of(name))


def guess(header: Sequence[str], sample: Iterable[Sequence[str]] = ()) -> list[str]:
    """What each column is likely to be. `sample` has the cells of some rows: where no name says so, the column with
    addresses in it is the e-mail address.
    """
    fields = [field_of(name) for name in header]
    for field in LEAD_FIELDS:
        rivals = [position for position, each in enumerate(fields) if each == field]
        for loser in sorted(rivals, key=lambda position: _rank(field, header[position]))[1:]:
            fields[loser] = ""
    if "first_name" in fields and "last_name" in fields and FULL_NAME in fields:
        fields[fields.index(FULL_NAME)] = ""
    if "email" not in fields and (found := _addresses(len(header), list(sample))) is not None:
        fields[found] = "email"
    taken = set(filter(None, fields)) | set(LEAD_FIELDS)
    for position, name in enumerate(header):
        if not fields[position] and name:
            fields[position] = own_name(name, taken)
            taken.add(fields[position])
    return fields


def own_name(name: str, taken: Iterable[str] = ()) -> str:
    """The name under which a lead keeps a column that is none of its own fields: job_title. Rules ask for it as
    fields.job_title, so there is no dot in it.
    """
    key = NOT_A_NAME.sub("_", plain(name)).strip("_") or "_".join(plain(name).split()) or "column"
    key = "external_id" if key == "id" else key[:FIELD_MOST]
    again = 1
    while (unique := key if again == 1 else f"{key}_{again}") in taken:
        again += 1
    return unique


def check(mapping: Sequence[str], *, columns: int) -> list[str]:
    """The mapping, if rows can be read by it. Raises BadMapping: a field twice, no address, another width."""
    found = [field.strip() for field in mapping]
    if len(found) != columns:
        raise BadMapping(f"The mapping is for {len(found)} columns; the file has {columns}.")
    for field in filter(None, found):
        if found.count(field) > 1:
            raise BadMapping(f"Two columns are mapped to {field}: choose one, and another name for the other.")
        if len(field) > FIELD_MOST or field == "id":
            raise BadMapping(f"A lead cannot keep a field called {field[:FIELD_MOST]}.")
    if "email" not in found and "phone" not in found:
        raise BadMapping("Say which column has the e-mail address or the phone number: a lead needs one of them.")
    return found


def signature(columns: Sequence[str]) -> str:
    """The same for files with the same header, whatever the case and the signs in its names."""
    return hashlib.sha256("\x1f".join(map(plain, columns)).encode()).hexdigest()


def _rank(field: str, name: str) -> int:
    key = plain(name)
    key = key if key in KNOWN else TOOLS_OWN.sub("", key)
    return RANKED[field].index(key)


def _addresses(width: int, rows: list[Sequence[str]]) -> int | None:
    """The first column in which most cells look like an e-mail address."""
    for position in range(width):
        cells = [row[position] for row in rows if len(row) > position]
        if cells and sum("@" in cell and "." in cell.rpartition("@")[2] for cell in cells) > len(cells) / 2:
            return position
    return None
