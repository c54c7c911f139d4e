"""A mail as bytes. Its header lines are written here: what a person typed is text, and says only itself.

The email package reads a header's value before it writes it: an encoded word (RFC 2047) in somebody's name would be
decoded, and the line breaks that come out of it written as they are. It gets the body alone.
"""

import base64
import re
from collections.abc import Iterable
from email.errors import MessageError
from email.message import EmailMessage
from email.policy import SMTP, SMTPUTF8

from outreach.errors import BadHeader

ATOMS = re.compile(r"[\w!#$%&'*+/=?^`{|}~-]+( [\w!#$%&'*+/=?^`{|}~-]+)*", re.ASCII)
"""A name that needs no quotes (RFC 5322, 3.2.3)."""
LINE_MOST = 900
"""Characters that stand on one line; a line has 998 at most (RFC 5322, 2.1.1)."""
WORD_MOST = 39
"""Bytes of text in a word: 64 characters on the wire, so that the first line too keeps within RFC 2047's 76."""
FOLD = "\r\n "
REFUSED = re.compile("[\x00-\x1f\x7f\x85\u2028\u2029\ud800-\udfff]")


def one_line(text: str) -> str:
    """The text, if it can stand in a header. Raises BadHeader for control characters: `Hi\\r\\nBcc: everybody`, and for
    half a character (a lone surrogate), which no encoding can write."""
    if REFUSED.search(text):
        raise BadHeader
    return text


def free_text(text: str) -> str:
    """A header's value that reads as exactly this text. Raises BadHeader for control characters."""
    return text if is_plain(one_line(text)) and text == text.strip() else encoded(text)


def mailbox(name: str, address: str) -> str:
    """A header's value for an address that can go over the wire, and a name. Raises BadHeader for control characters in
    the name. Spaces around it are no part of it."""
    name = one_line(name).strip()
    if not name:
        return address
    if not is_plain(name):
        return f"{encoded(name)}{FOLD}<{address}>"
    if ATOMS.fullmatch(name):
        return f"{name} <{address}>"
    return f"{quoted(name)} <{address}>"


def quoted(name: str) -> str:
    """The name in quotes, for readers who would take its signs for their own, or two spaces for one."""
    escaped = re.sub(r'(["\\])', r"\\\1", name)
    return f'"{escaped}"'


def is_plain(text: str) -> bool:
    """It can stand as it is: short, ASCII, and with nothing that a reader could take for an encoded word."""
    return text.isascii() and "=?" not in text and len(text) <= LINE_MOST


def encoded(text: str) -> str:
    """The text as encoded words, which readers put together again without what stands between them."""
    words, word = [], b""
    for character in text:
        more = character.encode()
        if len(word) + len(more) > WORD_MOST:
            words.append(word)
            word = b""
        word += more
    return FOLD.join(f"=?utf-8?b?{base64.b64encode(one).decode()}?=" for one in (*words, word))


def written(headers: Iterable[tuple[str, str]], text: str, *, utf8: bool) -> bytes:
    """The whole mail: these headers, their values as they are, and the text. Lines end in CRLF.

    Raises BadHeader for what no mail can be made of, whatever it is that the email package refuses.
    """
    try:
        head = "".join(f"{name}: {value}\r\n" for name, value in headers).encode("utf-8" if utf8 else "ascii")
        body = EmailMessage(policy=SMTPUTF8 if utf8 else SMTP.clone(cte_type="7bit"))
        body.set_content(text, cte=None if utf8 else best_cte(text))
        return head + body.as_bytes()
    except (ValueError, LookupError, MessageError) as fault:
        raise BadHeader(type(fault).__name__) from fault


def best_cte(text: str) -> str:
    """7bit where the text allows it, so that a mail can be read on the wire; quoted-printable where not."""
    return "7bit" if text.isascii() and all(len(line) < 900 for line in text.splitlines()) else "quoted-printable"
