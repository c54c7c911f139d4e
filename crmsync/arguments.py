"""Types of the commands' arguments; what is none of them is wrong usage, and ends a command with exit code 2."""

import math
from argparse import ArgumentTypeError
from collections.abc import Callable


def whole(*, least: int = 1, most: int) -> Callable[[str], int]:
    """A whole number from `least` to `most`."""

    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if not least <= number <= most:
            raise ArgumentTypeError(f"{text} is not a whole number from {least:,} to {most:,}")
        return number

    return read


def positive(text: str) -> float:
    """A number above 0, and not endless."""
    try:
        number = float(text)
    except ValueError:
        number = 0
    if not 0 < number < math.inf:
        raise ArgumentTypeError(f"{text} is not a number above 0")
    return number
