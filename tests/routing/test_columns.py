"""Columns are told by their names, in the words of the usual tools and of a few languages, and by position."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.columns import check, guess, is_known, own_name, signature
from routing.errors import BadMapping
from routing.import_rows import split_name
from routing.seen_lines import SeenLines


@pytest.mark.parametrize(
    ("header", "fields"),
    [
        (["EMAIL", "Name"], ["email", "full_name"]),
        (["Work Email", "Email"], ["work_email", "email"]),
        (["Contact: Email", "Contact: First Name"], ["email", "first_name"]),
        (["First Name", "Last Name", "Name", "Email"], ["first_name", "last_name", "name", "email"]),
        (["Imię", "Nazwisko", "Adres e-mail"], ["first_name", "last_name", "email"]),
        (["氏名", "メールアドレス"], ["full_name", "email"]),
        (["id", "E-Mail", "No. of Employees"], ["external_id", "email", "no_of_employees"]),
        (["email", "", "phone", "phone"], ["email", "", "phone", "phone_2"]),
    ],
)
def test_columns_are_guessed_from_their_names(header, fields):
    assert guess(header) == fields


def test_a_column_of_addresses_is_the_address_whatever_it_is_called():
    assert guess(["Who", "Kontakt"], [["Pat", "pat@a.example"], ["Kim", "kim@a.example"]]) == ["who", "email"]


@given(st.lists(st.text(max_size=12), min_size=1, max_size=12))
def test_a_guess_never_gives_two_columns_one_field(header):
    fields = [field for field in guess(header) if field]
    assert len(fields) == len(set(fields))
    assert len(check([*guess(header), "email" if "email" not in fields else ""], columns=len(header) + 1)) > 0


def test_names_of_one_form_have_one_signature_and_a_field_name_has_no_dots():
    assert signature(["E-Mail", "First_Name"]) == signature([" e mail", "first name "])
    assert signature(["a", "b"]) != signature(["b", "a"])
    assert own_name("No. of Employees") == "no_of_employees"
    assert is_known("E-Mail-Adresse") and not is_known("Room")


@pytest.mark.parametrize(
    ("mapping", "says"),
    [
        (["first_name", "last_name"], "e-mail address or the phone number"),
        (["email", "email"], "Two columns"),
        (["email"], "for 1 columns"),
        (["email", "id"], "field called id"),
    ],
)
def test_a_mapping_by_which_no_row_can_be_a_lead_is_refused(mapping, says):
    with pytest.raises(BadMapping, match=says):
        check(mapping, columns=2)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("Pat van Dam", ("Pat", "van Dam")),
        ("van Dam, Pat", ("Pat", "van Dam")),
        ("Novák", (None, "Novák")),
    ],
)
def test_a_full_name_is_split(name, parts):
    found = split_name(name)
    assert (found.get("first_name"), found.get("last_name")) == parts


@given(st.dictionaries(st.integers(1, 10**12) | st.tuples(st.text(), st.text()), st.integers(1, 2**31)))
def test_the_first_line_of_a_key_is_remembered(lines):
    seen = SeenLines()
    for key, line in lines.items():
        seen.note(key, line)
        seen.note(key, line + 1)
    assert {key: seen.get(key) for key in lines} == lines
    assert seen.get("another") is None


def test_many_keys_are_remembered():
    seen = SeenLines()
    for line in range(1, 50_000):
        seen.note(("email", f"n{line}"), line)
    assert all(seen.get(("email", f"n{line}")) == line for line in range(1, 50_000, 97))
