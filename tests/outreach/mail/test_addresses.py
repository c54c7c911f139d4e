"""Two mailboxes are two, however alike they look; capitals and spellings of one domain make no second."""

import importlib

import pytest
from django.apps import apps

from outreach.mail.addresses import wire_address
from outreach.models import Enrolment, Recipient, Suppression
from tests.outreach.make import make_message


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("straße@acme.example", "strasse@acme.example"),
        ("a@faß.example", "a@fass.example"),
        ("a@xn--fa-hia.example", "a@fass.example"),
        ("ﬁn@acme.example", "fin@acme.example"),
        ("a@βόλος.example", "a@βόλοσ.example"),
    ],
)
def test_different_mailboxes_are_not_taken_for_one(one: str, other: str) -> None:
    assert wire_address(one).key != wire_address(other).key
    assert wire_address(one).text != wire_address(other).text


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("STRAẞE@acme.example", "straße@ACME.example"),
        ("A@FAẞ.example", "a@xn--fa-hia.example"),
        ("a@BÜCHER.example", "a@xn--bcher-kva.example"),
    ],
)
def test_capitals_and_the_two_spellings_of_a_domain_are_one_mailbox(one: str, other: str) -> None:
    assert wire_address(one).key == wire_address(other).key


@pytest.mark.django_db
@pytest.mark.parametrize("letter", ["ß", "ẞ", "İ", "Σ", "ς", "Ꭰ", "ꭰ", "ﬀ", "Ǆ", "Ω"])
def test_every_key_is_one_that_the_database_takes(letter: str) -> None:
    assert Recipient.objects.create(key=wire_address(f"{letter}a@acme.example").key).pk


@pytest.mark.django_db(transaction=True)
def test_who_was_suppressed_under_a_folded_key_stays_so_under_the_new_one() -> None:
    message = make_message()
    Enrolment.objects.update(address="straße@faß.example")
    Recipient.objects.filter(pk=message.recipient_id).update(key="strasse@fass.example")
    Suppression.objects.create(recipient_id=message.recipient_id, reason="unsubscribed", detail="asked")
    migration = importlib.import_module("outreach.migrations.0011_keys_in_lower_case")
    for _ in range(2):
        migration.suppress_under_the_new_key(apps, None)
    current = Suppression.objects.filter(lifted_at=None).order_by("pk")
    assert list(current.values_list("recipient__key", "reason", "detail")) == [
        ("strasse@fass.example", "unsubscribed", "asked"),
        (wire_address("straße@faß.example").key, "unsubscribed", "asked"),
    ]
