"""The command that gives out waiting leads says what it did, in words or JSON, and by its exit code."""

import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, transaction

from routing import members
from routing.models import Assignment, Membership, Rep, Team
from tests.make import make_lead, make_team
from tests.routing.rows import waiting

pytestmark = pytest.mark.django_db(transaction=True)


def run(*words: Any) -> tuple[int, dict[str, Any], str]:
    """Exit code, the JSON object in the last line of stdout, and stderr."""
    out, err = StringIO(), StringIO()
    code = 0
    try:
        call_command("assign_waiting", *map(str, words), "--json", stdout=out, stderr=err)
    except SystemExit as end:
        code = int(end.code or 0)
    except CommandError as refusal:
        return refusal.returncode, {}, str(refusal)
    return code, json.loads(out.getvalue().splitlines()[-1]), err.getvalue()


def figures(done: dict[str, Any]) -> tuple[int, int, int]:
    return done["taken"], done["waiting"], done["gone"]


@pytest.fixture
def two_teams():
    """Two teams, Alpha and Beta, with three and two waiting leads."""
    alpha, beta = make_team(name="Alpha", reps=2), make_team(name="Beta", reps=1)
    for team, count in ((alpha, 3), (beta, 2)):
        for _ in range(count):
            make_lead(team=team)
    return alpha, beta


def test_without_more_words_every_team_is_swept(two_teams):
    code, done, said = run()
    assert (code, figures(done)) == (0, (5, 0, 0))
    assert len(said.splitlines()) == 2, "progress goes to stderr"
    assert figures(run()[1]) == (0, 0, 0)


@pytest.mark.parametrize("word", ["Alpha", "alpha", "id"])
def test_a_team_is_meant_by_its_name_in_any_case_or_by_its_id(two_teams, word):
    alpha, beta = two_teams
    assert figures(run("--team", alpha.pk if word == "id" else word)[1]) == (3, 0, 0)
    assert len(waiting(beta)) == 2


def test_exactly_the_leads_asked_for_are_given_out_before_older_ones(two_teams):
    alpha, beta = two_teams
    asked = [waiting(alpha)[2], waiting(beta)[1]]
    code, done, _ = run("--lead", *asked)
    assert (code, figures(done)) == (0, (2, 0, 0))
    assert sorted(Assignment.objects.values_list("lead_id", flat=True)) == sorted(asked)
    assert done["given"].keys() == {str(lead) for lead in asked}


def test_leads_asked_for_that_wait_on_make_the_exit_code_3(two_teams):
    alpha, beta = two_teams
    with transaction.atomic():
        members.set_active(memberships=Membership.objects.filter(team=beta), active=False)
    code, done, _ = run("--lead", waiting(alpha)[0], waiting(beta)[0])
    assert (code, figures(done)) == (3, (1, 1, 0))


def test_a_lead_that_waits_no_longer_is_told_apart_and_is_no_failure(two_teams):
    alpha, _ = two_teams
    lead = waiting(alpha)[0]
    run("--lead", lead)
    code, done, _ = run("--lead", lead)
    assert (code, figures(done)) == (0, (0, 0, 1))


@pytest.mark.parametrize("words", [[], ["--team", "Alpha"], ["--lead"]])
def test_a_dry_run_says_what_would_be_taken_and_changes_nothing(two_teams, words):
    alpha, _ = two_teams
    words = [*words, *waiting(alpha)[1:]] if words == ["--lead"] else words
    rehearsed = run("--dry-run", *words)[1]
    assert rehearsed["dry_run"] is True and not Assignment.objects.exists()
    assert rehearsed["taken"] == run(*words)[1]["taken"] > 0
    assert rehearsed["given"] == {
        str(lead): rep for lead, rep in Assignment.objects.values_list("lead_id", "membership__rep_id")
    }


@pytest.mark.parametrize(
    "words",
    [
        ["--team", "Gamma"],
        ["--team", "999999999999999999999999"],
        ["--lead", "999999999"],
        ["--lead", "pat"],
        ["--lead"],
        ["--unknown"],
    ],
)
def test_a_word_that_means_nothing_is_a_usage_error(two_teams, words):
    code, _, said = run(*words)
    assert said and code in (1, 2)  # argparse's own errors end the process with 2 when run from a shell
    if words[0] == "--team" or words[1:] == ["999999999"]:
        assert code == 2
    assert not Assignment.objects.exists()


def test_a_lead_of_another_team_and_a_retired_team_are_usage_errors(two_teams):
    alpha, beta = two_teams
    assert run("--team", "Alpha", "--lead", waiting(beta)[0])[0] == 2
    with transaction.atomic():
        members.retire_teams(teams=Team.objects.filter(pk=beta.pk))
    assert run("--team", "Beta")[0] == 2


def test_without_json_the_same_figures_come_in_words(two_teams):
    out = StringIO()
    call_command("assign_waiting", stdout=out, stderr=StringIO())
    assert out.getvalue() == "taken 5, waiting 0, busy 0, set_aside 0, gone 0.\n"


def test_a_fault_of_the_database_ends_with_exit_code_1_and_no_values(two_teams):
    alpha, _ = two_teams
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE routing_assignment ADD CONSTRAINT nobody CHECK (turn < 1) NOT VALID")
    try:
        code, _, said = run("--lead", waiting(alpha)[0])
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE routing_assignment DROP CONSTRAINT nobody")
    assert (code, said) == (1, "The database refused: CheckViolation. Run it again.")
    assert len(waiting(alpha)) == 3 and Rep.objects.exists()
