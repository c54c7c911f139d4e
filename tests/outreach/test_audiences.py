"""Whom a campaign is for: the leads of an import, and those of a list that was pasted or came in a file."""

from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from outreach.errors import BadList
from outreach.flows import audiences
from outreach.flows.audiences import filtered, pasted, uploaded
from routing.models import Lead, LeadAddress
from tests.make import make_source, make_team, send
from tests.outreach.make import make_leads
from tests.routing.files_of_leads import imported, table

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _kept_in(settings: Any, tmp_path: Path) -> None:
    settings.IMPORT_DIR = str(tmp_path / "kept")


def known_leads(count: int) -> list[Lead]:
    """Leads that are known by their addresses, as those that came in are."""
    leads = make_leads(count)
    LeadAddress.objects.bulk_create([LeadAddress(lead=lead, kind="email", value=lead.email) for lead in leads])
    return leads


def file_with(path: Path, content: bytes) -> Path:
    path = path / "list.csv"
    path.write_bytes(content)
    return path


def test_the_leads_of_an_import_are_those_it_made_and_those_it_touched() -> None:
    source = make_source(team=make_team(reps=1))
    known = send(source=source, email="known@acme.example")
    send(source=source, email="other@acme.example")
    rows = [("known@acme.example", "A"), ("new@acme.example", "B"), ("no address", "C"), ("new@acme.example", "B")]
    row = imported(table(*rows), source=source)

    assert (row.created, row.touched, row.rejected, row.duplicate) == (1, 1, 1, 1)
    new = Lead.objects.get(email="new@acme.example")
    assert filtered(imported=row).ids == (known.pk, new.pk)
    assert filtered(imported=row, status="closed").ids == ()


def test_the_leads_of_a_file_are_found_by_its_column_of_addresses_each_once(tmp_path: Path) -> None:
    leads = known_leads(2)
    lines = ["Name;Work E-Mail;Note", f"Ann;{leads[0].email.upper()};x", f"Bo; {leads[1].email} ;", "Cy;;y"]
    lines += [f"Ann;{leads[0].email};again", "Di;nobody@acme.example;", "Di;nobody@acme.example;", "Ed;none;"]
    chosen = uploaded(file_with(tmp_path, "\r\n".join(lines).encode("utf-16")))

    assert chosen.ids == tuple(sorted(lead.pk for lead in leads))
    assert (chosen.unknown, chosen.unaddressed) == (("nobody@acme.example", "none"), 1)


@pytest.mark.parametrize("header", ["email\n", "E-mail address\n", ""])
def test_a_bare_list_of_addresses_is_a_file_too(tmp_path: Path, header: str) -> None:
    leads = known_leads(3)
    text = header + "".join(f"{lead.email}\n" for lead in leads)
    assert uploaded(file_with(tmp_path, text.encode())).ids == tuple(lead.pk for lead in leads)


def test_a_file_of_which_a_part_cannot_be_read_is_refused_with_every_line(tmp_path: Path) -> None:
    bad = b'email,name\na@acme.example,Ann\nb@acme.example,Bo,3\nc@acme.example,"Cy\nd@acme.example,Di\n'
    with pytest.raises(BadList) as refusal:
        uploaded(file_with(tmp_path, bad))
    assert refusal.value.problems == [
        "Line 3: has 3 cells where the header has 2.",
        "Line 4: a quote is opened in this row and never closed.",
    ]


def test_of_many_problems_the_first_are_said_and_how_many_more(tmp_path: Path) -> None:
    content = b"email,name\n" + b"a@acme.example,Ann\n" * 30 + b"b@acme.example\n" * 25
    with pytest.raises(BadList) as refusal:
        uploaded(file_with(tmp_path, content))
    assert len(refusal.value.problems) == 21 and refusal.value.problems[-1] == "And 5 more."


@pytest.mark.parametrize(
    ("content", "says"),
    [(b"name,town\nAnn,Bern\nBo,Basel\n", "No column looks like an e-mail address"), (b"\n\n", "The file is empty")],
)
def test_a_file_without_addresses_is_refused(tmp_path: Path, content: bytes, says: str) -> None:
    with pytest.raises(BadList, match=says):
        uploaded(file_with(tmp_path, content))
    with pytest.raises(BadList, match="Choose it again"):
        uploaded(tmp_path / "gone.csv")


def test_a_file_with_more_rows_than_a_list_may_have_is_refused(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(audiences, "ROWS_MOST", 3)
    leads = known_leads(4)
    text = "email\n" + "".join(f"{lead.email}\n" for lead in leads)
    with pytest.raises(BadList, match="more than 3 rows"):
        uploaded(file_with(tmp_path, text.encode()))


def test_an_address_means_its_open_lead_else_its_newest_pasted_and_in_a_file_alike(tmp_path: Path) -> None:
    team = make_team()
    old, still_open, newest = (
        Lead.objects.create(team=team, email="a@acme.example", status=status, closed_at=closed)
        for status, closed in (("closed", "2026-01-01T00:00Z"), ("waiting", None), ("closed", "2026-01-01T00:00Z"))
    )
    for lead in (old, still_open, newest):
        LeadAddress.objects.create(lead=lead, kind="email", value="a@acme.example", open=lead == still_open)
    path = file_with(tmp_path, b"email\nA@acme.example\n")
    assert uploaded(path).ids == pasted("A@acme.example").ids == (still_open.pk,)
    Lead.objects.filter(pk=still_open.pk).update(status="closed", closed_at="2026-01-01T00:00Z")
    assert uploaded(path).ids == pasted("a@ACME.example").ids == (newest.pk,)


def test_a_list_is_looked_up_in_a_few_statements_whatever_its_length(tmp_path: Path) -> None:
    leads = known_leads(3)
    text = "\n".join([*(lead.email for lead in leads), *(f"n{number}@acme.example" for number in range(4_000))])
    with CaptureQueriesContext(connection) as asked:
        assert pasted(text).ids == tuple(lead.pk for lead in leads)
        assert len(uploaded(file_with(tmp_path, f"email\n{text}\n".encode())).unknown) == 4_000
    assert len(asked) <= 4
