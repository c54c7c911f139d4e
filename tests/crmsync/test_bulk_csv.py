"""What a value is in CSV, and that lines come apart where they were joined."""

import csv
import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crmsync.bulk_csv import as_text, decode, encode, fits, flat

TEXTS = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\x00"), max_size=20)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "#N/A"),
        ("", "#N/A"),
        ("null", "null"),
        (True, "true"),
        (False, "false"),
        (0, "0"),
        (1e22, "10000000000000000000000"),
        (1e-7, "0.0000001"),
        ("2026-03-01", "2026-03-01"),
        ("2026-03-01T09:00:00.123456+09:00", "2026-03-01T00:00:00.123Z"),
        ("2026-03-01T09:00:00Z", "2026-03-01T09:00:00.000Z"),
        ("2026-03-01T09:00 or so", "2026-03-01T09:00 or so"),
        (" , ", " , "),
    ],
)
def test_a_value_has_one_text(value: Any, text: str) -> None:
    assert as_text(value) == text


def test_a_parent_is_a_column_named_by_relation_and_key() -> None:
    assert flat({"Account": {"Rota_Id__c": "acme"}, "LastName": "N"}) == {"Account.Rota_Id__c": "acme", "LastName": "N"}
    assert flat({"Who": {"attributes": {"type": "Lead"}, "Rota_Id__c": "x"}}) == {"Lead:Who.Rota_Id__c": "x"}


def test_what_a_record_does_not_name_stays_empty_and_is_left_alone() -> None:
    assert encode([{"K": "a", "B": 1}, {"K": "b", "C": None}]) == b'"K","B","C"\n"a","1",""\n"b","","#N/A"\n'


@pytest.mark.parametrize(
    ("record", "goes"),
    [
        ({"A": "#N/A"}, False),
        ({"Account": {"Rota_Id__c": "#N/A"}}, False),
        ({"A": "x" * 32_001}, False),
        ({str(n): "x" * 31_000 for n in range(13)}, False),
        ({"A": "x" * 32_000, "B": None, "C": "#n/a"}, True),
    ],
)
def test_a_record_that_would_mean_something_else_does_not_go_this_way(record: dict[str, Any], goes: bool) -> None:
    assert fits(record) is goes


@given(st.lists(st.fixed_dictionaries({"K": TEXTS, "V": TEXTS}), max_size=5))
def test_any_text_comes_back_as_it_was(records: list[dict[str, str]]) -> None:
    told = decode(encode(records)) if records else decode(b"")
    assert told == [{name: text or "#N/A" for name, text in record.items()} for record in records]


@given(st.lists(TEXTS, min_size=1, max_size=5))
def test_another_reader_reads_the_same(texts: list[str]) -> None:
    data = encode([{"V": text} for text in texts]).decode()
    assert [row for (row,) in csv.reader(io.StringIO(data, newline=""))] == ["V", *(text or "#N/A" for text in texts)]


@pytest.mark.parametrize("data", [b'"A","B"\n"1"\n', b'"A"\n"un', b"\xff\xfe"])
def test_what_is_cut_short_or_no_csv_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):
        decode(data)


def test_a_byte_order_mark_is_no_part_of_the_first_column() -> None:
    assert decode("\ufeffA\n1\n".encode()) == [{"A": "1"}]
