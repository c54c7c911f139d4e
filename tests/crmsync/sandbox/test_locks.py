"""Row locks, driven by real clients in threads: nobody sleeps, the tests watch the org's queues instead."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from simple_salesforce import Salesforce
from simple_salesforce.exceptions import SalesforceMalformedRequest

from tests.crmsync.sandbox.conftest import LOCK_WAIT_S, Org, collect, new_account, running_org

MakeAccount = Callable[[str], str]


def contact(name: str, account: str, **more: Any) -> dict[str, Any]:
    fields = {"LastName": name, "Rota_Id__c": name, "Account": {"Rota_Id__c": account}}
    return {"attributes": {"type": "Contact"}, **fields, **more}


def upsert_contact(org: Org, name: str, account: str, client: str = "") -> int:
    sf = org.client(client or name)
    status: int = sf.Contact.upsert(f"Rota_Id__c/{name}", {"LastName": name, "Account": {"Rota_Id__c": account}})
    return status


def test_two_writers_of_one_parent_take_turns(org: Org, make_account: MakeAccount) -> None:
    account = make_account("a-1")
    hold = org.admin("POST", "locks", {"ids": [account]})["id"]
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(upsert_contact, org, "one", "a-1")
        org.until_waiting(1)
        second = pool.submit(upsert_contact, org, "two", "a-1")
        org.until_waiting(2)
        org.admin("DELETE", f"locks/{hold}")
        assert (first.result(), second.result()) == (201, 201)
    (one,), (two,) = org.journal("one"), org.journal("two")
    assert account in one["locks"] and account in two["locks"]
    assert one["waited_for"] == [hold] and two["waited_for"] == [hold, one["number"]]
    assert two["waited_ms"] > 0 and two["waits"][0]["granted"]
    assert one["committed_at"] <= two["committed_at"] and one["seq"] < two["seq"]


def test_a_queue_is_served_first_come_first_served(org: Org, make_account: MakeAccount) -> None:
    hold = org.admin("POST", "locks", {"ids": [make_account("a-1")]})["id"]
    names = [f"c-{number}" for number in range(6)]
    with ThreadPoolExecutor(len(names)) as pool:
        done = []
        for number, name in enumerate(names, start=1):
            done.append(pool.submit(upsert_contact, org, name, "a-1"))
            org.until_waiting(number)
        org.admin("DELETE", f"locks/{hold}")
        assert [each.result() for each in done] == [201] * len(names)
    assert [entry["who"]["client"] for entry in org.journal() if entry["objects"] == ["Contact"]] == names


def test_writers_of_different_parents_do_not_wait(org: Org, make_account: MakeAccount) -> None:
    accounts = [make_account(f"a-{number}") for number in range(4)]
    org.admin("POST", "locks", {"ids": [accounts[0]], "seconds": 30})
    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(lambda n: upsert_contact(org, f"c-{n}", f"a-{n}"), (1, 2, 3))) == [201] * 3
    assert all(entry["waits"] == [] for entry in org.journal())


def test_a_wait_that_runs_out_is_unable_to_lock_row_and_names_the_parent(hasty_org: Org) -> None:
    org = hasty_org
    account = new_account(org.client("setup"), "a-1")
    org.admin("POST", "locks", {"object": "Account", "external_ids": ["a-1"], "seconds": 30})
    with pytest.raises(SalesforceMalformedRequest) as refused:
        upsert_contact(org, "one", "a-1")
    assert refused.value.status == 400
    assert refused.value.content == [
        {
            "message": f"unable to obtain exclusive access to this record or 1 records: {account}",
            "errorCode": "UNABLE_TO_LOCK_ROW",
            "fields": [],
        }
    ]
    (entry,) = org.journal("one")
    assert (entry["outcome"], entry["errors"]) == ("refused", {"UNABLE_TO_LOCK_ROW": 1})
    assert LOCK_WAIT_S * 990 <= entry["waited_ms"] < LOCK_WAIT_S * 4000
    assert org.admin("GET", "records/Contact")["records"] == []


def test_only_the_rows_that_need_the_lock_fail(hasty_org: Org) -> None:
    org, sf = hasty_org, hasty_org.client()
    for name in ("a-1", "a-2", "a-3"):
        new_account(sf, name)
    org.admin("POST", "locks", {"object": "Account", "external_ids": ["a-2"], "seconds": 30})
    rows = [contact(f"c-{number}", f"a-{1 + number % 3}") for number in range(9)]
    results = collect(sf, "sobjects/Contact/Rota_Id__c", rows)
    assert [result["success"] for result in results] == [number % 3 != 1 for number in range(9)]
    assert {result["errors"][0]["statusCode"] for result in results if result["errors"]} == {"UNABLE_TO_LOCK_ROW"}
    assert len(org.admin("GET", "records/Contact")["records"]) == 6


def test_with_all_or_none_one_lock_fails_them_all(hasty_org: Org) -> None:
    org, sf = hasty_org, hasty_org.client()
    for name in ("a-1", "a-2"):
        new_account(sf, name)
    org.admin("POST", "locks", {"object": "Account", "external_ids": ["a-2"], "seconds": 30})
    rows = [contact("one", "a-1"), contact("two", "a-2")]
    results = collect(sf, "sobjects/Contact/Rota_Id__c", rows, allOrNone=True)
    codes = [result["errors"][0]["statusCode"] for result in results]
    assert codes == ["ALL_OR_NONE_OPERATION_ROLLED_BACK", "UNABLE_TO_LOCK_ROW"]
    assert org.admin("GET", "records/Contact")["records"] == []


def test_a_hold_from_outside_ends_by_itself_and_stands_in_the_journal(org: Org, make_account: MakeAccount) -> None:
    account = make_account("a-1")
    hold = org.admin("POST", "locks", {"ids": [account], "seconds": 0.1})
    assert hold["locks"] == [account]
    assert org.admin("GET", "locks")["holds"][0]["id"] == hold["id"]
    assert upsert_contact(org, "one", "a-1") == 201
    assert [entry["waited_for"] for entry in org.journal("one")] == [[hold["id"]]]
    assert org.admin("GET", "locks") == {"locks": [], "holds": []}
    assert [entry["method"] for entry in org.journal() if entry["number"] == hold["id"]] == ["HOLD"]


def test_a_hold_that_cannot_be_had_or_named_is_refused(hasty_org: Org) -> None:
    org = hasty_org
    account = new_account(org.client(), "a-1")
    hold = org.admin("POST", "locks", {"ids": [account], "seconds": 30})["id"]
    org.admin("POST", "locks", {"ids": [account]}, status=409)
    org.admin("POST", "locks", {"ids": ["nonsense"]}, status=400)
    org.admin("POST", "locks", {"object": "Account", "external_ids": ["none"]}, status=400)
    org.admin("POST", "locks", {"object": "Account", "external_ids": [[]]}, status=400)
    org.admin("POST", "locks", {"id": account}, status=400)
    org.admin("DELETE", f"locks/{hold}")
    org.admin("DELETE", f"locks/{hold}", status=404)


def test_of_two_that_make_one_external_id_at_once_the_second_is_a_duplicate(tmp_path: Path) -> None:
    with running_org(tmp_path, "--transaction-ms", "500") as org:
        clients = [org.client(f"w{number}") for number in range(2)]

        def upsert(sf: Salesforce) -> int | str:
            try:
                status: int = sf.Lead.upsert("Rota_Id__c/l-1", {"LastName": "L", "Company": "C"})
                return status
            except SalesforceMalformedRequest as refused:
                return str(refused.content[0]["errorCode"])

        with ThreadPoolExecutor(2) as pool:
            assert set(pool.map(upsert, clients)) == {201, "DUPLICATE_VALUE"}
        assert upsert(clients[0]) == 200
        assert len(org.admin("GET", "records/Lead")["records"]) == 1


def test_crossing_lock_sets_never_deadlock(org: Org, sf: Salesforce, make_account: MakeAccount) -> None:
    accounts = [make_account(f"a-{number}") for number in range(4)]
    forward = [contact(f"c-{number}", f"a-{number % 4}") for number in range(8)]
    assert all(result["success"] for result in collect(sf, "sobjects/Contact/Rota_Id__c", forward))
    parents = [{"attributes": {"type": "Account"}, "id": each, "City": None} for each in accounts]
    for parent in parents:
        parent["BillingCity"] = parent.pop("City")

    def write(number: int) -> list[bool]:
        client = org.client(f"w{number}")
        results = []
        for turn in range(5):
            if (number + turn) % 3 == 0:
                results += collect(client, "sobjects", parents[::-1] if turn % 2 else parents)
            else:
                results += collect(client, "sobjects/Contact/Rota_Id__c", forward[::-1] if number % 2 else forward)
        return [result["success"] for result in results]

    with ThreadPoolExecutor(8) as pool:
        assert all(all(succeeded) for succeeded in pool.map(write, range(8)))
    assert any(entry["waits"] for entry in org.journal())
    assert org.admin("GET", "locks")["locks"] == []


def test_a_record_that_moved_while_we_waited_is_locked_under_its_new_parent(
    org: Org, make_account: MakeAccount
) -> None:
    old, new = make_account("a-1"), make_account("a-2")
    upsert_contact(org, "one", "a-1", client="setup")
    contact_id = org.admin("GET", "records/Contact")["records"][0]["Id"]
    hold = org.admin("POST", "locks", {"ids": [old]})["id"]
    with ThreadPoolExecutor(2) as pool:
        mover = pool.submit(upsert_contact, org, "one", "a-2", "mover")
        org.until_waiting(1)
        writer = pool.submit(lambda: org.client("writer").Contact.update(contact_id, {"Title": "Head"}))
        org.until_waiting(2)
        org.admin("DELETE", f"locks/{hold}")
        assert (mover.result(), writer.result()) == (200, 204)
    (entry,) = org.journal("writer")
    assert new in entry["locks"] and old not in entry["locks"]
    record = org.admin("GET", "records/Contact")["records"][0]
    assert (record["AccountId"], record["Title"]) == (new, "Head")


def test_the_policy_says_which_writes_lock_a_parent(org: Org, sf: Salesforce, make_account: MakeAccount) -> None:
    account = make_account("a-1")
    contact_id = sf.Contact.create({"LastName": "K", "AccountId": account})["id"]
    sf.Task.create({"Subject": "done", "WhoId": contact_id, "Status": "Completed"})
    task = sf.Task.create({"Subject": "call", "WhoId": contact_id, "ActivityDate": "2026-03-01"})["id"]
    sf.Task.update(task, {"Status": "Completed"})
    sf.Lead.create({"LastName": "L", "Company": "C"})
    locks = [entry["locks"] for entry in org.journal()[1:]]
    parents = sorted([account, contact_id])
    assert locks == [[account], [], parents, sorted([task, *parents]), []]


def test_hundreds_may_wait_at_once(tmp_path: Path) -> None:
    with running_org(tmp_path, "--transaction-ms", "0", "--row-ms", "0") as org:
        sf = org.client()
        account = sf.Account.create({"Name": "A"})["id"]
        hold = org.admin("POST", "locks", {"ids": [account]})["id"]
        with ThreadPoolExecutor(200) as pool:
            done = [pool.submit(sf.Account.update, account, {"Phone": str(number)}) for number in range(200)]
            org.until_waiting(200)
            assert sf.Account.create({"Name": "B"})["success"]
            org.admin("DELETE", f"locks/{hold}")
            assert [each.result() for each in done] == [204] * 200
