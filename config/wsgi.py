"""What gunicorn serves."""

import os

from django.core.wsgi import get_wsgi_application
from django.urls import resolve

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
application = get_wsgi_application()
# So that the addresses are read before the workers are forked, and not with each one's first request.
resolve("/healthz")
