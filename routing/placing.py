"""Where a new lead belongs: what the rules decide of it, and how its owners come before them.

The rules are evaluated in memory. Who owns the lead is asked in the statement that inserts it, for that is where the
memberships are as they stand: first the rep who had the same address last (*sticky owner*), then the owner of the
account with the address's domain, then a rep named by the rule. The first of them who takes leads, and whom the rule
allows, becomes the lead's preferred member and sets its team to one of theirs; in the team of the rule if they are in
it. The others stay in the explanation with the reason.
"""

import json
from dataclasses import dataclass, field
from typing import Any

from routing.conditions import Mailboxes, and_above
from routing.facts import facts_of
from routing.models import InboundSource, RuleBook
from routing.normalise import CleanLead
from routing.rule_books import book
from routing.rules import Decision, evaluate


@dataclass(frozen=True)
class Placing:
    """The decision on a lead before its owners are known. `domains` are those by which an account may know it."""

    team_id: int
    source_team_id: int
    part_id: int | None = None
    rep_id: int | None = None
    sticky_owner: bool = False
    account_owner: bool = False
    domains: tuple[str, ...] = ()
    why: dict[str, Any] = field(default_factory=dict)

    def as_values(self) -> dict[str, Any]:
        """The parameters of INSERT_LEAD that say where the lead belongs."""
        return {
            "team": self.team_id,
            "source_team": self.source_team_id,
            "part": self.part_id,
            "rep": self.rep_id,
            "sticky": self.sticky_owner,
            "owners": self.account_owner,
            "domains": list(self.domains),
            "why": json.dumps(self.why),
        }


def place(*, lead: CleanLead, source: InboundSource) -> Placing:
    """Decide by the published rules where a lead of this source belongs.

    A source read by `with_book` brings the key of the published book along; for another it is asked now.
    """
    rules = book(source.book_id if hasattr(source, "book_id") else published_book())
    decision = evaluate(rules, facts_of(lead=lead, source=source.slug))
    rule = decision.rule
    owners_first = rule is None or rule.owners_first
    return Placing(
        team_id=rule.team if rule else source.team_id,
        source_team_id=source.team_id,
        part_id=rule.part if rule else None,
        rep_id=rule.rep if rule else None,
        sticky_owner=source.sticky_owner and owners_first,
        account_owner=source.account_owner and owners_first,
        domains=account_domains(lead.domain, mailboxes=rules.mailboxes),
        why=explained(decision, source=source),
    )


def published_book() -> int | None:
    """The key of the rule book that is published now, if any."""
    return RuleBook.objects.filter(status=RuleBook.Status.PUBLISHED).values_list("pk", flat=True).first()


def account_domains(domain: str, *, mailboxes: Mailboxes) -> tuple[str, ...]:
    """The domains by which an account may own an address: its own and those above; none for a free-mail address."""
    return () if not domain or mailboxes.is_free(domain) else tuple(and_above(domain))


def explained(decision: Decision, *, source: InboundSource) -> dict[str, Any]:
    """The part of a lead's `why` that is known before it is inserted."""
    rule = decision.rule
    if rule:
        sentence = f"rule {rule.position} “{rule.name}” of version {decision.version}"
    else:
        sentence = f"leads of source {source.slug} go to team {source.team_id}"
    return {"source": source.slug, "rule": sentence, **decision.as_dict()}


# Where one lead belongs, as common table expressions over its parameters: `belongs`, `account` and `before`. A rule may
# still lead to a team that was retired after it was published: the source's team takes the lead then.
BELONGS = """
    target AS (
        SELECT team.id AS team_id, CASE WHEN team.id = %(team)s THEN %(part)s::bigint END AS part_id,
               team.id <> %(team)s AS instead
          FROM routing_team team
         WHERE team.id = %(source_team)s OR (team.id = %(team)s AND team.retired_at IS NULL)
         ORDER BY team.id = %(team)s DESC LIMIT 1),
    before AS (
        SELECT max(earlier.lead_id) AS id FROM routing_leadaddress earlier
          JOIN unnest(%(kinds)s::text[], %(values)s::text[]) AS address(kind, value) USING (kind, value)
         WHERE NOT earlier.open),
    account AS (
        SELECT known.account_id AS id, known.domain, account.owner_id
          FROM routing_accountdomain known JOIN routing_account account ON account.id = known.account_id
         WHERE known.domain = ANY (%(domains)s::text[])
         ORDER BY length(known.domain) DESC LIMIT 1),
    wish AS (
        SELECT 1 AS step, 'sticky owner' AS name, last.rep_id, jsonb_build_object('lead', before.id) AS found
          FROM before CROSS JOIN LATERAL (
               SELECT member.rep_id FROM routing_assignment assignment
                 JOIN routing_membership member ON member.id = assignment.membership_id
                WHERE assignment.lead_id = before.id ORDER BY assignment.id DESC LIMIT 1) last
         WHERE %(sticky)s
        UNION ALL
        SELECT 2, 'account owner', account.owner_id,
               jsonb_build_object('account', account.id, 'domain', account.domain)
          FROM account WHERE %(owners)s AND account.owner_id IS NOT NULL
        UNION ALL
        SELECT 3, 'named rep', %(rep)s::bigint, '{}' WHERE %(rep)s::bigint IS NOT NULL),
    placed AS (
        SELECT wish.step, wish.name, wish.found, rep.id AS rep_id, rep.name AS rep_name, place.id, place.team_id,
               place.allowed
          FROM wish JOIN routing_rep rep ON rep.id = wish.rep_id CROSS JOIN target
          LEFT JOIN routing_teampart part ON part.id = target.part_id
          LEFT JOIN LATERAL (
               SELECT member.id, member.team_id, part.id IS NULL OR member.id = ANY (part.members) AS allowed
                 FROM routing_membership member JOIN routing_team team ON team.id = member.team_id
                WHERE member.rep_id = rep.id AND member.active AND rep.retired_at IS NULL AND team.retired_at IS NULL
                ORDER BY part.id IS NULL OR member.id = ANY (part.members) DESC, member.team_id = target.team_id DESC,
                         member.team_id LIMIT 1) place ON true),
    chosen AS (SELECT step, name, id, team_id FROM placed WHERE allowed ORDER BY step LIMIT 1),
    belongs AS (
        SELECT coalesce(chosen.team_id, target.team_id) AS team_id, target.instead, chosen.id AS preferred_id,
               CASE WHEN chosen.team_id IS NULL OR chosen.team_id = target.team_id THEN target.part_id END AS part_id,
               jsonb_build_object(
                   'team', coalesce(chosen.team_id, target.team_id), 'preferred', chosen.name,
                   'steps', (SELECT coalesce(jsonb_agg(placed.found || jsonb_build_object(
                                        'step', placed.name, 'rep', placed.rep_id, 'name', placed.rep_name,
                                        'outcome', CASE WHEN placed.step = chosen.step THEN 'preferred'
                                                        WHEN placed.id IS NULL THEN 'takes no leads'
                                                        WHEN NOT placed.allowed THEN 'not among those allowed'
                                                        ELSE 'comes later' END) ORDER BY placed.step), '[]')
                               FROM placed)) AS why
          FROM target LEFT JOIN chosen ON true),
"""

INSERT_LEAD = f"""
    WITH new AS (SELECT nextval(pg_get_serial_sequence('routing_lead', 'id')) AS id),
    held AS (
        INSERT INTO routing_leadaddress (lead_id, kind, value)
             SELECT new.id, address.kind, address.value
               FROM new, unnest(%(kinds)s::text[], %(values)s::text[]) AS address(kind, value)
              ORDER BY address.kind, address.value
        -- a touch may give an address to a lead whose closing cannot see it any more: such an address is free
        ON CONFLICT (kind, value) WHERE open DO UPDATE SET lead_id = excluded.lead_id
          WHERE (SELECT lead.status FROM routing_lead lead WHERE lead.id = routing_leadaddress.lead_id) = 'closed'
        RETURNING lead_id),
    {BELONGS}
    made AS (
        INSERT INTO routing_lead (id, team_id, part_id, preferred_id, account_id, email, phone, first_name, last_name,
                                  company, country, fields, why, previous_id)
             SELECT new.id, belongs.team_id, belongs.part_id, belongs.preferred_id, (SELECT id FROM account),
                    %(email)s, %(phone)s, %(first_name)s, %(last_name)s, %(company)s, %(country)s, %(fields)s,
                    %(why)s::jsonb || belongs.why
                        || CASE WHEN belongs.instead THEN jsonb_build_object('retired_team', %(team)s::bigint)
                                ELSE '{{}}' END,
                    before.id
               FROM new, belongs, before
              WHERE (SELECT count(*) FROM held) = cardinality(%(kinds)s::text[])
        RETURNING id, uid, team_id),
    told AS (
        UPDATE routing_inboundevent SET lead_id = made.id, outcome = 'created' FROM made
         WHERE routing_inboundevent.id = %(event)s)
    SELECT new.id, made.uid, made.team_id FROM new LEFT JOIN made ON made.id = new.id
"""
