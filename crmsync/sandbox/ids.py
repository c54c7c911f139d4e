"""Record ids as Salesforce makes them: a prefix that names the object, a running number, three letters of checksum."""

import re

DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
CHECKSUM_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ012345"
POD = "5R0"  # where a real id names the instance it was made on

_FIFTEEN_OR_EIGHTEEN = re.compile(r"[0-9A-Za-z]{15}(?:[0-9A-Za-z]{3})?")


def checksum(fifteen: str) -> str:
    """The three letters that say which of the fifteen characters are upper case, five characters to a letter."""
    letters = []
    for start in (0, 5, 10):
        bits = sum(1 << place for place, letter in enumerate(fifteen[start : start + 5]) if letter.isupper())
        letters.append(CHECKSUM_LETTERS[bits])
    return "".join(letters)


def canonical(text: str) -> str | None:
    """The 18-character form of a 15- or 18-character id; None when it is neither, or its checksum is wrong."""
    if not _FIFTEEN_OR_EIGHTEEN.fullmatch(text):
        return None
    full = text[:15] + checksum(text[:15])
    return full if len(text) == 15 or text == full else None


def short(record_id: str) -> str:
    """The 15-character form, which some error texts name."""
    return record_id[:15]


def make(prefix: str, number: int) -> str:
    """The id of the number-th record of an object. Ids of one object sort in the order in which they were made."""
    digits = ""
    while number:
        number, digit = divmod(number, 62)
        digits = DIGITS[digit] + digits
    fifteen = prefix + POD + digits.rjust(9, "0")
    return fifteen + checksum(fifteen)


def number_of(record_id: str) -> int:
    """The running number inside an id that `make` made."""
    number = 0
    for digit in record_id[6:15]:
        number = number * 62 + DIGITS.index(digit)
    return number
