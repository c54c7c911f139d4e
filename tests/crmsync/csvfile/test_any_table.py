"""Any table that a program can write is read back as it was, in every encoding and with every delimiter."""

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from crmsync.csvfile import open_table, trimmed
from tests.crmsync.csvfile.files import as_bytes

ENCODINGS = ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "cp1252")
DELIMITERS = (",", ";", "\t", "|")
NAMES = ("Email", "First Name", "Last Name", "Company", "Phone", "Città", "Notes", "Job Title")
any_text = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=12)
latin = st.text(st.sampled_from("abcxyz äöüéñß ,;|\t\"'\n\r0123456789.-"), max_size=12)


def tables(cell, width):
    row = st.lists(cell, min_size=width, max_size=width).filter(lambda row: any(map(str.strip, row)))
    return st.lists(row, min_size=1, max_size=8)


def read_back(content: bytes, **told):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        path.write_bytes(content)
        table = open_table(path, **told)
        records = list(table.records())
    assert not [record.problem for record in records if record.problem]
    assert not table.footer
    return table, [record.cells for record in records]


@settings(max_examples=300, deadline=None)
@given(data=st.data(), encoding=st.sampled_from(ENCODINGS), delimiter=st.sampled_from(DELIMITERS))
def test_with_the_dialect_told_any_text_at_all_is_read_back(data, encoding, delimiter):
    width = data.draw(st.integers(2, 6))
    rows = data.draw(tables(latin if encoding == "cp1252" else any_text, width))
    header = [f"column {number}" for number in range(width)]
    content = as_bytes([header, *rows], encoding=encoding, delimiter=delimiter, end="\r\n")
    table, found = read_back(content, encoding=encoding, delimiter=delimiter, header_line=1)
    assert found == rows and list(table.header) == header


@settings(max_examples=300, deadline=None)
@given(data=st.data(), encoding=st.sampled_from(ENCODINGS), delimiter=st.sampled_from(DELIMITERS))
def test_with_nothing_told_a_table_of_leads_is_read_back(data, encoding, delimiter):
    width = data.draw(st.integers(2, len(NAMES)))
    rows = [[f"n{number}@a.example", *row] for number, row in enumerate(data.draw(tables(latin, width - 1)))]
    header = [trimmed(name) for name in NAMES[:width]]
    end = data.draw(st.sampled_from(["\n", "\r\n"]))
    table, found = read_back(as_bytes([header, *rows], encoding=encoding, delimiter=delimiter, end=end))
    assert list(table.header) == header and table.header_line == 1
    assert found == rows
    assert table.dialect.delimiter == delimiter
