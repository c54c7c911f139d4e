"""What a new installation is shown with: a team of five reps, whom the sandbox org knows, and a source of leads."""

from django.db import transaction

from routing import members
from routing.models import InboundSource, Rep, Team

TEAM = "Inbound"
SOURCE = "web"
REPS = (
    ("Ada Reyes", "ada.reyes@rota.example", "America/Chicago"),
    ("Ben Okafor", "ben.okafor@rota.example", "Europe/London"),
    ("Chloé Lindqvist", "chloe.lindqvist@rota.example", "Europe/Stockholm"),
    ("Dev Patel", "dev.patel@rota.example", "Asia/Kolkata"),
    ("Eva Moreau", "eva.moreau@rota.example", "Europe/Paris"),
)


def seed() -> InboundSource:
    """Make the demo team and its source where they are missing, and return the source."""
    with transaction.atomic(durable=True):
        team, _ = Team.objects.get_or_create(name=TEAM, defaults={"outside_hours": Team.OutsideHours.IGNORE})
        for name, email, zone in REPS:
            rep, _ = Rep.objects.get_or_create(email=email, defaults={"name": name, "zone": zone})
            members.add_member(team=team, rep=rep)
        source, _ = InboundSource.objects.get_or_create(slug=SOURCE, defaults={"name": "Web forms", "team": team})
    return source
