#!/usr/bin/env python
"""Django's command line. `./rota manage ...` calls it with the database and the secret key provided."""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    from django.conf import settings
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line

    try:
        settings.INSTALLED_APPS  # noqa: B018 - Django would go on without settings, and fail later with another message
    except ImproperlyConfigured as problem:
        sys.exit(f"error: {problem}")
    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
