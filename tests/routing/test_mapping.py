"""A sender's names are found where people expect them, the mapped ones first, and nothing that was said is lost."""

import pytest

from routing.kinds import KINDS
from routing.kinds.names import USUAL
from routing.mapping import at_path, map_fields, squashed


def payload(fields, mapping=None, usual=USUAL):
    return map_fields(fields, usual=usual, mapping=mapping or {}).payload


@pytest.mark.parametrize(
    "name, ours",
    [
        ("Work E-mail", "email"),
        ("E-Mail-Address", "email"),
        ("firstname", "first_name"),
        ("First Name", "first_name"),
        ("lastName", "last_name"),
        ("surname", "last_name"),
        ("phone_number", "phone"),
        ("Company name", "company"),
        ("Organisation", "company"),
        ("Country/Region", "country"),
    ],
)
def test_usual_names_are_found_without_case_blanks_and_punctuation(name, ours):
    assert payload({name: "x"}) == {ours: "x"}


def test_a_mapped_name_goes_before_the_usual_ones_and_the_other_is_kept_under_a_name_of_its_own():
    fields = {"email": "office@acme.example", "Your address": "pat@acme.example"}
    assert payload(fields, {"email": ["Your address"]}) == {
        "email": "pat@acme.example",
        "sent_email": "office@acme.example",
    }


def test_of_several_mapped_names_the_first_with_a_value_counts():
    mapping = {"company": ["a", "b", "c"]}
    assert payload({"a": " ", "b": "B", "c": "C"}, mapping) == {"company": "B", "a": " ", "c": "C"}


def test_a_mapped_name_may_be_a_path_or_have_dots_in_itself_and_what_is_around_it_stays():
    fields = {"contact": {"emails": ["pat@acme.example"], "x": 1}, "a.b": "Acme"}
    mapping = {"email": ["contact.emails.0"], "company": ["a.b"]}
    assert payload(fields, mapping) == {
        "email": "pat@acme.example",
        "company": "Acme",
        "contact": {"emails": ["pat@acme.example"], "x": 1},
    }


def test_a_mapping_that_finds_nothing_does_not_fall_back_to_a_name_nobody_meant():
    assert payload({"email": "pat@acme.example"}, {"email": ["mail_of_the_buyer"]}) == {
        "sent_email": "pat@acme.example"
    }


def test_without_any_names_fields_are_taken_as_they_are():
    fields = {"email": 7, "x": [1], "Full Name": "Pat"}
    assert payload(fields, usual={}) == fields


def test_with_one_name_mapped_the_others_keep_their_own_where_there_are_no_usual_ones():
    assert payload({"mail": "a", "company": "Acme", "Company": "no"}, {"email": ["mail"]}, usual={}) == {
        "email": "a",
        "company": "Acme",
        "Company": "no",
    }


@pytest.mark.parametrize(
    "full, first, last",
    [
        ("Pat Novák", "Pat", "Novák"),
        ("Pat de  Novák ", "Pat de", "Novák"),
        ("Novák", None, "Novák"),
    ],
)
def test_a_full_name_is_split_at_its_last_blank_and_kept(full, first, last):
    found = payload({"Full name": full})
    assert (found.get("first_name"), found["last_name"], found["Full name"]) == (first, last, full)


def test_a_full_name_never_overrides_a_first_or_last_name():
    assert payload({"name": "X Y", "First name": "Pat"}) == {"first_name": "Pat", "name": "X Y"}


def test_numbers_become_texts_and_a_list_of_one_its_one_but_truth_stays_truth():
    assert payload({"phone": 15550000000}) == {"phone": "15550000000"}
    assert payload({"phone": 15550000000.0}) == {"phone": "15550000000"}
    assert payload({"email": ["pat@acme.example"]}) == {"email": "pat@acme.example"}
    assert payload({"company": True}) == {"company": True}
    assert payload({"company": ["A", "B"]}) == {"company": ["A", "B"]}


def test_a_path_that_leads_nowhere_is_nothing():
    fields = {"a": {"b": [1]}}
    assert [at_path(fields, path) for path in ("a.b.0", "a.b.1", "a.b.x", "a.b.0.c", "z", "", "a..b")] == [
        1,
        None,
        None,
        None,
        None,
        None,
        None,
    ]


def test_two_names_alike_give_the_first_and_keep_the_second():
    assert payload({"E-mail": "a", "e mail": "b"}) == {"email": "a", "e mail": "b"}


@pytest.mark.parametrize("kind", KINDS)
def test_no_kind_has_two_fields_of_one_name(kind):
    names = [squashed(name) for names in KINDS[kind].usual.values() for name in names]
    assert len(names) == len(set(names))
