"""Draft, check and publish routing rules, and read the published ones.

Reading is cached by book, and a published book never changes: there is nothing to invalidate. Which book is the
published one is asked of the database together with the source of each lead, so no process serves a superseded book to
a lead that arrives after the commit of the next.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence

from django.db.models import Max
from django.db.models.functions import Now

from routing import rules
from routing.conditions import Condition, Mailboxes, compile_condition
from routing.errors import BadCondition, BadRules, NoDraft
from routing.members import part_of
from routing.models import Rule, RuleBook, RuleCondition
from routing.overlaps import unreachable
from routing.rules import Book

NO_RULES = Book()
KEPT = 8
_books: OrderedDict[int, Book] = OrderedDict()


def book(book_id: int | None) -> Book:
    """The published or superseded book with this key, ready to evaluate; without a key the book without rules.

    Three statements the first time a process asks for a book, none after that.
    """
    if book_id is None:
        return NO_RULES
    found = _books.get(book_id)
    if found is None:
        found = _books[book_id] = read(RuleBook.objects.exclude(status=RuleBook.Status.DRAFT).get(pk=book_id))
        while len(_books) > KEPT:
            _books.popitem(last=False)
    return found


def read(row: RuleBook) -> Book:
    """A book as it stands in the tables, drafts too. Raises BadCondition."""
    return rules.make_book(
        version=row.version or 0,
        rules=_rules(row),
        mailboxes=Mailboxes(frozenset(row.free_mail), frozenset(row.company_mail)),
        regions=row.regions,
    )


def members_of(row: RuleBook) -> dict[int, frozenset[int]]:
    """The members that rules of a book name, by rule: what its parts will be once it is published."""
    named = list(row.rules.exclude(members=None).values_list("pk", "members"))
    return {pk: frozenset(member for rule, member in named if rule == pk) for pk, _ in named}


def draft() -> RuleBook:
    """The draft; if there is none, a copy of the published book. Call inside a transaction."""
    found = RuleBook.objects.filter(status=RuleBook.Status.DRAFT).first()
    if found:
        return found
    published = RuleBook.objects.filter(status=RuleBook.Status.PUBLISHED).first()
    if published is None:
        return RuleBook.objects.create()
    copy = RuleBook.objects.create(
        free_mail=published.free_mail, company_mail=published.company_mail, regions=published.regions
    )
    for rule in published.rules.prefetch_related("conditions", "members"):
        conditions, members = list(rule.conditions.all()), list(rule.members.all())
        rule.pk, rule.book, rule.part, rule._state.adding = None, copy, None, True
        rule.save()
        rule.members.set(members)
        RuleCondition.objects.bulk_create(
            RuleCondition(rule=rule, field=row.field, operator=row.operator, value=row.value) for row in conditions
        )
    return copy


def hold_draft() -> RuleBook:
    """The draft, which nobody publishes or changes meanwhile. Call inside a transaction. Raises NoDraft."""
    row = RuleBook.objects.select_for_update(no_key=True).filter(status=RuleBook.Status.DRAFT).first()
    if row is None:
        raise NoDraft
    return row


def number_rules(*, row: RuleBook, before: Mapping[int, int]) -> None:
    """Number a draft's rules 1, 2, 3 after some were moved, added or removed. Call inside a transaction.

    `before` has the positions from before. A rule moved up goes before the one whose place it took, one moved down goes
    behind it.
    """

    def place_of(rule: Rule) -> tuple[int, int, int]:
        was = before.get(rule.pk, rule.position + 1)
        return rule.position, (rule.position > was) - (rule.position < was), rule.pk

    for position, rule in enumerate(sorted(row.rules.all(), key=place_of), start=1):
        if rule.position != position:
            Rule.objects.filter(pk=rule.pk).update(position=position)


def publish(*, by: str, note: str = "") -> RuleBook:
    """Let the draft decide from now on. Call inside a transaction.

    Leads whose request begins after the commit are decided by it; leads already taken in stay where they are. Raises
    NoDraft, and BadRules with every condition that cannot be read; warnings do not stop it.
    """
    row = hold_draft()
    problems = mistakes(row)
    if problems:
        raise BadRules(problems)
    for rule in row.rules.prefetch_related("members").select_related("team"):
        members = list(rule.members.all())
        part = part_of(team=rule.team, memberships=members) if members else None
        Rule.objects.filter(pk=rule.pk).update(part=part)
    latest = RuleBook.objects.aggregate(latest=Max("version"))["latest"] or 0
    RuleBook.objects.filter(status=RuleBook.Status.PUBLISHED).update(status=RuleBook.Status.SUPERSEDED)
    RuleBook.objects.filter(pk=row.pk).update(
        status=RuleBook.Status.PUBLISHED,
        version=latest + 1,
        published_at=Now(),
        published_by=by,
        note=note or row.note,
    )
    row.refresh_from_db()
    return row


def discard_draft() -> bool:
    """Throw the draft away; False if there was none. Call inside a transaction."""
    return bool(RuleBook.objects.filter(status=RuleBook.Status.DRAFT).delete()[0])


def mistakes(row: RuleBook) -> list[str]:
    """What keeps a book from being published: conditions that cannot be read, and members of another team."""
    found = []
    for rule in row.rules.prefetch_related("conditions", "members"):
        for condition in rule.conditions.all():
            try:
                compile_condition(_condition(condition), regions=row.regions)
            except BadCondition as mistake:
                found.append(f"Rule {rule}: {mistake}")
        if any(member.team_id != rule.team_id for member in rule.members.all()):
            found.append(f"Rule {rule}: its members are not all of {rule.team}.")
    return found


def warnings(row: RuleBook) -> list[str]:
    """What a person should look at: rules never reached, and rules whose leads would have to wait for nobody."""
    try:
        hidden = unreachable(_rules(row), regions=row.regions)
    except BadCondition:
        hidden = {}
    found = []
    in_order = row.rules.select_related("team", "rep").prefetch_related("members__rep", "rep__memberships")
    for rule in in_order:
        if rule.position in hidden:
            found.append(f"Rule {rule}: {hidden[rule.position]}")
        if rule.team.retired_at:
            found.append(f"Rule {rule}: {rule.team} is retired; its leads go to the team of their source.")
        members = list(rule.members.all())
        gone = [member for member in members if not member.active or member.rep.retired_at]
        if members and len(gone) == len(members):
            found.append(f"Rule {rule}: none of its members takes leads any more; its leads will wait.")
        elif gone:
            found.append(f"Rule {rule}: {', '.join(member.rep.name for member in gone)} takes no leads any more.")
        elif not members and not _anybody(rule):
            found.append(f"Rule {rule}: nobody in {rule.team} takes leads; its leads will wait.")
        if rule.rep and (rule.rep.retired_at or not any(place.active for place in rule.rep.memberships.all())):
            found.append(f"Rule {rule}: {rule.rep} takes leads in no team; {rule.team} will take them.")
    return found


def _anybody(rule: Rule) -> bool:
    return rule.team.memberships.filter(active=True, rep__retired_at=None).exists()


def _rules(row: RuleBook) -> list[rules.Rule]:
    return [
        rules.Rule(
            id=rule.pk,
            position=rule.position,
            name=rule.name,
            team=rule.team_id,
            conditions=tuple(_condition(condition) for condition in rule.conditions.all()),
            any=rule.match == Rule.Match.ANY,
            part=rule.part_id,
            rep=rule.rep_id,
            owners_first=rule.owners_first,
        )
        for rule in row.rules.prefetch_related("conditions")
    ]


def _condition(row: RuleCondition) -> Condition:
    return Condition(row.field, row.operator, row.value)


def replace_rules(*, row: RuleBook, wanted: Sequence[Mapping[str, object]]) -> None:
    """Write a draft's rules from plain values, in order: name, team, and what else a Rule has; `conditions` are
    (field, operator, value) or (field, operator). Call inside a transaction.
    """
    row.rules.all().delete()
    for position, values in enumerate(wanted, start=1):
        plain = dict(values)
        conditions, members = plain.pop("conditions", ()), plain.pop("members", ())
        rule = Rule.objects.create(book=row, position=position, **plain)
        rule.members.set(members)  # type: ignore[arg-type]
        RuleCondition.objects.bulk_create(
            RuleCondition(rule=rule, field=field, operator=operator, value="".join(value))
            for field, operator, *value in conditions  # type: ignore[attr-defined]
        )
