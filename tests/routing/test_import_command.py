"""`import_leads` does what its help says, answers in one line of JSON, and its exit code tells how it went."""

import csv
import json

import pytest
from django.core.management import CommandError, call_command

from routing.models import Import, Lead
from tests.make import make_source, make_team
from tests.routing.files_of_leads import CASES, table

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def folder(settings, tmp_path):
    settings.IMPORT_DIR = str(tmp_path / "kept")


def run(capsys, *words: object) -> tuple[dict, int]:
    code = 0
    try:
        call_command("import_leads", *map(str, words), "--json")
    except SystemExit as stop:
        code = int(stop.code or 0)
    return json.loads(capsys.readouterr().out.splitlines()[-1]), code


def test_a_file_for_a_team_is_imported_with_its_guess_told(capsys):
    team = make_team(name="Inbound", reps=2)
    found, code = run(capsys, CASES / "webinar_registrations_1000.csv", "--team", "inbound")
    assert code == 0
    assert (found["records"], found["created"], found["rejected"], found["status"]) == (1_000, 1_000, 0, "finished")
    assert found["mapping"]["Country/Region"] == "country" and found["header_line"] == 6
    assert not found["match_phones"]
    assert set(Lead.objects.values_list("team", flat=True)) == {team.pk}


def test_a_dry_run_gives_the_same_verdicts_and_leaves_nothing(capsys):
    source = make_source()
    words = (CASES / "bad_row_in_the_middle.csv", "--source", source.slug)
    dry, dry_code = run(capsys, *words, "--dry-run")
    assert not Lead.objects.exists() and not Import.objects.exists()
    real, code = run(capsys, *words)
    assert code == dry_code == 3, "some rows were rejected"
    for name in ("records", "created", "touched", "duplicate", "rejected", "problems", "mapping"):
        assert dry[name] == real[name]
    assert [problem["line"] for problem in real["problems"]] == [3, 4]


def test_columns_are_mapped_by_name_or_by_position(capsys, tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(table(["Pat", "x", "a@a.example"], header=["Rufname", "kind", "Erreichbar"]))
    found, code = run(
        capsys, path, "--source", make_source().slug, "--map", "Rufname=first_name", "2=", "--map", "3=email"
    )
    assert code == 0 and found["created"] == 1
    lead = Lead.objects.get()
    assert (lead.first_name, lead.email, lead.fields) == ("Pat", "a@a.example", {})


def test_every_row_can_be_had_with_its_verdict(capsys, tmp_path):
    path = tmp_path / "verdicts.csv"
    run(capsys, CASES / "bad_row_in_the_middle.csv", "--source", make_source().slug, "--verdicts", path)
    rows = list(csv.reader(path.read_text("utf-8-sig").splitlines()))
    assert [row[:2] for row in rows[1:]] == [["2", "created"], ["3", "rejected"], ["4", "rejected"], ["5", "created"]]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--source", "nowhere"), "There is no source nowhere"),
        (("--team", "nobody"), "There is no team nobody"),
        (("--team", "Inbound", "--map", "9=email"), "There is no column '9'"),
        (("--team", "Inbound", "--map", "email="), "e-mail address or the phone number"),
        (("--team", "Inbound", "--encoding", "klingon"), "no encoding"),
        (("--team", "Inbound", "--header-line", "99"), "No row starts on line 99"),
    ],
)
def test_wrong_use_is_told_with_what_to_do_and_exit_2(words, says):
    make_team(name="Inbound", reps=1)
    with pytest.raises(CommandError, match=says) as refusal:
        call_command("import_leads", str(CASES / "semicolon.csv"), *words)
    assert refusal.value.returncode == 2
    assert not Import.objects.exists()


def test_a_file_that_is_not_there_is_wrong_use():
    make_team(name="Inbound", reps=1)
    with pytest.raises(CommandError, match="No such file") as refusal:
        call_command("import_leads", "nowhere.csv", "--team", "Inbound")
    assert refusal.value.returncode == 2
