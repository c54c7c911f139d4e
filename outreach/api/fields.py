"""What may stand in a field of a request: whatever passes here the database can take."""

from typing import Annotated, Any

from ninja import Field
from pydantic import AfterValidator, BeforeValidator, StringConstraints

from outreach.mail.storable import storable
from routing.normalise import UNSTORABLE

ID_MOST = 2**63 - 1


def plain(text: str) -> str:
    """The text itself. Raises ValueError where it cannot be stored."""
    if UNSTORABLE.search(text):
        raise ValueError("has a character in it that cannot be stored")
    return text


def mended(given: Any) -> Any:
    """A text with what cannot be stored replaced, for the field's own rules to judge; anything else as it is."""
    return storable(given) if isinstance(given, str) else given


Id = Annotated[int, Field(ge=1, le=ID_MOST)]
"""The number of something that Rota keeps."""
Name = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1), AfterValidator(plain)]
"""A text by which something is found: one that is blank or odd is refused."""
Words = Annotated[str, BeforeValidator(mended)]
"""A text for people to read, often somebody else's: nothing fails for an odd character in it."""
