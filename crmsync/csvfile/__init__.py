"""Tables that people export as CSV, read and written: the one reader of imports, mass updates and audits.

    table = open_table(path)            # encoding, delimiter, preamble and header are found out and stand in the Table
    for record in table.records():      # streamed: memory does not grow with the file
        record.line, record.cells       # the line of the file where the record starts; the texts, by position
        record.problem                  # empty, or why this record cannot be used; then `cells` may be incomplete

Text stays text: nothing is turned into a number or a date. A column is addressed by its position, for a header may be
empty or come twice; `table.columns` gives every column a name of its own. What is wrong with one record spoils no
other. `Unreadable` is raised for a file that is no table at all, and says what to do. `file_digest` tells two files
apart by their bytes. `csv_lines` writes a table that a spreadsheet may open: no cell of it is a formula.
"""

from crmsync.csvfile.dialect import DELIMITERS, Dialect
from crmsync.csvfile.encoding import ENCODINGS
from crmsync.csvfile.problems import Unreadable
from crmsync.csvfile.reading import Record
from crmsync.csvfile.table import Table, file_digest, open_table, trimmed
from crmsync.csvfile.writing import csv_lines, harmless

__all__ = [
    "DELIMITERS",
    "ENCODINGS",
    "Dialect",
    "Record",
    "Table",
    "Unreadable",
    "csv_lines",
    "file_digest",
    "harmless",
    "open_table",
    "trimmed",
]
