"""Bring what a sender says of a lead into one form, so that the same person is known again.

Pure functions over plain values. Whatever is wrong is reported field by field, and never with the value itself:
problems are logged and answered, values are personal data.
"""

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import phonenumbers
from email_validator import EmailNotValidError, validate_email

from routing.errors import InvalidLead

LENGTHS = {"first_name": 200, "last_name": 200, "company": 300, "country": 100}
INVISIBLE = "\u200b\u200c\u200d\u2060\ufeff\u00ad"
CURLY = "“”‘’«»"
EDGES = re.compile(rf"^[\s{INVISIBLE}]+|[\s{INVISIBLE}]+$")


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
    problems = [{"path": path, "problem": problem} for path, problem in unstorable(payload, "")]
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
            addresses.append(Address("email", email.casefold()))
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
    return EDGES.sub("", unicodedata.normalize("NFC", text))


def clean_email(text: str) -> str:
    """Return the address with its domain in lower case. Raises ValueError with what is wrong, without the address."""
    if any(mark in text for mark in CURLY):
        raise ValueError("has typographic quotes in it")
    try:
        return validate_email(text, check_deliverability=False, strict=True, test_environment=True).normalized
    except EmailNotValidError as problem:
        raise ValueError("is not an e-mail address") from problem


def clean_phone(text: str, *, country: str) -> str:
    """Return the number in E.164 form, or nothing if it cannot be read. `country` helps where it has two letters."""
    region = country.upper() if re.fullmatch(r"[A-Za-z]{2}", country) else None
    try:
        number = phonenumbers.parse(text, region)
    except phonenumbers.NumberParseException:
        return ""
    if not phonenumbers.is_possible_number(number):
        return ""
    return phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.E164)


def unstorable(value: Any, path: str) -> list[tuple[str, str]]:
    """Every place in a JSON value that Postgres cannot store: NUL characters and halves of surrogate pairs."""
    if isinstance(value, str):
        if "\x00" in value:
            return [(path, "has a NUL character in it")]
        if any("\ud800" <= character <= "\udfff" for character in value):
            return [(path, "has half of a surrogate pair in it")]
        return []
    if isinstance(value, Mapping):
        found = [(path, "has a name that cannot be stored") for key in value if unstorable(key, path)]
        return found + [
            place
            for key, item in value.items()
            if not unstorable(key, path)
            for place in unstorable(item, f"{path}.{key}" if path else key)
        ]
    if isinstance(value, list):
        return [place for index, item in enumerate(value) for place in unstorable(item, f"{path}[{index}]")]
    return []
