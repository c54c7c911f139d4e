"""Updates that create nothing and deletes that may be repeated, by every road."""

from collections.abc import Callable
from typing import Any

import pytest

from crmsync.gateway import connect
from tests.crmsync.rows import again, drain, put_many, record_of, run_sql, statuses
from tests.crmsync.sandbox_org import SandboxOrg
from tests.crmsync.test_jobs import by, names  # noqa: F401 - a fixture

pytestmark = pytest.mark.django_db(transaction=True)

ROADS = ("rest", "collections", "bulk2", "bulk1")


def keys(road: str) -> list[str]:
    return ["a"] if road == "rest" else ["a", "b", "c"]


@pytest.fixture
def on(by: Callable[[str], None]) -> Callable[[str], None]:  # noqa: F811
    return lambda road: by("collections" if road == "rest" else road)


def forget_ids() -> None:
    run_sql("UPDATE crmsync_crmrecord SET crm_id = NULL")


@pytest.mark.parametrize("knows_ids", [True, False])
@pytest.mark.parametrize("road", ROADS)
def test_an_update_changes_what_is_there_and_creates_nothing(
    org: SandboxOrg, on: Any, road: str, knows_ids: bool
) -> None:
    put_many([*keys(road)])
    drain()
    if not knows_ids:
        forget_ids()
    on(road)
    known = put_many(keys(road), operation="update", fields={"last_name": "New"})
    drain()
    unknown = put_many([f"no-{key}" for key in keys(road)], operation="update", fields={"last_name": "Ghost"})
    drain()
    assert names(org) == dict.fromkeys(keys(road), "New")
    assert set(statuses(known)) == {"delivered"}
    ghost = again(unknown[0])
    assert (ghost.status, ghost.failure_kind, ghost.failure_code) == ("dead", "permanent", "NOT_FOUND")
    assert record_of(known[0]).crm_id in {record["Id"] for record in org.records("Contact")}


@pytest.mark.parametrize("knows_ids", [True, False])
@pytest.mark.parametrize("road", ROADS)
def test_a_delete_takes_away_what_is_there_and_is_done_where_nothing_is(
    org: SandboxOrg, on: Any, road: str, knows_ids: bool
) -> None:
    put_many([*keys(road), "stays"])
    drain()
    ids = {record["Rota_Id__c"]: record["Id"] for record in org.records("Contact")}
    connect().call("DELETE", f"sobjects/Contact/{ids['a']}", None, {})  # somebody was faster
    if not knows_ids:
        forget_ids()
    on(road)
    gone = put_many([*keys(road), *(() if road == "rest" else ("never-was",))], operation="delete", fields={})
    drain()
    assert set(statuses(gone)) == {"delivered"}
    assert names(org) == {"stays": "N"}
    assert (record_of(gone[0]).crm_id, record_of(gone[0]).delivered_version) == (None, None)


@pytest.mark.parametrize("road", ROADS)
@pytest.mark.parametrize("fault", ["close_before", "commit_then_close", "cut_short", "twice"])
def test_a_delete_and_an_update_survive_a_broken_call(org: SandboxOrg, on: Any, road: str, fault: str) -> None:
    put_many(["a", "b", "c"])
    drain()
    on(road)
    path = "/services/async/" if road == "bulk1" else "/services/data/"
    org.fault(fault, path=path)
    gone = put_many(keys(road), operation="delete", fields={})
    drain()
    assert set(statuses(gone)) == {"delivered"}
    left = {"a", "b", "c"} - set(keys(road))
    assert set(names(org)) == left
