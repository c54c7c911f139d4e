"""The app that owns commands and checks, and the admin that uses Rota's own site (so that no app imports config)."""

from django.apps import AppConfig
from django.contrib.admin.apps import AdminConfig


class RotaConfig(AppConfig):
    name = "config"
    verbose_name = "Rota"

    def ready(self) -> None:
        from config import checks  # noqa: F401 - registers the system checks


class RotaAdminConfig(AdminConfig):
    default_site = "config.admin_site.RotaAdminSite"
