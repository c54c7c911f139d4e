"""The sidebar: each page once, and every list somewhere."""

from collections import Counter

from django.contrib import admin

from config.menu import MENU


def test_no_page_stands_in_the_sidebar_twice() -> None:
    pages = Counter((entry.model, entry.page) for group in MENU for entry in group.entries)
    assert [page for page, times in pages.items() if times > 1] == []


def test_every_list_of_rotas_own_has_a_line() -> None:
    named = {entry.model for group in MENU for entry in group.entries}
    own = {
        model._meta.label_lower
        for model, registered in admin.site._registry.items()
        if model._meta.app_label in ("routing", "outreach", "crmsync")
        and registered.has_module_permission.__qualname__.startswith("BaseModelAdmin")  # none that hides itself
    }
    assert own - named == set()
