"""A rehearsal goes the whole way of a lead and leaves nothing behind."""

import pytest
from django.apps import apps
from django.db import connection
from django.test.utils import CaptureQueriesContext

from routing.warm_up import rehearse

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_rehearsal_takes_a_turn_and_leaves_no_row():
    with CaptureQueriesContext(connection) as seen:
        rehearse()
    assert any("take_turns" in query["sql"] for query in seen.captured_queries)
    assert any("INSERT INTO routing_lead " in query["sql"] for query in seen.captured_queries)
    left = [
        model.__name__
        for app in ("routing", "crmsync")
        for model in apps.get_app_config(app).get_models()
        if model._default_manager.exists()
    ]
    assert not left


def test_two_rehearsals_on_one_connection_do_not_meet():
    rehearse()
    rehearse()
