"""The addresses that recipients of campaign mail come to."""

from django.urls import path

from outreach.views import unsubscribe

urlpatterns = [path("unsubscribe/<str:token>", unsubscribe, name="unsubscribe")]
