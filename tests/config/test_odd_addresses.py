"""An address or a form that names no row is answered in words, never with an error of ours."""

import pytest
from django.contrib import admin
from django.urls import reverse

from tests.staff import listed, logged_in, said

pytestmark = pytest.mark.django_db
OURS = sorted(
    f"{model._meta.app_label}_{model._meta.model_name}"
    for model, shown in admin.site._registry.items()
    if shown.actions and model._meta.model_name != "group"
)


@pytest.mark.parametrize(
    ("address", "status"),
    [
        ("/admin/crmsync/lane/hold/?key=%00", 400),
        ("/admin/crmsync/lane/%00/change/", 400),
        ("/admin/crmsync/lane/_00/change/", 302),
        ("/admin/crmsync/batch/abc/change/", 302),
        ("/admin/auth/user/_00/change/", 302),
    ],
)
def test_an_address_that_can_name_no_row_finds_none(address: str, status: int) -> None:
    assert logged_in().get(address).status_code == status


@pytest.mark.parametrize("model", OURS)
@pytest.mark.parametrize("key", ["abc", "\0", "99999999999999999999"])
def test_an_action_for_rows_that_cannot_be_changes_nothing(model: str, key: str) -> None:
    action = admin.site.get_model_admin(_model(model)).actions[0]
    name = action if isinstance(action, str) else action.__name__
    answer = logged_in().post(listed(model), {"action": name, "_selected_action": key, "index": 0}, follow=True)
    assert answer.status_code == 200
    if key == "\0":
        assert said(answer) == ["No such row: nothing was changed."]


def _model(label: str):
    return next(m for m in admin.site._registry if f"{m._meta.app_label}_{m._meta.model_name}" == label)


def test_a_mass_update_that_no_number_names_is_told_so() -> None:
    answer = logged_in().post(
        reverse("admin:crmsync_batch_changelist"),
        {"action": "pause_selected", "_selected_action": "abc", "index": 0},
        follow=True,
    )
    assert said(answer) == ["No such row: nothing was changed."]
