"""A file is right as a whole, or everything that is wrong with it is told by line and nothing is queued."""

from pathlib import Path
from typing import Any

import pytest

from crmsync.describe import FieldInfo, ObjectInfo
from crmsync.models import Operation
from crmsync.push.checking import Checked, Row, check, rows_of
from crmsync.push.columns import Asked
from crmsync.push.problems import Problems


def info(*fields: FieldInfo) -> ObjectInfo:
    return ObjectInfo("Contact", {one.name: one for one in fields}, {"001": "Account", "003": "Contact"})


CONTACT = info(
    FieldInfo("Rota_Id__c", "string", length=8, external_id=True),
    FieldInfo("LastName", "string", length=80, nillable=False, needed=True),
    FieldInfo("Title", "string", length=20),
    FieldInfo("Birthdate", "date"),
    FieldInfo("Name", "string", createable=False, updateable=False),
    FieldInfo("OwnerId", "reference", refers_to=("User",), relation="Owner"),
    FieldInfo("AccountId", "reference", refers_to=("Account",), relation="Account"),
    FieldInfo("Any__c", "reference", refers_to=("Account", "Contact"), relation="Any__r"),
)


def look(tmp_path: Path, text: str | bytes, *, encoding: str = "", **more: Any) -> tuple[Checked, Asked]:
    path = tmp_path / "rows.csv"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    asked = Asked(CONTACT, more.pop("operation", Operation.UPSERT), "Rota_Id__c", **more)
    return check(path, asked=asked, encoding=encoding), asked


def wrong(tmp_path: Path, text: str | bytes, **more: Any) -> list[str]:
    return [str(problem) for problem in look(tmp_path, text, **more)[0].problems.found]


def rows(tmp_path: Path, text: str, **more: Any) -> list[Row]:
    found, asked = look(tmp_path, text, **more)
    assert found.table is not None and found.columns is not None and not found.problems.count
    return list(rows_of(found.table, columns=found.columns, asked=asked, problems=Problems()))


def test_a_right_file_becomes_typed_rows_with_their_parents(tmp_path: Path) -> None:
    text = "Rota_Id__c,title,Birthdate,Account.Rota_Id__c\nC-1,CMO,2000-01-31,A-1\n\nC-2,#N/A,,\n"
    account = {"relation": "Account", "object": "Account", "external_id": "A-1"}
    assert rows(tmp_path, text) == [
        Row(2, "C-1", {"Title": "CMO", "Birthdate": "2000-01-31"}, [account]),
        Row(4, "C-2", {"Title": None}, []),
    ]


def test_parents_by_their_own_id_are_known_by_its_prefix_and_users_are_fields(tmp_path: Path) -> None:
    text = "Rota_Id__c,AccountId,Any__c,OwnerId\nC-1,001D000000IqhSL,003D000000IqhSL,005D000000IqhSL\n"
    (row,) = rows(tmp_path, text)
    assert row.fields == {"OwnerId": "005D000000IqhSLIAZ"}
    assert row.parents == [
        {"relation": "Account", "object": "Account", "crm_id": "001D000000IqhSLIAZ"},
        {"relation": "Any__r", "object": "Contact", "crm_id": "003D000000IqhSLIAZ"},
    ]


def test_the_rows_of_each_parent_are_counted(tmp_path: Path) -> None:
    text = "Rota_Id__c,Account.Rota_Id__c\nC-1,A\nC-2,a\nC-3,B\nC-4,\n"
    assert look(tmp_path, text)[0].groups == {("Account:a",): 2, ("Account:b",): 1, (): 1}


def test_everything_that_is_wrong_is_told_at_once_with_its_line(tmp_path: Path) -> None:
    text = (
        "Rota_Id__c,Title,Birthdate\n"
        "C-1,CMO,31.12.2000\n"
        ",CMO,\n"
        'C-3,"two\nlines and more than twenty",\n'
        "C-4,CMO\n"
        "c-1,CMO,\n"
        "much-too-long,CMO,\n"
    )
    assert wrong(tmp_path, text) == [
        "line 2: Birthdate is no date like 2026-12-31: “31.12.2000”.",
        "line 3: Rota_Id__c is missing.",
        "line 4: Title has 30 characters; it holds 20.",
        "line 6: Has 2 cells where the header has 3.",
        "line 7: Rota_Id__c is that of line 2, too: which of them counts?",
        "line 8: Rota_Id__c has 13 characters; it holds 8.",
    ]


def test_a_key_that_comes_twice_is_told_with_both_lines_in_any_spelling(tmp_path: Path) -> None:
    text = "Rota_Id__c,Title\nC-1,a\nC-2,a\nc-1,b\nC-1,c\n"
    assert wrong(tmp_path, text) == [
        "line 4: Rota_Id__c is that of line 2, too: which of them counts?",
        "line 5: Rota_Id__c is that of line 2, too: which of them counts?",
    ]


@pytest.mark.parametrize(
    ("header", "says"),
    [
        ("Title", "There is no column Rota_Id__c, by which the records are known."),
        ("Rota_Id__c", "There is no column beside Rota_Id__c: nothing would be changed."),
        ("Rota_Id__c,Titel", "“Titel” is no field of Contact. Is Title meant?"),
        ("Rota_Id__c,Title,title", "Columns “Title” and “title” both fill Title."),
        ("Rota_Id__c,Title,Title", "Columns “Title” and “Title” both fill Title."),
        (
            "Rota_Id__c,AccountId,Account.Rota_Id__c",
            "Columns “AccountId” and “Account.Rota_Id__c” both fill AccountId.",
        ),
        ("Rota_Id__c,Name", "“Name” cannot be written, says the org."),
        ("Rota_Id__c,Account.Name", "“Account.Name”: parents are known by Rota_Id__c, too."),
        ("Rota_Id__c,Boss.Rota_Id__c", "“Boss.Rota_Id__c”: Contact has no relation Boss."),
        ("Rota_Id__c,Any__r.Rota_Id__c", "“Any__r.Rota_Id__c” may be of Account or Contact"),
        ("Rota_Id__c,Any__r.Email", "“Any__r.Email” may be of Account or Contact: give its Salesforce id in a column"),
        ("Rota_Id__c,Owner.Rota_Id__c", "“Owner.Rota_Id__c”: give the Salesforce id in a column OwnerId."),
        ("Rota_Id__c,,Title", "Column 2 has no name."),
    ],
)
def test_a_header_that_means_nothing_in_the_org_is_refused(tmp_path: Path, header: str, says: str) -> None:
    cells = ",".join("x" for _ in header.split(","))
    assert any(says in problem for problem in wrong(tmp_path, f"{header}\n{cells}\n"))


def test_the_parent_that_was_asked_for_must_be_there(tmp_path: Path) -> None:
    text = "Rota_Id__c,Title\nC-1,x\n"
    assert wrong(tmp_path, text, parent="Account.Rota_Id__c") == [
        "line 1: There is no column Account.Rota_Id__c, which should name the parent."
    ]


def test_a_file_in_an_encoding_that_would_have_to_be_guessed_is_refused_until_somebody_says_which(
    tmp_path: Path,
) -> None:
    text = "Rota_Id__c,Title\nC-1,Schöne\n".encode("cp1252")
    assert "not in UTF-8" in wrong(tmp_path, text)[0]
    assert wrong(tmp_path, text, encoding="cp1252") == []


def test_bytes_that_are_no_utf8_are_told_by_line(tmp_path: Path) -> None:
    text = "Rota_Id__c,Title\nC-1,Schöne\nC-2,Žižkov\nC-3,".encode() + b"\xff\n"
    assert wrong(tmp_path, text) == ["line 4: Has bytes that are not UTF-8."]


def test_an_empty_file_one_without_rows_and_a_row_apart_are_refused(tmp_path: Path) -> None:
    assert wrong(tmp_path, "") == ["The file is empty."]
    assert wrong(tmp_path, "Rota_Id__c,Title\n") == ["The file has no rows below its header."]
    assert wrong(tmp_path, "Rota_Id__c,Title\nC-1,x\n\nTotal\n") == [
        "line 4: Stands apart at the end of the file: 'Total'."
    ]


def test_a_deletion_needs_the_key_only_and_says_what_it_does_not_use(tmp_path: Path) -> None:
    text = "Rota_Id__c,Title,Account.Rota_Id__c\nC-1,anything that is longer than it may be,A\n"
    assert [row.fields for row in rows(tmp_path, text, operation=Operation.DELETE)] == [{}]
    assert "A deletion does not use Title." in look(tmp_path, text, operation=Operation.DELETE)[0].notices
    assert [row.key for row in rows(tmp_path, "Rota_Id__c\nC-1\n", operation=Operation.DELETE)] == ["C-1"]


def test_an_upsert_that_could_not_create_says_so(tmp_path: Path) -> None:
    text = "Rota_Id__c,Title\nC-1,x\n"
    assert "LastName is not given" in look(tmp_path, text)[0].notices[0]
    assert look(tmp_path, text, operation=Operation.UPDATE)[0].notices == []


def test_a_hundred_problems_are_kept_and_all_are_counted(tmp_path: Path) -> None:
    found, _ = look(tmp_path, "Rota_Id__c,Birthdate\n" + "".join(f"C-{n},x\n" for n in range(250)))
    assert (found.problems.count, len(found.problems.found), found.problems.left) == (250, 100, 150)
