"""The one row that says whether Rota may send campaign mail at all."""

from django.db import models
from django.db.models import Q


class SendingState(models.Model):
    """Off with a reason, for a while or until a person switches it on; and the database that this was said about.

    `epoch` names the database cluster and its timeline. A restored backup or a promoted replica has another one: it may
    have forgotten mails that went out, so nothing is sent until a person confirms.
    """

    id = models.SmallIntegerField(primary_key=True, default=1)
    off_because = models.CharField(max_length=200, blank=True, default="", db_default="")
    off_until = models.DateTimeField(null=True, help_text="Sending goes on by itself then; empty: a person decides.")
    notices_since = models.DateTimeField(null=True, help_text="Reps are not told of what was assigned before.")
    epoch = models.CharField(max_length=100, blank=True, default="", db_default="", help_text="Empty: not yet seen.")

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(id=1), name="sending_state_is_one_row"),
            models.CheckConstraint(
                condition=~Q(off_because="") | Q(off_until=None), name="sending_state_off_until_only_if_off"
            ),
        ]

    def __str__(self) -> str:
        return f"off: {self.off_because}" if self.off_because else "on"
