"""Runs of assign_waiting in the admin: who gave out how many leads, and undoing one."""

from django.contrib import admin
from django.db.models import Count, QuerySet
from django.http import HttpRequest, HttpResponse

from crmsync.desk.confirm import Asked, Question
from crmsync.desk.lists import Facts
from crmsync.desk.words import plural, short
from routing.errors import RunNotUndone
from routing.models import Run
from routing.undo_run import UNDO_H, undo, undoable


@admin.register(Run)
class RunAdmin(Facts):
    list_display = ("number", "made", "by", "of", "leads", "undone_when")
    list_select_related = ("team",)
    list_title = "Runs of assign_waiting"
    fields = ("number", "made", "by", "of", "leads", "undone_when", "came_of_it")
    readonly_fields = fields
    actions = ("undo_selected",)
    empty_says = "Nobody has given out waiting leads with assign_waiting. The sweep does it every minute."

    def get_queryset(self, request: HttpRequest) -> QuerySet[Run]:
        return super().get_queryset(request).annotate(count=Count("assignments"))

    @admin.display(description="run")
    def number(self, run: Run) -> int:
        return run.pk

    @admin.display(description="made")
    def made(self, run: Run) -> str:
        return short(run.made_at)

    @admin.display(description="team")
    def of(self, run: Run) -> str:
        return str(run.team or "every team")

    @admin.display(description="leads given out")
    def leads(self, run: Run) -> str:
        return f"{run.count:,}"  # type: ignore[attr-defined]

    @admin.display(description="undone")
    def undone_when(self, run: Run) -> str:
        return f"{short(run.undone_at)} by {run.undone_by}" if run.undone_at else "no"

    @admin.display(description="what came of it")
    def came_of_it(self, run: Run) -> str:
        return said(run.undone["returned"], run.undone["left"]) if run.undone_at else "–"

    def page_actions(self, row: Run) -> dict[str, str]:
        return {"undo_selected": "Undo"} if undoable().filter(pk=row.pk).exists() else {}

    def has_work_permission(self, request: HttpRequest) -> bool:
        """Leads move here, so that whoever may change leads may do it."""
        return bool(request.user.has_perm("routing.change_lead"))

    @admin.action(description="Undo selected", permissions=["work"])
    def undo_selected(self, request: HttpRequest, queryset: QuerySet[Run]) -> HttpResponse | None:
        asked = Asked(request, queryset)
        if not asked.confirmed:
            question = Question(
                title=f"Undo {plural(len(asked.ids), 'run')}",
                says="Their leads wait again and the turns are given back, except leads that somebody has touched "
                "since. Whoever is present takes them in turn, as the team stands by then: change the team first. "
                "Until then Salesforce shows the old owner.",
                button="Undo",
                ready=undoable().filter(pk__in=asked.ids).count(),
                others=f"undone before, or older than {UNDO_H} hours",
            )
            return asked.page(self, question)
        done, more = 0, []
        for run_id in sorted(asked.ids, reverse=True):
            try:
                undone = undo(run_id=run_id, by=asked.by)
            except RunNotUndone:
                continue
            done += 1
            more.append(f"Run {run_id}: {said(undone.returned, undone.left)}")
        skipped = len(asked.ids) - done
        others = f"{skipped:,} that cannot be undone" if skipped else ""
        return asked.tell_in(self, done, "Undone", others, " ".join(more))


def said(returned: int, left: dict[str, int]) -> str:
    """How many leads wait again, and why others do not."""
    reasons = "".join(f" Left {many:,} where the lead {why}." for why, many in left.items())
    return f"{plural(returned, 'lead')} {'waits' if returned == 1 else 'wait'} again.{reasons}"
