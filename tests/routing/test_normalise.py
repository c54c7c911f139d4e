"""The same person is known again however the sender spells them, and no input brings the normaliser down."""

import json
import math
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from routing.errors import InvalidLead
from routing.normalise import Address, CleanLead, clean_email, clean_lead, clean_phone, tidy, unstorable

short = settings(max_examples=60, deadline=None)

texts = st.text(st.characters(codec=None), max_size=40)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
known = st.sampled_from(["email", "phone", "first_name", "last_name", "company", "country", "id"])
addresses = st.emails() | st.sampled_from(["pat@acme.example", "Pat@BÜCHER.example", "ΣΑΣ@acme.example", "İ@a.example"])
phones = st.sampled_from(["+33142685300", "0142685300", "+1 650 253 0000", "12", "(", "+" * 30, "1-800-CALL"]) | texts
payloads = st.dictionaries(known | texts, values | addresses | phones, max_size=8)


@short
@given(payloads)
@example({"email": "x@y.example", "x": math.inf})
@example({"phone": "+"})
def test_any_json_object_is_a_lead_or_an_invalid_lead_and_nothing_else(payload):
    try:
        lead = clean_lead(payload)
    except InvalidLead as refusal:
        assert refusal.problems and all(set(problem) == {"path", "problem"} for problem in refusal.problems)
    else:
        assert lead.addresses
        assert all(0 < len(address.value) <= 320 for address in lead.addresses)
        assert len(lead.email) <= 320 and len(lead.phone) <= 32
        stored = json.dumps([lead.fields, lead.first_name, lead.email], allow_nan=False)
        assert "\\u0000" not in stored.replace("\\\\", "")


@short
@given(addresses)
def test_a_clean_address_cleaned_again_stays_the_same(text):
    try:
        once = clean_email(text)
    except ValueError:
        return
    assert clean_email(once) == once


@short
@given(addresses)
def test_capitals_and_blanks_around_it_do_not_make_another_address(text):
    try:
        plain = clean_lead({"email": text})
    except InvalidLead:
        return
    if text.upper().lower() == text.lower():
        assert clean_lead({"email": f"\u00a0 {text.upper()}\u200b\n"}).addresses == plain.addresses


@short
@given(texts)
def test_tidying_twice_changes_nothing_more(text):
    assert tidy(tidy(text)) == tidy(text)


@pytest.mark.parametrize(
    "text, country, clean",
    [
        ("+33 1 42 68 53 00", "", "+33142685300"),
        ("01 42 68 53 00", "FR", "+33142685300"),
        ("01 42 68 53 00", "fr", "+33142685300"),
        ("01 42 68 53 00", "France", ""),
        ("01 42 68 53 00", "", ""),
        ("(650) 253-0000", "US", "+16502530000"),
        ("+44 20 7946 0958", "FR", "+442079460958"),
        ("call me", "FR", ""),
        ("", "FR", ""),
        ("+٣٣١٤٢٦٨٥٣٠٠", "", "+33142685300"),
    ],
)
def test_a_phone_number_has_one_form(text, country, clean):
    assert clean_phone(text, country=country) == clean


def test_addresses_come_in_one_order_email_before_phone():
    lead = clean_lead({"phone": "+33142685300", "email": "Pat@Acme.example"})
    assert lead.addresses == (Address("email", "pat@acme.example"), Address("phone", "+33142685300"))
    assert (lead.email, lead.domain) == ("Pat@acme.example", "acme.example")


def test_a_lead_by_phone_has_no_domain():
    assert CleanLead(phone="+33142685300").domain == ""


def test_problems_name_the_place_and_never_the_value():
    payload: dict[str, Any] = {"email": "x@acme.example", "a": [{"b": "secret\x00"}], "c": math.nan}
    assert list(unstorable(payload)) == [
        ("a[0].b", "has a NUL character in it"),
        ("c", "is a number too large to store"),
    ]


def test_a_very_long_path_is_cut_short():
    (problem,) = unstorable({"k" * 5_000: "\x00"})
    assert len(problem[0]) < 300
