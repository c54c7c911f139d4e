from django.apps import AppConfig


class CrmsyncConfig(AppConfig):
    name = "crmsync"
    verbose_name = "CRM"

    def ready(self) -> None:
        from crmsync import checks  # noqa: F401 - registers the system checks
