"""What waits of a mass update, counted by parent, so that a worker finds the longest pile without reading the rows."""

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now


class Pile(models.Model):
    """The messages of one mass update, object and operation under one lane, or without parents. Written under the turn
    of `crm_turn` only.

    `waiting` counts messages that were planned into it and not taken out; those that a newer version absorbed
    meanwhile are counted until somebody looks.
    """

    OF_NONE = 0

    key = models.TextField(primary_key=True)
    object = models.TextField()
    operation = models.TextField(db_default="upsert")
    lane = models.TextField(db_default="", help_text="The lane that all its messages need; empty: none in common.")
    batch = models.BigIntegerField(db_default=OF_NONE, help_text="The mass update whose rows they are; 0: of none.")
    waiting = models.IntegerField()
    due_at = models.DateTimeField(db_default=Now())
    since_at = models.DateTimeField(db_default=Now(), help_text="Since when nobody has taken any of it.")
    first_id = models.BigIntegerField(help_text="Its oldest message.")
    waits_for = models.BigIntegerField(null=True, help_text="The record whose creation its messages wait for.")

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(waiting__gte=0), name="pile_waiting_not_negative"),
            models.CheckConstraint(condition=~Q(object=""), name="pile_has_an_object"),
        ]
        indexes = [
            # claim: the longest pile of a mass update; reap: what a cancelled one left
            models.Index(fields=["batch", "-waiting"], name="pile_longest", condition=Q(waiting__gt=0)),
            # claim: the longest pile that still fits into the chunk
            models.Index(
                fields=["batch", "object", "operation", "-waiting"], name="pile_that_fits", condition=Q(waiting__gt=0)
            ),
            # claim: the pile that nobody has taken from for the longest time
            models.Index(fields=["batch", "since_at"], name="pile_left_longest", condition=Q(waiting__gt=0)),
            # reap: piles that are empty
            models.Index(fields=["since_at"], name="pile_empty", condition=Q(waiting=0)),
        ]

    def __str__(self) -> str:
        return f"{self.key}: {self.waiting}"
