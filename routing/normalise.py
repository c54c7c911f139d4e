"""Bring what a sender says of a lead into one form, so that the same person is known again.

Pure functions over plain values. Whatever is wrong is reported field by field, and never with the value itself:
problems are logged and answered, values are personal data.
"""

import math
import re
import sys
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import Any

import phonenumbers
from email_validator import EmailNotValidError, validate_email

from routing.errors import InvalidLead

LENGTHS = {"first_name": 200, "last_name": 200, "company": 300, "country": 100}
EMAIL_MOST = 320
PLAIN_MOST = 254
LOCAL_MOST = 64
PLAIN_LOCAL = re.compile(r"[\w!#$%&'*+/=?^`{|}~-]+(\.[\w!#$%&'*+/=?^`{|}~-]+)*", re.ASCII)
"""What stands before the @ of almost every address, in which there is nothing to bring into another form."""
PROBLEMS_MOST = 20
PATH_MOST = 200
DEEPEST = 50
INVISIBLE = "\u200b\u200c\u200d\u2060\ufeff\u00ad"
EDGES = INVISIBLE + "".join(chr(point) for point in range(sys.maxunicode) if chr(point).isspace())
CURLY = "“”‘’«»"
NUL = "\x00"
UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


@dataclass(frozen=True)
class Address:
    """One way by which a lead is known: `kind` is email or phone, `value` is in the form that is compared."""

    kind: str
    value: str


@dataclass(frozen=True)
class CleanLead:
    """A lead in one form. `fields` holds everything else the sender said, unchanged."""

    email: str = ""
    phone: str = ""
    first_name: str = ""
    last_name: str = ""
    company: str = ""
    country: str = ""
    fields: dict[str, Any] = field(default_factory=dict)
    addresses: tuple[Address, ...] = ()

    @property
    def domain(self) -> str:
        """The domain of the e-mail address, or nothing."""
        return self.email.rpartition("@")[2].lower()


def clean_lead(payload: Mapping[str, Any]) -> CleanLead:
    """Return the lead a payload describes. Raises InvalidLead with every field that is wrong.

    An address is needed: an e-mail address, or a phone number in international form (or in national form beside a
    two-letter country). A phone number that cannot be read beside a good e-mail address is kept as a field and is no
    address.
    """
    wrong = () if _plainly_storable(payload) else islice(unstorable(payload), PROBLEMS_MOST)
    problems = [{"path": path, "problem": problem} for path, problem in wrong]
    if problems:
        raise InvalidLead(problems)
    texts = {}
    for name in ("email", "phone", *LENGTHS):
        value = payload.get(name)
        if value is not None and not isinstance(value, str):
            problems.append({"path": name, "problem": "should be a text"})
            value = None
        texts[name] = tidy(value or "")
    for name, most in LENGTHS.items():
        if len(texts[name]) > most:
            problems.append({"path": name, "problem": f"is longer than {most} characters"})
    rest = {key: value for key, value in payload.items() if key not in texts and key != "id"}
    addresses: list[Address] = []
    email = ""
    if texts["email"]:
        try:
            email = clean_email(texts["email"])
            addresses.append(Address("email", email.lower()))  # casefold would take one domain for another: ß is not ss
        except ValueError as problem:
            problems.append({"path": "email", "problem": str(problem)})
    phone = clean_phone(texts["phone"], country=texts["country"])
    if phone:
        addresses.append(Address("phone", phone))
    elif texts["phone"] and email:
        rest["phone_as_given"] = texts["phone"]
    elif texts["phone"]:
        problems.append({"path": "phone", "problem": "is not a phone number in international form, such as +33 1 ..."})
    if not texts["email"] and not texts["phone"]:
        problems.append({"path": "email", "problem": "is missing: a lead needs an e-mail address or a phone number"})
    if problems:
        raise InvalidLead(problems)
    names = {name: texts[name] for name in LENGTHS}
    in_order = tuple(sorted(addresses, key=lambda address: (address.kind, address.value)))
    return CleanLead(email=email, phone=phone, fields=rest, addresses=in_order, **names)


def tidy(text: str) -> str:
    """NFC, without white space or invisible characters at the ends."""
    return unicodedata.normalize("NFC", text).strip(EDGES)


def clean_email(text: str) -> str:
    """Return the address with its domain in lower case. Raises ValueError with what is wrong, without the address."""
    if len(text) > EMAIL_MOST:
        raise ValueError(f"is longer than {EMAIL_MOST} characters")
    if any(mark in text for mark in CURLY):
        raise ValueError("has typographic quotes in it")
    local, _, domain = text.rpartition("@")
    try:
        if len(text) <= PLAIN_MOST and len(local) <= LOCAL_MOST and PLAIN_LOCAL.fullmatch(local):
            return f"{local}@{_domain(domain)}"
        return validate_email(text, check_deliverability=False, strict=True, test_environment=True).normalized
    except EmailNotValidError as problem:
        raise ValueError("is not an e-mail address") from problem


@lru_cache(maxsize=10_000)
def _domain(text: str) -> str:
    """The domain in its one form: most addresses have one that was looked at a moment ago."""
    found = validate_email(f"x@{text}", check_deliverability=False, strict=True, test_environment=True)
    return found.normalized.removeprefix("x@")


def clean_phone(text: str, *, country: str) -> str:
    """Return the number in E.164 form and its extension, or nothing if it cannot be read. `country` helps where it
    has two letters.
    """
    region = country.upper() if re.fullmatch(r"[A-Za-z]{2}", country) else None
    try:
        number = phonenumbers.parse(text, region)
    except phonenumbers.NumberParseException:
        return ""
    if not phonenumbers.is_possible_number(number):
        return ""
    e164 = phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.E164)
    return f"{e164} x{number.extension}" if number.extension else e164  # colleagues share a switchboard


def _plainly_storable(payload: Mapping[str, Any]) -> bool:
    """Whether it is all texts and none of them is unstorable: what a file has, looked at in one go."""
    try:
        return not UNSTORABLE.search("\n".join((*payload, *payload.values())))
    except TypeError:
        return False


def unstorable(value: Any, place: tuple[str | int, ...] = ()) -> Iterator[tuple[str, str]]:
    """Every place in a JSON value that Postgres cannot store: NUL characters, halves of surrogate pairs, numbers beyond
    all bounds; and what is nested so deep that nobody can.
    """
    if len(place) > DEEPEST:
        yield path_of(place), f"is nested more than {DEEPEST} deep"
    elif isinstance(value, str) and (found := UNSTORABLE.search(value)):
        yield path_of(place), f"has {'a NUL character' if found[0] == NUL else 'half of a surrogate pair'} in it"
    elif isinstance(value, float) and not math.isfinite(value):
        yield path_of(place), "is a number too large to store"
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if UNSTORABLE.search(key):
                yield path_of(place), "has a name in it that cannot be stored"
            else:
                yield from unstorable(item, (*place, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from unstorable(item, (*place, index))


def path_of(place: tuple[str | int, ...]) -> str:
    """The place in words people know: answers[0].text. Cut short where names are very long."""
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place).removeprefix(".")
    return path if len(path) <= PATH_MOST else path[:PATH_MOST] + "..."
