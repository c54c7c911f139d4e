"""Which addresses can be written to, in which form they are compared and in which they go over the wire.

A domain outside ASCII travels in its IDNA form; what stands before the @ cannot be translated, so an address with such
a name needs a relay that speaks SMTPUTF8 (RFC 6531). Everything else is refused with the reason, before anything is
begun.
"""

from dataclasses import dataclass

from email_validator import EmailNotValidError, validate_email

from outreach.errors import BadAddress


@dataclass(frozen=True)
class WireAddress:
    """`text` goes into the envelope and the header; `key` is what addresses are compared by."""

    text: str
    key: str
    needs_utf8: bool


def wire_address(address: str) -> WireAddress:
    """Bring an address into the form it is sent in. Raises BadAddress with what is wrong, without the address.

    `key` is the normalised address in lower case; its domain is written in Unicode, one spelling for each IDNA form it
    is sent in. Dots and +tags are other mailboxes, and so are ß and ss: folding would take one for the other.
    """
    if any(character < " " or character == "\x7f" for character in address):
        raise BadAddress("It has a control character in it.")
    try:
        checked = validate_email(address, check_deliverability=False, strict=True, test_environment=True)
    except EmailNotValidError as problem:
        raise BadAddress("It is not an e-mail address.") from problem
    needs_utf8 = checked.ascii_email is None
    text = f"{checked.local_part}@{checked.ascii_domain}"
    return WireAddress(text, f"{checked.local_part.lower()}@{checked.domain.lower()}", needs_utf8)
