"""A file of leads goes the road of the webhook: the same normaliser, rules and outcomes; every row has a verdict."""

import csv
import io
import uuid
from collections import Counter

import pytest
from django.db import connection

from routing import import_states, imports
from routing.errors import BadFile, BadMapping, ImportTaken
from routing.import_files import path_of
from routing.import_report import verdict_lines
from routing.import_source import source_for_team
from routing.models import Assignment, ColumnMap, Import, ImportRow, InboundEvent, Lead, LeadAddress
from routing.sweep import sweep_team
from tests.make import make_account, make_rep, make_source, make_team, publish_rules, send
from tests.routing.files_of_leads import CASES, imported, reasons, received, table, verdicts

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def folder(settings, tmp_path):
    settings.IMPORT_DIR = str(tmp_path)


@pytest.fixture
def source():
    return make_source(team=make_team(reps=3))


def counts(row: Import) -> tuple[int, int, int, int]:
    return row.created, row.touched, row.duplicate, row.rejected


def test_a_webinars_registrations_go_in_with_no_mapping_by_hand(source):
    text = (CASES / "webinar_registrations_1000.csv").read_text("utf-8-sig").split("Attendee Details\n")[1]
    people = list(csv.DictReader(io.StringIO(text)))
    row = imported(CASES / "webinar_registrations_1000.csv", source=source)
    assert row.status == "finished"
    assert counts(row) == (len({each["Email"].lower() for each in people}), 0, 0, 0) == (1_000, 0, 0, 0)
    assert any("share a phone number" in notice for notice in row.notices)
    for each in people[::97]:
        lead = Lead.objects.get(email__iexact=each["Email"])
        assert (lead.first_name, lead.last_name) == (each["First Name"], each["Last Name"])
        assert (lead.company, lead.country) == (each["Organization"], each["Country/Region"])
        assert lead.fields["zip_postal_code"] == each["Zip/Postal Code"], "a zero at the beginning stays"
        assert lead.fields["no_of_employees"] == each["No. of Employees"]


def test_linkedins_leads_go_in_with_no_mapping_by_hand(source):
    people = list(csv.DictReader(io.StringIO((CASES / "linkedin_leads_200.csv").read_text("utf-8"))))
    row = imported(CASES / "linkedin_leads_200.csv", source=source)
    assert counts(row) == (len({each["Email Address"].lower() for each in people}), 0, 0, 0) == (200, 0, 0, 0)
    found = {lead.email.lower(): lead for lead in Lead.objects.all()}
    for each in people:
        lead = found[each["Email Address"].lower()]
        assert (lead.first_name, lead.last_name) == (each["First Name"], each["Last Name"])
        assert (lead.company, lead.country) == (each["Company Name"], each["Country"])
        assert lead.fields["job_title"] == each["Job Title"] and lead.fields["lead_id"] == each["Lead ID"]


def test_imported_leads_wait_in_the_order_of_the_file_and_are_given_out_by_turns(source):
    row = imported(CASES / "linkedin_leads_200.csv", source=source)
    assert row.created == 200 and Lead.objects.waiting().count() == 200
    sweep_team(team_id=source.team_id)
    taken = Counter(Assignment.objects.values_list("membership__rep__name", flat=True))
    assert sum(taken.values()) == 200 and max(taken.values()) - min(taken.values()) <= 1
    in_turn = Assignment.objects.order_by("turn").values_list("lead__email", flat=True)
    lines = ImportRow.objects.filter(of=row).order_by("line").values_list("lead__email", flat=True)
    assert list(in_turn) == list(lines)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("bad_row_in_the_middle", (2, 0, 0, 2)),
        ("bom_header", (1, 0, 0, 0)),
        ("case_and_space", (1, 0, 1, 0)),
        ("cp1252", (1, 0, 0, 0)),
        ("duplicate_header", (1, 0, 0, 0)),
        ("formula", (1, 0, 0, 0)),
        ("leading_zero", (1, 0, 0, 0)),
        ("nbsp_and_zero_width", (1, 0, 1, 1)),
        ("quoted_newline", (2, 0, 0, 0)),
        ("semicolon", (1, 0, 0, 0)),
        ("spreadsheet_number", (1, 0, 0, 0)),
    ],
)
def test_every_small_case_is_imported_as_it_was_meant(source, name, expected):
    assert counts(imported(CASES / f"{name}.csv", source=source)) == expected


def test_a_bad_row_in_the_middle_is_reported_with_its_line_and_the_others_go_in(source):
    row = imported(CASES / "bad_row_in_the_middle.csv", source=source)
    assert verdicts(row) == [(2, "created"), (3, "rejected"), (4, "rejected"), (5, "created")]
    assert reasons(row) == {
        3: "email is not an e-mail address",
        4: "email is missing: a lead needs an e-mail address or a phone number",
    }


def test_the_same_address_in_another_case_is_the_same_lead(source):
    row = imported(CASES / "case_and_space.csv", source=source)
    assert verdicts(row) == [(2, "created"), (3, "duplicate")]
    assert reasons(row) == {3: "the same lead as line 2"}
    assert LeadAddress.objects.get().value == "pat@a.example"


def test_a_no_break_space_goes_from_the_ends_and_is_an_error_inside(source):
    row = imported(CASES / "nbsp_and_zero_width.csv", source=source)
    assert verdicts(row) == [(2, "created"), (3, "duplicate"), (4, "rejected")]
    assert Lead.objects.get().email == "pat@a.example"


def test_text_stays_text(source):
    imported(CASES / "leading_zero.csv", source=source)
    lead = Lead.objects.get()
    assert lead.fields == {"zip": "01067", "phone_as_given": "0444123456"}
    imported(table(["31182", "p@a.example"], ["15/05/1985", "q@a.example"], header=["born", "email"]), source=source)
    assert list(Lead.objects.order_by("pk").values_list("fields__born", flat=True))[1:] == ["31182", "15/05/1985"]


def test_a_phone_number_that_a_spreadsheet_shortened_is_no_address(source):
    imported(CASES / "spreadsheet_number.csv", source=source)
    lead = Lead.objects.get()
    assert (lead.phone, lead.fields) == ("", {"phone_as_given": "4.41E+11"})
    row = imported(table(["4.41E+11", "Pat"], header=["phone", "name"]), source=source)
    assert "shortened by a spreadsheet" in reasons(row)[2]


def test_two_columns_of_one_name_are_kept_apart(source):
    row = imported(CASES / "duplicate_header.csv", source=source)
    assert row.columns == ["email", "phone", "phone (2)"]
    lead = Lead.objects.get()
    assert lead.fields == {"phone_as_given": "111", "phone_2": "222"}


def test_rows_that_end_in_a_delimiter_go_in_too(source):
    row = imported(b"email,name\na@a.example,A,\nb@b.example,B,\n", source=source)
    assert counts(row) == (2, 0, 0, 0), reasons(row)


def test_a_file_without_a_header_loses_no_row(source):
    row = imported(b"a@a.example,A\nb@b.example,B\n", source=source)
    assert counts(row) == (2, 0, 0, 0) and row.header_line == 0
    assert any("no header" in notice for notice in row.notices)


def test_letters_beyond_ascii_are_kept(source):
    row = imported(CASES / "cp1252.csv", source=source)
    assert Lead.objects.get().last_name == "Müller"
    assert "Windows-1252" in row.notices[0]


def test_a_formula_goes_in_as_it_is_and_comes_out_harmless(source):
    row = imported(CASES / "formula.csv", source=source)
    assert Lead.objects.get().company.startswith("=HYPERLINK")
    rows = list(csv.reader(io.StringIO("".join(verdict_lines(row=row)).removeprefix("\ufeff"))))
    assert rows[0] == ["line", "verdict", "reason", "lead", "email", "company"]
    assert rows[1][:2] == ["2", "created"]
    assert rows[1][5].startswith("'=HYPERLINK")


def test_the_verdicts_of_a_paused_import_are_those_there_are(source):
    row = imported(CASES / "bad_row_in_the_middle.csv", source=source)
    path_of(row.digest).unlink()
    rows = list(csv.reader(io.StringIO("".join(verdict_lines(row=row)).removeprefix("\ufeff"))))
    assert [each[1] for each in rows[1:]] == ["created", "rejected", "rejected", "created"]


def test_records_are_counted_and_not_lines(source):
    row = imported(CASES / "quoted_newline.csv", source=source)
    assert (row.total, row.position) == (2, 2)
    assert verdicts(row) == [(2, "created"), (4, "created")]


def test_an_open_lead_is_touched_and_a_closed_one_comes_back_as_a_new_lead(source):
    known = send(source=source, email="a@a.example")
    gone = send(source=source, email="b@a.example")
    imports_of_close(gone)
    row = imported(table(["A@a.example", "A"], ["b@a.example", "B"]), source=source)
    assert verdicts(row) == [(2, "touched"), (3, "created")]
    assert ImportRow.objects.get(of=row, line=2).lead_id == known.pk
    assert Lead.objects.get(pk=ImportRow.objects.get(of=row, line=3).lead_id).previous_id == gone.pk
    assert set(known.events.values_list("outcome", flat=True)) == {"created", "touched"}


def imports_of_close(lead):
    from routing.by_hand import close_now

    close_now(lead_ids=[lead.pk])


def test_the_same_file_again_creates_nothing(source):
    first = imported(CASES / "linkedin_leads_200.csv", source=source)
    again = imported(CASES / "linkedin_leads_200.csv", source=source)
    assert counts(first) == (200, 0, 0, 0)
    assert counts(again) == (0, 0, 200, 0)
    assert set(reasons(again).values()) == {"this row was imported before"}
    assert Lead.objects.count() == InboundEvent.objects.count() == 200


def test_the_same_file_for_another_source_touches_and_creates_nothing(source):
    imported(CASES / "linkedin_leads_200.csv", source=source)
    again = imported(CASES / "linkedin_leads_200.csv", source=make_source())
    assert counts(again) == (0, 200, 0, 0)


def test_somebody_who_comes_twice_in_a_file_of_several_chunks_is_one_lead(source, monkeypatch):
    monkeypatch.setattr(imports, "CHUNK", 2)
    rows = [
        ["a@a.example", "A"],
        ["b@a.example", "B"],
        ["c@a.example", "C"],
        ["A@A.example", "A"],
        ["c@a.example", "C"],
    ]
    row = imported(table(*rows), source=source)
    assert reasons(row) == {5: "the same lead as line 2", 6: "the same lead as line 4"}
    assert counts(row) == (3, 0, 2, 0)


def test_addresses_that_join_two_rows_of_one_file_make_one_lead(source):
    rows = [
        ["a@a.example", "+44 20 7946 0001"],
        ["b@a.example", "+44 20 7946 0001"],
        ["b@a.example", "+44 20 7946 0002"],
        ["", "+44 20 7946 0002"],
    ]
    row = imported(table(*rows, header=["email", "phone"]), source=source, match_phones=True)
    assert counts(row) == (1, 0, 3, 0)
    assert LeadAddress.objects.filter(lead=Lead.objects.get()).count() == 4
    row = imported(table(*rows, header=["email", "Phone"]), source=make_source(), match_phones=False)
    assert counts(row) == (0, 1, 3, 0)


def test_a_rehearsal_gives_the_verdicts_of_the_import_and_writes_nothing(source, monkeypatch):
    monkeypatch.setattr(imports, "CHUNK", 3)
    send(source=source, email="known@a.example", phone="+44 20 7946 0009")
    rows = [
        ["a@a.example", "+44 20 7946 0001"],
        ["bad", ""],
        ["Known@a.example", "+44 20 7946 0003"],
        ["b@a.example", "+44 20 7946 0001"],
        ["c@a.example", "+44 20 7946 0003"],
        ["d@a.example", "+44 20 7946 0009"],
        ["b@a.example", ""],
        ["d@a.example", ""],
        ["e@a.example", ""],
        ["", "+44 20 7946 0003"],
    ]
    row = received(table(*rows, header=["email", "phone"]), source=source, match_phones=True)
    before = [model.objects.count() for model in (Lead, LeadAddress, InboundEvent, ImportRow)]
    rehearsed = imports.rehearse(row=row)
    assert [model.objects.count() for model in (Lead, LeadAddress, InboundEvent, ImportRow)] == before
    imports.start(row=row)
    done = imports.run(import_id=row.pk)
    assert rehearsed.records == done.position == len(rows)
    assert counts(done) == tuple(rehearsed.verdicts[name] for name in ("created", "touched", "duplicate", "rejected"))
    assert counts(done) == (2, 1, 6, 1)
    assert rehearsed.problems == [{"line": 3, "reason": "email is not an e-mail address"}]


def test_rules_owners_and_sticky_owners_decide_as_for_a_webhook(source):
    emea, owner = make_team(reps=1), make_rep()
    with_owner = make_team()
    from tests.make import make_member

    member = make_member(team=with_owner, rep=owner)
    make_account(domains=("big.example",), owner=owner)
    publish_rules({"team": emea, "conditions": [("country", "in_country", "DE, FR")]})
    rows = [["a@a.example", "Germany"], ["b@sub.big.example", "US"], ["c@c.example", "US"]]
    imported(table(*rows, header=["email", "country"]), source=source)
    single = {lead.email: send(source=source, email=f"other-{lead.email}", country=lead.country) for lead in leads()}
    for lead in leads():
        if lead.email in single:
            twin = single[lead.email]
            assert (lead.team_id, lead.preferred_id, lead.account_id) == (
                twin.team_id,
                twin.preferred_id,
                twin.account_id,
            )
            assert lead.why == twin.why, "the explanation, too, is the webhook's"
    assert Lead.objects.get(email="a@a.example").team == emea
    assert Lead.objects.get(email="b@sub.big.example").preferred == member


def leads():
    return list(Lead.objects.exclude(email__startswith="other-").order_by("pk"))


def test_a_mapping_is_remembered_for_files_with_the_same_header(source):
    content = table(["a@a.example", "Ann"], header=["Kontakt", "Rufname"])
    row = received(content, source=source, mapping=["email", "first_name"])
    imports.start(row=row)
    imports.run(import_id=row.pk)
    again = received(table(["b@a.example", "Bo"], header=["KONTAKT ", "rufname"]), source=source)
    assert again.mapping == ["email", "first_name"]
    assert ColumnMap.objects.count() == 1


def test_a_mapping_without_an_address_or_with_a_field_twice_is_refused(source):
    row = received(table(["x", "y"], header=["a", "b"]), source=source)
    assert any("No column looks like" in notice for notice in row.notices)
    with pytest.raises(BadMapping, match="which column has the e-mail address"):
        imports.start(row=row)
    with pytest.raises(BadMapping, match="Two columns"):
        received(table(["x", "y"], header=["c", "d"]), source=source, mapping=["email", "email"])
    assert Import.objects.get().status == "received"


def test_a_paused_import_stops_after_its_chunk_and_goes_on_where_it_was(source, monkeypatch):
    monkeypatch.setattr(imports, "CHUNK", 50)
    row = received(CASES / "linkedin_leads_200.csv", source=source)
    imports.start(row=row)

    def pause(at):
        if at.position == 100:
            assert import_states.pause(import_ids=[row.pk]) == 1

    with pytest.raises(ImportTaken):
        imports.run(import_id=row.pk, say=pause)
    row.refresh_from_db()
    assert (row.status, row.position, Lead.objects.count()) == ("paused", 100, 100)
    with pytest.raises(ImportTaken):
        imports.run(import_id=row.pk)
    assert imports.start(row=row)
    assert counts(imports.run(import_id=row.pk)) == (200, 0, 0, 0)


def test_a_cancelled_import_keeps_what_is_in_and_the_file_may_come_again(source, monkeypatch):
    monkeypatch.setattr(imports, "CHUNK", 50)
    row = received(CASES / "linkedin_leads_200.csv", source=source)
    imports.start(row=row)
    with pytest.raises(ImportTaken):
        imports.run(import_id=row.pk, say=lambda at: import_states.cancel(import_ids=[row.pk]))
    row.refresh_from_db()
    assert (row.status, row.position) == ("cancelled", 50)
    assert not imports.start(row=row)
    again = imported(CASES / "linkedin_leads_200.csv", source=source)
    assert counts(again) == (150, 0, 50, 0)


def test_a_worker_whose_lease_ran_out_writes_nothing_more(source, monkeypatch):
    monkeypatch.setattr(imports, "CHUNK", 50)
    row = received(CASES / "linkedin_leads_200.csv", source=source)
    imports.start(row=row)

    def another_takes_over(at):
        if at.position == 50:
            Import.objects.filter(pk=row.pk).update(leased_until="2020-01-01T00:00:00Z")
            import_states.claim(import_id=row.pk)

    with pytest.raises(ImportTaken):
        imports.run(import_id=row.pk, say=another_takes_over)
    assert Lead.objects.count() == 50


def test_a_second_worker_does_not_begin_while_the_first_is_at_it(source):
    row = received(CASES / "linkedin_leads_200.csv", source=source)
    imports.start(row=row)
    import_states.claim(import_id=row.pk)
    with pytest.raises(ImportTaken):
        imports.run(import_id=row.pk)
    assert Lead.objects.count() == 0


def test_one_file_has_one_open_import_for_a_source_however_often_it_is_sent(source):
    first = received(CASES / "linkedin_leads_200.csv", source=source)
    assert received(CASES / "linkedin_leads_200.csv", source=source).pk == first.pk
    imports.start(row=first)
    assert not imports.start(row=first), "a second start, of a reload or another tab, does nothing"
    assert received(CASES / "linkedin_leads_200.csv", source=source).pk == first.pk


def test_an_import_left_behind_is_asked_for_by_the_sweep(source):
    row = received(CASES / "linkedin_leads_200.csv", source=source)
    imports.start(row=row)
    assert imports.ask_for_unattended() == 1
    import_states.claim(import_id=row.pk)
    assert imports.ask_for_unattended() == 0
    Import.objects.update(leased_until="2020-01-01T00:00:00Z")
    assert imports.ask_for_unattended() == 1


def test_a_task_does_a_bounded_piece_and_the_next_goes_on(source, monkeypatch):
    monkeypatch.setattr(imports, "CHUNK", 50)
    row = received(CASES / "linkedin_leads_200.csv", source=source)
    imports.start(row=row)
    row.refresh_from_db()
    pieces = 0
    while row.status == "running":
        row = imports.run(import_id=row.pk, budget_s=0)
        pieces += 1
    assert pieces >= 4 and counts(row) == (200, 0, 0, 0)


def test_a_row_that_the_database_refuses_is_rejected_and_the_others_go_in(source):
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE routing_lead ADD CONSTRAINT no_such_company CHECK (company <> 'Unlucky') NOT VALID")
    try:
        rows = [[f"n{n}@a.example", "Unlucky" if n == 7 else "Acme"] for n in range(20)]
        row = imported(table(*rows, header=["email", "company"]), source=source)
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE routing_lead DROP CONSTRAINT no_such_company")
    assert counts(row) == (19, 0, 0, 1)
    assert reasons(row) == {9: "the database refused it: CheckViolation"}


def test_a_file_that_is_gone_fails_the_import_with_what_to_do(source):
    row = received(CASES / "linkedin_leads_200.csv", source=source)
    imports.start(row=row)
    path_of(row.digest).unlink()
    row = imports.run(import_id=row.pk)
    assert row.status == "failed" and "upload it again" in row.problem
    path_of(row.digest).write_bytes((CASES / "linkedin_leads_200.csv").read_bytes())
    assert imports.start(row=row)
    assert imports.run(import_id=row.pk).status == "finished"


def test_a_file_that_is_no_table_is_refused_before_anything_is_saved(source):
    with pytest.raises(BadFile, match="Excel workbook"):
        received(b"PK\x03\x04" + uuid.uuid4().bytes, source=source)
    assert not Import.objects.exists()


def test_a_teams_own_source_of_imports_is_made_once_and_has_no_webhook():
    team = make_team(reps=1)
    assert source_for_team(team=team) == source_for_team(team=team)
    assert not source_for_team(team=team).active
    assert imported(table(["a@a.example", "A"]), source=source_for_team(team=team)).created == 1
    assert Lead.objects.get().team == team


EXPORTS = {
    "meta": (
        "id\tcreated_time\temail\tfull_name\tphone_number\tcompany_name\n"
        "l:1\t2026-11-01\ta@a.example\tPat van Dam\tp:+442079460001\tAcme\n"
    ).encode("utf-16"),
    "hubspot": b"Record ID,First Name,Last Name,Email,Phone Number,Associated Company\n"
    b"1,Pat,van Dam,a@a.example,+442079460001,Acme\n",
    "salesforce report": b'"First Name","Last Name","Company / Account","Email","Phone"\n'
    b'"Pat","van Dam","Acme","a@a.example","+44 20 7946 0001"\n'
    b'\n"Leads of the week"\n"Copyright (c) 2026"\n"Generated By:","Kim"\n',
    "german": (
        "Vorname;Nachname;E-Mail-Adresse;Firma;Telefon;Größe\nPat;van Dam;a@a.example;Acme;+442079460001;\n"
    ).encode("cp1252"),
    "french": "Nom;Prénom;Courriel;Société;Téléphone\nvan Dam;Pat;a@a.example;Acme;+442079460001\n".encode(),
}


@pytest.mark.parametrize("content", EXPORTS.values(), ids=EXPORTS)
def test_the_usual_exports_need_no_mapping(source, content):
    row = imported(content, source=source)
    assert counts(row) == (1, 0, 0, 0), reasons(row)
    lead = Lead.objects.get()
    assert (lead.first_name, lead.last_name, lead.email) == ("Pat", "van Dam", "a@a.example")
    assert (lead.company, lead.phone) == ("Acme", "+442079460001")
