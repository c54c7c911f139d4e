"""Text from outside in a form that can be kept: whoever answers us may say anything."""

import re

ODD = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def storable(text: str) -> str:
    """The text, with a replacement character for each control character and half character (a lone surrogate).

    The database refuses NUL and half characters, and a terminal that shows a log obeys the others. Line breaks and tabs
    stay.
    """
    return ODD.sub("\ufffd", text.replace("\r\n", "\n"))
