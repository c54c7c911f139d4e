"""The addresses senders post to."""

from django.urls import path

from routing.views import inbound

urlpatterns = [path("in/<slug:slug>", inbound, name="inbound")]
