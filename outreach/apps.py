from django.apps import AppConfig


class OutreachConfig(AppConfig):
    name = "outreach"

    def ready(self) -> None:
        from outreach import checks  # noqa: F401 - registers the system checks
