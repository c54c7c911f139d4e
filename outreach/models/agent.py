"""External senders and AI agents: who may speak to the API, and what each of them asked for under which key."""

from typing import Self

from django.core.validators import RegexValidator
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from outreach.models.conditions import Iff

NAME = r"^[A-Za-z0-9][A-Za-z0-9 ._@-]*$"
MAIL, LEADS = "mail", "leads"


class AgentQuerySet(models.QuerySet["Agent"]):
    def active(self) -> Self:
        return self.filter(revoked_at=None)


class Agent(models.Model):
    """One worker outside Rota, known by a token of which only the digest is kept.

    Its name stands in every claim, try and event of it, so a name is never given twice, not even after it was revoked.
    """

    name = models.CharField(
        max_length=100,
        validators=[
            RegexValidator(NAME, "Letters, digits, spaces and . _ @ - only, beginning with one of the former.")
        ],
        help_text="Stands in every claim and mail of it; never given to another one.",
    )
    digest = models.CharField(max_length=64, editable=False, help_text="SHA-256 of its token.")
    hint = models.CharField(max_length=12, editable=False, help_text="How its token begins.")
    may_mail = models.BooleanField("may send campaign mail", default=False, db_default=False)
    may_leads = models.BooleanField("may work on leads", default=False, db_default=False)
    made_by = models.CharField(max_length=150, editable=False)
    made_at = models.DateTimeField(db_default=Now(), editable=False)
    revoked_at = models.DateTimeField(null=True, blank=True, editable=False)
    revoked_by = models.CharField(max_length=150, blank=True, default="", db_default="", editable=False)
    allowance = models.FloatField(db_default=0, editable=False, help_text="Requests left, as of the last one.")
    asked_at = models.DateTimeField(null=True, editable=False, help_text="Its last request that was let in.")

    objects = AgentQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["name"], name="agent_name_once"),
            models.UniqueConstraint(fields=["digest"], name="agent_token_once"),
            models.CheckConstraint(condition=Q(name__regex=NAME), name="agent_name_is_plain"),
            models.CheckConstraint(condition=Q(digest__regex=r"^[0-9a-f]{64}$"), name="agent_token_is_hashed"),
            models.CheckConstraint(condition=Q(may_mail=True) | Q(may_leads=True), name="agent_may_do_something"),
            models.CheckConstraint(
                condition=Iff(Q(revoked_at=None), Q(revoked_by="")),
                name="agent_revoked_by_iff_revoked",
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def worker(self) -> str:
        """Its name among the workers; Rota's own have a colon in theirs."""
        return f"agent {self.name}"


class AgentRequest(models.Model):
    """A write that an agent asked for under an idempotency key, and the answer it got. Pruned after a day."""

    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="requests", db_index=False)
    key = models.CharField(max_length=200)
    digest = models.CharField(max_length=64, help_text="SHA-256 of method, path and body.")
    asked_at = models.DateTimeField(db_default=Now())
    code = models.PositiveSmallIntegerField(null=True, help_text="HTTP status; empty: not answered yet.")
    answer = models.JSONField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["agent", "key"], name="agent_request_key_once"),
            models.CheckConstraint(condition=~Q(key=""), name="agent_request_has_a_key"),
            models.CheckConstraint(
                condition=Iff(Q(code=None), Q(answer__isnull=True)),
                name="agent_request_answer_whole_or_none",
            ),
        ]
        indexes = [
            # prune: the oldest first
            models.Index(fields=["asked_at"], name="agent_request_by_age"),
        ]

    def __str__(self) -> str:
        return f"{self.key} of agent {self.agent_id}"
