"""The addresses that recipients of campaign mail come to, webhooks of providers, and the API for agents."""

from django.urls import path

from outreach.api import api
from outreach.views import unsubscribe
from outreach.webhooks import mail_events, provider_events

urlpatterns = [
    path("unsubscribe/<str:token>", unsubscribe, name="unsubscribe"),
    path("events/mail", mail_events),
    path("events/mail/<slug:name>", provider_events),
    path("api/", api.urls),
]
