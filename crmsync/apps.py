from django.apps import AppConfig


class CrmsyncConfig(AppConfig):
    name = "crmsync"
