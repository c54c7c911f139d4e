"""The import pages: upload, the guess shown and changed, a dry run, the run, its verdicts, pause, cancel, undo."""

import csv
import io

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.urls import reverse

from routing import imports
from routing.models import Import, Lead
from tests.make import make_source, make_team
from tests.routing.files_of_leads import CASES, imported, received, table
from tests.staff import ask, confirm, listed, logged_in, page_of, said

pytestmark = pytest.mark.django_db(transaction=True)
ADD = "admin:routing_import_add"


@pytest.fixture(autouse=True)
def folder(settings, tmp_path):
    settings.IMPORT_DIR = str(tmp_path)


@pytest.fixture
def source():
    return make_source(team=make_team(reps=2))


def upload(client, content: bytes, **given):
    file = SimpleUploadedFile("leads.csv", content, "text/csv")
    return client.post(reverse(ADD), {"file": file, **given}, follow=True)


def test_an_upload_shows_how_the_file_was_understood_and_imports_nothing(source):
    client = logged_in()
    answer = upload(client, (CASES / "webinar_registrations_1000.csv").read_bytes(), source=source.pk)
    row = Import.objects.get()
    assert answer.redirect_chain == [(page_of("routing_import", row.pk), 302)]
    text = answer.content.decode()
    assert "The header is on line 6" in text and "share a phone number" in text
    assert '<option value="country" selected>' in text
    assert not Lead.objects.exists() and row.status == "received" and row.received_by == "robin"


def test_an_upload_for_a_team_makes_its_source_of_imports():
    team = make_team(reps=1)
    upload(logged_in(), table(["a@a.example", "A"]), team=team.pk)
    assert Import.objects.get().source.team == team


@pytest.mark.parametrize(
    ("content", "says"), [(b"PK\x03\x04x", "Excel workbook"), (b" ", "The file is empty"), (b"", "empty")]
)
def test_a_file_that_is_no_table_is_refused_beside_the_field(source, content, says):
    answer = upload(logged_in(), content, source=source.pk)
    assert says in answer.content.decode() and not Import.objects.exists()


def test_a_file_too_large_is_refused(source, settings):
    settings.IMPORT_MOST_MB = 1
    answer = upload(logged_in(), b"email\n" + b"a@a.example\n" * 100_000, source=source.pk)
    assert "larger than 1 MB" in answer.content.decode() and not Import.objects.exists()


def test_source_or_team_is_chosen_and_not_both(source):
    client = logged_in()
    for given in ({}, {"source": source.pk, "team": source.team_id}):
        assert "one of them" in upload(client, table(["a@a.example", "A"]), **given).content.decode()


def test_the_same_file_sent_again_leads_to_the_same_import(source):
    client = logged_in()
    for _ in range(2):
        answer = upload(client, table(["a@a.example", "A"]), source=source.pk)
    assert "is here already" in said(answer)[0] and Import.objects.count() == 1


def test_a_dry_run_then_the_import_by_the_mapping_that_was_chosen(source):
    client = logged_in()
    row = received(table(["a@a.example", "Ann"], ["bad", "Bo"], header=["email", "Rufname"]), source=source)
    page = page_of("routing_import", row.pk)
    given = {"column_0": "email", "column_1": "first_name", "match_phones": "on"}
    answer = client.post(page, {**given, "rehearse": 1})
    text = answer.content.decode()
    assert "All 2 rows" in text and "is not an e-mail address" in text and not Lead.objects.exists()
    answer = client.post(page, {**given, "start": 1}, follow=True)
    assert said(answer) == ["Started. It goes on in the background; this page may be closed."]
    assert 'http-equiv="refresh"' in answer.content.decode()
    client.post(page, {**given, "start": 1}, follow=True)
    imports.run(import_id=row.pk)
    assert Lead.objects.get().first_name == "Ann"
    text = client.get(page).content.decode()
    assert "2 of 2 rows" in text and 'http-equiv="refresh"' not in text


def test_a_mapping_that_cannot_be_is_refused_in_words(source):
    row = received(table(["a@a.example", "A"]), source=source)
    answer = logged_in().post(page_of("routing_import", row.pk), {"column_1": "email", "column_0": "email", "start": 1})
    assert "Two columns are mapped to email" in said(answer)[0]
    row.refresh_from_db()
    assert row.status == "received" and row.mapping == ["email", "full_name"]


def test_the_reading_can_be_changed(source):
    row = received(b"x;y\nemail;name\na@a.example;M\xfcller\n", source=source)
    told = {"encoding": "cp1252", "delimiter": ";", "header_line": 1, "read": 1}
    logged_in().post(page_of("routing_import", row.pk), told, follow=True)
    row.refresh_from_db()
    assert row.columns == ["x", "y"] and row.header_line == 1


def test_the_verdicts_are_had_by_who_may_see_leads(source):
    row = imported(CASES / "bad_row_in_the_middle.csv", source=source)
    path = reverse("admin:routing_import_verdicts", args=[row.pk])
    answer = logged_in().get(path)
    rows = list(csv.reader(io.StringIO(b"".join(answer.streaming_content).decode("utf-8-sig"))))
    assert [each[1] for each in rows[1:]] == ["created", "rejected", "rejected", "created"]
    assert logged_in("kim", may=("view_import",)).get(path).status_code == 403


def test_who_may_only_look_can_change_nothing(source):
    client = logged_in(may=("view_import", "view_lead"))
    row = received(table(["a@a.example", "A"]), source=source)
    assert client.get(reverse(ADD)).status_code == 403
    assert client.get(page_of("routing_import", row.pk)).status_code == 200
    assert client.post(page_of("routing_import", row.pk), {"column_0": "email", "start": 1}).status_code == 403
    ask(client, "routing_import", "cancel_selected", row.pk)
    row.refresh_from_db()
    assert row.status == "received"


def test_pause_resume_cancel_and_undo_ask_first_and_say_what_came_of_it(source):
    client = logged_in()
    row = received(table(["a@a.example", "A"]), source=source)
    imports.start(row=row)
    for action, status in (("pause", "paused"), ("resume", "running")):
        assert ask(client, "routing_import", f"{action}_selected", row.pk).status_code == 200
        answer = confirm(client, "routing_import", f"{action}_selected", row.pk)
        assert said(answer)[0].startswith(f"{action.capitalize()}d 1.")
        row.refresh_from_db()
        assert row.status == status
    imports.run(import_id=row.pk)
    assert "already" in said(confirm(client, "routing_import", "cancel_selected", row.pk))[0]
    asked = ask(client, "routing_import", "undo_selected", row.pk)
    assert "1 leads that they made" in asked.content.decode()
    answer = confirm(client, "routing_import", "undo_selected", row.pk)
    assert "closed 1 lead." in said(answer)[0]
    assert Lead.objects.get().status == "closed"
    text = client.get(page_of("routing_import", row.pk)).content.decode()
    assert "Undone" in text and "closed 1 lead" in text
    assert client.get(listed("routing_import")).status_code == 200
