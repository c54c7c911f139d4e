"""Reps are told of their leads: each assignment once, a burst in one mail, nothing of what moved on."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext

from outreach.flows.notices import send_notices
from outreach.mail.notice import Told, compose_notice
from outreach.mail.outcome import Outcome
from outreach.models import Notice, NoticeMail, SendingState
from outreach.moves.notices import LATE_COMMIT_S, begin_new, reap_notices, settle_notice, start_telling
from outreach.moves.sending import switch_off
from routing import leads
from routing.models import Assignment, Lead, Rep, Team
from routing.reassign import decline
from routing.turns import take_turns
from tests.make import make_lead, make_source, make_team
from tests.outreach.make import SILENCE, switched_on
from tests.outreach.relays import DROP, scripted, sink
from tests.outreach.test_sender import relay_at
from tests.races.crowd import take_in

pytestmark = pytest.mark.django_db(transaction=True)

FROM = "leads@rota.example"


def notices_at(settings: Any, port: int) -> None:
    """Notices leave through a relay on this port, from now on."""
    relay_at(settings, port, NOTICE_FROM=FROM)
    switched_on()
    start_telling()


def assigned(team: Team, count: int) -> list[Assignment]:
    made = [make_lead(team=team, first_name="Ann", company="Acme") for _ in range(count)]
    take_turns(team_id=team.pk, most=1_000)
    return list(Assignment.objects.current().filter(lead__in=made).order_by("pk"))


def test_a_burst_is_one_mail_to_each_rep_and_every_assignment_is_told_of_once(settings: Any, tmp_path: Path) -> None:
    team = make_team(reps=3)
    with sink(tmp_path) as relay:
        notices_at(settings, relay.port)
        turns = assigned(team, 30)
        done, again = send_notices(worker="w1"), send_notices(worker="w2")
        assert (done.sent, done.told, again.sent) == (3, 30, 0)
        assert relay.addresses() == dict.fromkeys(Rep.objects.values_list("email", flat=True), 1)
    assert sorted(Notice.objects.values_list("assignment", flat=True)) == [turn.pk for turn in turns]


def test_who_gets_more_than_fifty_at_once_gets_the_rest_in_a_second_mail(settings: Any, tmp_path: Path) -> None:
    with sink(tmp_path) as relay:
        notices_at(settings, relay.port)
        assigned(make_team(reps=1), 60)
        assert send_notices(worker="w1").sent == 2
        assert set(relay.deliveries().values()) == {1}, "each with a Message-ID of its own"
    assert sorted(mail.notices.count() for mail in NoticeMail.objects.all()) == [10, 50]


def test_nobody_is_told_of_a_lead_that_moved_on_but_its_next_rep_is(settings: Any, tmp_path: Path) -> None:
    team = make_team(reps=2)
    with sink(tmp_path) as relay:
        notices_at(settings, relay.port)
        first, second = assigned(team, 2)
        decline(lead_id=first.lead_id, by="Kim", reason="not mine")
        assert send_notices(worker="w1").told == 2
        assert relay.addresses() == {second.membership.rep.email: 1}
    assert not Notice.objects.filter(assignment=first).exists()


def test_a_mail_refused_for_now_is_tried_again_without_what_ended_meanwhile(settings: Any) -> None:
    settings.SEND_BACKOFF_FIRST_S = 0
    with scripted({"rcpt": ["450 later", "250 ok"]}) as relay:
        notices_at(settings, relay.port)
        gone, stays = assigned(make_team(reps=1), 2)
        assert begun_then(settings) == "deferred"
        close(gone.lead)
        assert send_notices(worker="w2").told == 1
        assert len(relay.kept) == 1
    mail = NoticeMail.objects.get()
    assert (mail.status, mail.tries) == ("sent", 2)


def test_a_mail_all_of_whose_leads_moved_on_is_dropped(settings: Any) -> None:
    settings.SEND_BACKOFF_FIRST_S = 0
    with scripted({"rcpt": ["450 later"]}) as relay:
        notices_at(settings, relay.port)
        (turn,) = assigned(make_team(reps=1), 1)
        assert begun_then(settings) == "deferred"
        close(turn.lead)
        assert send_notices(worker="w2").sent == 0 and not relay.kept
    assert NoticeMail.objects.get().status == "dropped"


def begun_then(settings: Any) -> str:
    """One hand-over, and how the mail stands after it; what is due again at once is left for later."""
    settings.SEND_BACKOFF_FIRST_S = 3_600
    send_notices(worker="w1")
    NoticeMail.objects.filter(status="deferred").update(due_at="2026-01-01T00:00:00Z")
    return str(NoticeMail.objects.get().status)


def close(lead: Lead) -> None:
    from django.db import transaction

    with transaction.atomic():
        leads.close(lead_ids=[lead.pk])


def test_silence_after_the_end_of_the_mail_is_doubt_and_no_second_mail(settings: Any) -> None:
    with scripted({"dot": [DROP]}) as relay:
        notices_at(settings, relay.port)
        assigned(make_team(reps=1), 1)
        assert send_notices(worker="w1").in_doubt == 1
        assert send_notices(worker="w2").sent == 0
        assert len(relay.kept) == 1
    assert NoticeMail.objects.get().status == "in_doubt"


def test_a_report_after_the_reaper_settles_the_doubt() -> None:
    begun = begin_one()
    NoticeMail.objects.update(begun_at="2026-01-01T00:00:00Z")
    assert reap_notices() == 1
    assert settle_notice(mail_id=begun, outcome=Outcome("accepted", "done", 250))
    assert not settle_notice(mail_id=begun, outcome=SILENCE)
    assert NoticeMail.objects.get().status == "sent"


def begin_one() -> int:
    switched_on()
    start_telling()
    (turn,) = assigned(make_team(reps=1), 1)
    begun = begin_new(rep_id=turn.membership.rep_id, worker="w1")
    assert begun is not None and begun.assignments == (turn.pk,)
    return begun.mail


@pytest.mark.parametrize("switch", ["team", "rep"])
def test_a_team_or_a_rep_may_want_no_notices(switch: str, settings: Any, tmp_path: Path) -> None:
    team = make_team(reps=1)
    (Team if switch == "team" else Rep).objects.update(notices=False)  # type: ignore[attr-defined]
    with sink(tmp_path) as relay:
        notices_at(settings, relay.port)
        assigned(team, 2)
        assert send_notices(worker="w1").sent == 0 and not relay.addresses()


def test_without_a_relay_or_a_sender_nothing_is_begun(settings: Any, capsys: Any) -> None:
    switched_on()
    assigned(make_team(reps=1), 1)
    settings.EMAIL_HOST = ""
    assert send_notices(worker="w1").stopped == "no relay is configured"
    settings.EMAIL_HOST = "127.0.0.1"
    assert send_notices(worker="w1").stopped == "NOTICE_FROM is not set"
    with pytest.raises(SystemExit) as left:
        call_command("send_notices")
    assert left.value.code == 3 and not NoticeMail.objects.exists()


def test_the_switch_stops_notices_too(settings: Any, tmp_path: Path) -> None:
    with sink(tmp_path) as relay:
        notices_at(settings, relay.port)
        assigned(make_team(reps=1), 1)
        switch_off(because="restored", worker="Kim")
        assert send_notices(worker="w1").stopped == "restored" and not NoticeMail.objects.exists()


def test_what_was_assigned_before_notices_began_is_not_told_of(settings: Any, tmp_path: Path) -> None:
    assigned(make_team(reps=1), 3)
    with sink(tmp_path) as relay:
        notices_at(settings, relay.port)
        assert send_notices(worker="w1").sent == 0


def test_a_run_that_leaves_nothing_moves_the_beginning_on_but_not_past_a_late_commit(
    settings: Any, tmp_path: Path
) -> None:
    with sink(tmp_path) as relay:
        notices_at(settings, relay.port)
        SendingState.objects.update(notices_since="2026-01-01T00:00:00Z")
        (turn,) = assigned(make_team(reps=1), 1)
        send_notices(worker="w1")
    moved = turn.assigned_at - SendingState.objects.get().notices_since
    assert timedelta(seconds=LATE_COMMIT_S - 60) < moved <= timedelta(seconds=LATE_COMMIT_S)


def test_a_webhook_asks_nothing_more_of_the_database_for_a_notice(settings: Any) -> None:
    source = make_source(team=make_team(reps=2))
    take_in(source)
    with CaptureQueriesContext(connection) as asked:
        take_in(source)
    assert not any("notice" in query["sql"] for query in asked.captured_queries)


def test_the_mail_says_who_and_why_and_a_name_makes_no_header_of_its_own(settings: Any) -> None:
    settings.NOTICE_FROM, settings.PUBLIC_URL = FROM, "https://rota.example/"
    bad = Told(7, "Ann\r\nBcc: everybody@acme.example", "Acme", ("ann@acme.example",), "Web", "in turn")
    mail = compose_notice(mail_id=1, address="pat@rota.example", rep="Pat", leads=[bad])
    head, _, body = mail.data.partition(b"\r\n\r\n")
    assert b"\r\nBcc:" not in head and b"Subject: New lead: Ann Bcc: everybody@acme.example, Acme" in head
    assert b"Auto-Submitted: auto-generated" in head
    assert b"https://rota.example/admin/routing/lead/7/change/" in body and b"Web: in turn" in body
    assert compose_notice(mail_id=1, address="pat@rota.example", rep="Pat", leads=[bad]).mail_id == mail.mail_id
