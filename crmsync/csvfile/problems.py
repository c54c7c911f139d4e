"""What can be wrong with a whole file, and the words for what is wrong with one record."""


class Unreadable(Exception):
    """The file is no table that can be read. The message says why and what to do."""


UNCLOSED = "a quote is opened in this row and never closed"
AFTER_QUOTE = "text goes on after a closing quote; a quote inside a cell has to be doubled"
LONG_CELL = "a cell is longer than 131,072 characters"
LONG_LINE = "the line is longer than 1,048,576 characters"
BAD_BYTES = "has bytes that are not {encoding}"
NUL = "has a NUL character in it"


def width(found: int, wanted: int) -> str:
    """Why a record whose width is not the header's cannot be used: its values would stand under the wrong names."""
    return f"has {found} cell{'' if found == 1 else 's'} where the header has {wanted}"
