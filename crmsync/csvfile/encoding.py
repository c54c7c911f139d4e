"""Which encoding a file is in: UTF-8, UTF-16 or, for want of any sign of these, Windows-1252.

The whole file is looked at once, a piece at a time, for the first letter with an accent may stand on its last line.
Bytes that the encoding does not know become MARK, so that the rows they stand in can be told from the others.
"""

import codecs
import re
from pathlib import Path
from typing import NamedTuple

from crmsync.csvfile.problems import Unreadable

MARK = "\udcff"  # half of a surrogate pair: no text of any encoding has it by itself
MARKING = "rota.mark"
PIECE = 1 << 20
SAMPLE = 1 << 16
ENCODINGS = {
    "utf-8": "UTF-8",
    "utf-8-sig": "UTF-8 with a byte order mark",
    "utf-16": "UTF-16 with a byte order mark",
    "utf-16-le": "UTF-16, little endian",
    "utf-16-be": "UTF-16, big endian",
    "cp1252": "Windows-1252",
}
"""Python's name of each encoding that is known, and ours."""
MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
NO_TEXT = (
    (b"PK\x03\x04", "an Excel workbook or another zip archive"),
    (b"\xd0\xcf\x11\xe0", "an Excel 97 workbook"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"%PDF", "a PDF document"),
)
NOT_ASCII = re.compile("[^\x00-\x7f]")


class Guess(NamedTuple):
    """Python's name of the encoding, and what a person should know of the guess."""

    name: str
    notice: str = ""


def _mark(fault: UnicodeError) -> tuple[str, int]:
    if not isinstance(fault, UnicodeDecodeError):
        raise fault
    return MARK, fault.end


codecs.register_error(MARKING, _mark)


def guess_encoding(path: Path) -> Guess:
    """The encoding of a file. Raises Unreadable for an empty file and for one that is known to be no text."""
    with path.open("rb") as file:
        sample = file.read(SAMPLE)
    if not sample.strip(b"\x00 \t\r\n\xef\xbb\xbf\xff\xfe"):
        raise Unreadable("The file is empty.")
    for start, kind in NO_TEXT:
        if sample.startswith(start):
            raise Unreadable(f"The file is {kind}, not a CSV file: save the table as “CSV UTF-8” and take that file.")
    for mark, name in MARKS:
        if sample.startswith(mark):
            return Guess(name)
    if wide := _utf16_without_mark(sample):
        return Guess(wide)
    known, strange = _as_utf8(path)
    if not strange:
        return Guess("utf-8")
    if known > strange:
        return Guess("utf-8", "Some rows have bytes that are not UTF-8; these rows are rejected.")
    return Guess("cp1252", "The file is not in UTF-8 and was read as Windows-1252: look whether names are right.")


def _utf16_without_mark(sample: bytes) -> str:
    """Delimiters, digits and line ends have a zero for one of their two bytes in UTF-16, always on the same side."""
    even, odd = sample[0::2].count(0), sample[1::2].count(0)
    if max(even, odd) * 20 < len(sample) or min(even, odd) * 10 > max(even, odd):
        return ""
    return "utf-16-le" if odd > even else "utf-16-be"


def _as_utf8(path: Path) -> tuple[int, int]:
    """How many letters beyond ASCII the file has when read as UTF-8, and how many bytes or groups that are none."""
    known = strange = 0
    decoder = codecs.getincrementaldecoder("utf-8")(MARKING)
    with path.open("rb") as file:
        more = True
        while more:
            piece = file.read(PIECE)
            more = bool(piece)
            text = decoder.decode(piece, final=not more)
            if not text.isascii():
                marked = text.count(MARK)
                known += len(NOT_ASCII.findall(text)) - marked
                strange += marked
    return known, strange
