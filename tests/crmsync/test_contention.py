"""The contention report: what the attempts say about locks that were met."""

from datetime import UTC, datetime, timedelta

import pytest

from crmsync.contention import ITSELF, Contention, Counted, Parent, contention
from crmsync.doctor.advice import advice, busiest
from crmsync.doctor.asking import Built
from crmsync.doctor.locking import built_in
from crmsync.models import Attempt, Claim, OutboxMessage
from tests.crmsync.rows import put
from tests.crmsync.sandbox_org import SandboxOrg

NOON = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)


def tried(
    message: OutboxMessage, *, at: datetime = NOON, seconds: float = 1, outcome: str = "contention", text: str = ""
) -> Attempt:
    """An attempt of a claim of its own."""
    until = at + timedelta(seconds=seconds)
    claim = Claim.objects.create(
        worker="w", claimed_at=at, lease_until=until, begun_at=at, ended_at=until, end_reason="settled"
    )
    return Attempt.objects.create(
        message=message, claim=claim, number=1, begun_at=at, ended_at=until, outcome=outcome, text=text
    )


def report(days: int = 1) -> Contention:
    return contention(since=NOON - timedelta(days=days), until=NOON + timedelta(days=days))


@pytest.mark.django_db(transaction=True)
class TestReport:
    def test_it_counts_by_parent_hour_and_object(self) -> None:
        hot, cold = put(object="Contact", account="HOT"), put(object="Contact", account="COLD")
        for minute in range(3):
            tried(hot, at=NOON + timedelta(minutes=minute))
        tried(cold, at=NOON + timedelta(hours=2))
        tried(cold, at=NOON + timedelta(hours=3), outcome="delivered")
        tried(put(), at=NOON)
        found = report()
        assert [(each.key, each.failures, each.attempts) for each in found.parents] == [
            ("HOT", 3, 3), ("COLD", 1, 2), (ITSELF, 1, 1),
        ]  # fmt: skip
        assert found.objects == (Counted("Contact", 5, 4), Counted("Lead", 1, 1))
        assert (found.hours[12], found.hours[14], sum(found.hours)) == (4, 1, 5)
        assert (found.failures, found.attempts, found.ours, found.foreign) == (5, 6, 0, 5)

    def test_a_failure_beside_another_claim_under_the_same_parent_is_our_own(self) -> None:
        one, two, other = (put(object="Contact", account=key) for key in ("A", "A", "B"))
        tried(one, seconds=10)
        tried(two, at=NOON + timedelta(seconds=5), outcome="delivered")
        tried(other, at=NOON + timedelta(seconds=5))
        found = report()
        assert (found.failures, found.ours) == (2, 1)
        assert {each.key: each.ours for each in found.parents} == {"A": 1, "B": 0}

    def test_one_claim_that_writes_two_children_is_no_meeting(self) -> None:
        one, two = put(object="Contact", account="A"), put(object="Contact", account="A")
        first = tried(one)
        Attempt.objects.create(
            message=two, claim=first.claim, number=1, begun_at=NOON, ended_at=first.ended_at, outcome="contention"
        )
        assert report().ours == 0

    def test_attempts_outside_the_period_do_not_count(self) -> None:
        tried(put(), at=NOON - timedelta(days=2))
        assert report().attempts == 0


def found(
    failures: int = 40, *, ours: int = 0, membership: int = 0, hour: int | None = None, parent: int = 0
) -> Contention:
    hours = [failures // 24] * 24
    if hour is not None:
        hours = [0] * 24
        hours[hour] = failures
    parents = (Parent("Account", "HOT", failures, parent, 0, NOON),) if parent else ()
    return Contention(
        since=NOON, until=NOON, attempts=100, failures=failures, ours=ours, membership=membership, parents=parents,
        objects=(Counted("Contact", 100, failures),), hours=tuple(hours),
    )  # fmt: skip


class TestAdvice:
    def test_no_lock_failure_wants_no_advice(self) -> None:
        assert advice(found(0), []) == []

    def test_few_failures_allow_no_conclusion(self) -> None:
        assert len(advice(found(3, hour=3, parent=3), [])) == 1

    def test_our_own_overlap_comes_first(self) -> None:
        assert "Rota's own" in advice(found(ours=2), [])[0]

    def test_a_hot_parent_an_hour_and_group_changes_are_named(self) -> None:
        lines = "\n".join(advice(found(hour=23, parent=30, membership=4), []))
        assert "Account HOT has 75%" in lines
        assert "between 21:00 and 00:00 UTC" in lines or "between 23:00 and 02:00 UTC" in lines
        assert "Defer Sharing" in lines

    def test_failures_spread_over_the_day_name_no_hour(self) -> None:
        assert "UTC" not in "\n".join(advice(found(48), []))

    def test_what_runs_on_a_contended_object_is_named_and_on_others_not(self) -> None:
        built = [
            Built("trigger", "Contact", "Touch"),
            Built("roll-up", "Contact", "Count__c"),
            Built("flow", "Lead", "Elsewhere"),
        ]
        lines = "\n".join(advice(found(), built))
        assert "Touch" in lines and "Count__c" in lines and "Elsewhere" not in lines

    def test_the_busiest_hours_go_around_midnight(self) -> None:
        hours = [0] * 24
        hours[23], hours[0], hours[1], hours[12] = 5, 5, 5, 9
        assert busiest(hours) == (23, 15)


def test_what_is_built_into_the_org_is_asked_from_the_org(org: SandboxOrg) -> None:
    for kind in ({"kind": "trigger", "name": "Touch"}, {"kind": "trigger", "name": "After_Save", "is_flow": True}):
        org.ask("POST", "automation", {"object": "Contact", "events": ["update"], **kind})
    built, unknown = built_in(["Contact", "Account"])
    assert unknown == ""
    names = {(each.kind, each.object, each.name) for each in built}
    assert {("trigger", "Contact", "Touch"), ("flow", "Contact", "After_Save")} <= names
    assert any(kind == "roll-up" and name == "Account" for kind, name, _ in names)


def test_an_org_that_does_not_answer_is_told_as_unknown(org: SandboxOrg, settings: object) -> None:
    settings.CRM_CLIENT_SECRET = "not the one"  # type: ignore[attr-defined]
    built, unknown = built_in(["Contact"])
    assert built == [] and "was not asked" in unknown
