"""Rota's admin: the stock Django admin under its own name."""

from django.contrib.admin import AdminSite


class RotaAdminSite(AdminSite):
    site_header = "Rota"
    site_title = "Rota"
    index_title = "Home"
