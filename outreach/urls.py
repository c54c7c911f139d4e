"""The addresses that recipients of campaign mail come to, and the API for agents."""

from django.urls import path

from outreach.api import api
from outreach.views import unsubscribe

urlpatterns = [
    path("unsubscribe/<str:token>", unsubscribe, name="unsubscribe"),
    path("api/", api.urls),
]
