"""What Rota writes for a spreadsheet calculates nothing there, and numbers stay readable."""

import csv
import io

import pytest

from crmsync.csvfile import csv_lines, harmless


@pytest.mark.parametrize(
    "text",
    [
        '=HYPERLINK("http://evil.example","Acme")',
        "+1+cmd|' /C calc'!A0",
        "-2+3+cmd|' /C calc'!A0",
        "@SUM(A1)",
        "\t=1+1",
        "\r=1+1",
        "  =1+1",
        "＝1+1",
    ],
)
def test_a_cell_that_a_spreadsheet_would_calculate_is_text(text):
    assert harmless(text) == f"'{text}"


@pytest.mark.parametrize("text", ["+49 30 1234567", "+44 (0)20 7946-0000", "+33123456789 x12", "-12.50", "a=b", "x@a"])
def test_phone_numbers_negative_numbers_and_plain_text_stay_as_they_are(text):
    assert harmless(text) == text


def test_a_written_table_is_read_back_and_begins_as_excel_wants_it():
    text = "".join(csv_lines([["line", "reason"], *([n, 'a "b", c\nd'] for n in range(2_500))]))
    assert text.startswith("\ufeffline,reason")
    rows = list(csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline="")))
    assert len(rows) == 2_501 and rows[-1] == ["2499", 'a "b", c\nd']
