"""The back door, no part of Salesforce: read the journal, hold locks, order faults, look at records, start afresh."""

import json
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import asdict, fields
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from crmsync.sandbox import ids
from crmsync.sandbox.automation import BadAutomation, kind_of
from crmsync.sandbox.background import Habit
from crmsync.sandbox.errors import Stopping
from crmsync.sandbox.facts import BadSetting
from crmsync.sandbox.faults import KINDS, Fault
from crmsync.sandbox.org import Org
from crmsync.sandbox.store import Writes
from crmsync.sandbox.values import to_json

MOST_ENTRIES = 10_000
WHOLE = ("times", "nth", "count", "status", "rows", "seed")

T = TypeVar("T")


class BadRequest(Exception):
    """What was sent makes no sense; the text says why."""


async def read_journal(org: Org, request: Request) -> Any:
    """`GET journal?after=N&limit=M`: entries with `seq` beyond N in the order in which they ended."""
    after, limit = (_whole(request, name, start) for name, start in (("after", 0), ("limit", MOST_ENTRIES)))
    return {"entries": org.store.journal(after, limit)}


async def read_locks(org: Org, request: Request) -> Any:
    """`GET locks`: every lock held now with those who wait for it, and the holds from outside."""
    return {"locks": org.locks.snapshot(), "holds": org.holds.listed()}


async def hold_locks(org: Org, request: Request) -> Any:
    """`POST locks` {"ids": [..]} or {"object", "external_ids": [..], "field": "Rota_Id__c"}, and "seconds".

    Without seconds they are held until released. Answers when all are held; 409 when somebody else keeps one of them
    longer than the lock wait.
    """
    body = await _body(request, "ids", "object", "field", "external_ids", "seconds")
    keys = [org.planner.key(record_id) for record_id in _record_ids(org, body)]
    seconds = None if body.get("seconds") is None else _seconds(body)
    number = org.next_number()
    if not await org.holds.take(number, keys, time.monotonic() + org.lock_wait, seconds):
        return JSONResponse({"error": "somebody else keeps one of these locks"}, 409)
    return {"id": number, "locks": sorted(key.name for key in keys)}


async def release_locks(org: Org, request: Request) -> Any:
    """`DELETE locks/{id}`: end a hold."""
    if not await org.holds.release(request.path_params["number"]):
        return JSONResponse({"error": "no such hold"}, 404)
    return {}


async def stall(org: Org, request: Request) -> Any:
    """`POST stall` {"seconds": S}: every data call waits S real seconds first; 0 ends it and lets all go that wait."""
    org.faults.stall(_seconds(await _body(request, "seconds")))
    return {}


async def add_fault(org: Org, request: Request) -> Any:
    """`POST faults` {"kind", "times": 1, "path": "/services/data/", ...}: what the rest means stands at `Fault`."""
    org.faults.add(await _made(request, Fault, {"kind": KINDS}))
    return {"faults": org.faults.listed()}


async def read_faults(org: Org, request: Request) -> Any:
    """`GET faults`: the rules in force with the number of calls they will still meet."""
    return {"faults": org.faults.listed()}


async def clear_faults(org: Org, request: Request) -> Any:
    """`DELETE faults`: no call meets a fault any more."""
    org.faults.clear()
    return {}


async def read_settings(org: Org, request: Request) -> Any:
    """`GET settings`: all of them, as `Facts` explains them."""
    return {"settings": org.facts.shown()}


async def change_settings(org: Org, request: Request) -> Any:
    """`POST settings` {"name": value, ...}; a reset goes back to those of the start."""
    org.facts.change(await _body(request))
    return {"settings": org.facts.shown()}


async def read_automation(org: Org, request: Request) -> Any:
    """`GET automation`: the triggers and rules in force."""
    return {"automation": [{"kind": kind_of(part), **asdict(part)} for part in org.automation.parts]}


async def add_automation(org: Org, request: Request) -> Any:
    """`POST automation` {"kind": "trigger", "object": "Contact", "name": ..}: see the classes of that module."""
    org.automation.add(await _body(request))
    return {}


async def restore_automation(org: Org, request: Request) -> Any:
    """`DELETE automation`: what was added is gone."""
    org.automation.restore()
    return {}


async def start_writers(org: Org, request: Request) -> Any:
    """`POST writers` {"object", "count": 1, "hold_ms", "rest_ms", "seed", "ids"}: people start to save records."""
    org.writers.start(await _made(request, Habit, {"object": tuple(org.schema.objects)}))
    return {}


async def stop_writers(org: Org, request: Request) -> Any:
    """`DELETE writers`: they go home; answers how many there were."""
    return {"stopped": await org.writers.stop()}


async def read_records(org: Org, request: Request) -> Any:
    """`GET records/{object}`: all records that are not deleted, whole, in id order."""
    sobject = org.schema.find(request.path_params["object"])
    if sobject is None:
        return JSONResponse({"error": "no such object"}, 404)
    known = sobject.fields
    records = [
        {name: to_json(known[name], value) for name, value in each.items()} for each in org.store.records(sobject)
    ]
    return {"records": records}


async def convert(org: Org, request: Request) -> Any:
    """`POST convert` {"lead": id, "contact": id}: a person has made the lead this contact, as convertLead would."""
    body = await _body(request, "lead", "contact")
    lead, contact = (ids.canonical(str(body.get(name, ""))) for name in ("lead", "contact"))
    leads, contacts = org.schema.objects["Lead"], org.schema.objects["Contact"]
    found = org.store.get(leads, lead) if lead else None
    if found is None or not contact or org.store.get(contacts, contact) is None:
        raise BadRequest("lead and contact are ids of a lead and a contact")
    await org.store.commit(Writes([(leads, {**found, "IsConverted": 1, "ConvertedContactId": contact})]))
    return {}


async def reset(org: Org, request: Request) -> Any:
    """`POST reset`: back to the first users; tokens stay good. Call it while nothing is written."""
    await org.reset()
    return {}


def _record_ids(org: Org, body: dict[str, Any]) -> list[str]:
    named = body.get("ids")
    if isinstance(named, list) and named:
        found = [ids.canonical(str(each)) for each in named]
        if all(found):
            return [each for each in found if each]
        raise BadRequest("ids: each must be a record id")
    sobject = org.schema.find(str(body.get("object", "")))
    by = sobject.field(str(body.get("field", "Rota_Id__c"))) if sobject else None
    values = body.get("external_ids")
    if sobject is None or by is None or not isinstance(values, list) or not values:
        raise BadRequest("name ids, or an object with external_ids and their field")
    for value in values:
        if not isinstance(value, str) or not org.store.ids_with(sobject, by, value):
            raise BadRequest(f"no {sobject.name} has {by.name} {value}")
    return [record_id for value in values for record_id in org.store.ids_with(sobject, by, value)]


def _seconds(body: dict[str, Any]) -> float:
    seconds = body.get("seconds")
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 <= seconds <= 86_400:
        raise BadRequest("seconds is a number from 0 to 86400")
    return float(seconds)


def _whole(request: Request, name: str, start: int) -> int:
    text = request.query_params.get(name, str(start))
    if not text.isdecimal() or len(text) > 15:
        raise BadRequest(f"{name} is a whole number")
    return int(text)


async def _made(request: Request, made: type[T], choices: Mapping[str, Collection[str]]) -> T:
    """The body as a T: names and types must be its own, and of `choices` a value must be one."""
    plain = {known.name: known for known in fields(made) if known.name != "chance"}  # type: ignore[arg-type]
    body = await _body(request, *plain)
    for name, allowed in choices.items():
        if body.get(name) not in allowed:
            raise BadRequest(f"{name} is one of {', '.join(allowed)}")
    for name, value in body.items():
        start = plain[name].default
        number = isinstance(start, (int, float)) and isinstance(value, (int, float)) and not isinstance(value, bool)
        if name not in choices and not (number and value >= 0) and not isinstance(value, type(start) | list):
            raise BadRequest(f"{name} cannot be {value}")
    if body.get("times") == 0:
        raise BadRequest("times is a number from 1 up")
    if any(isinstance(plain[name].default, int) != isinstance(body[name], int) for name in body if name in WHOLE):
        raise BadRequest(f"{', '.join(WHOLE)} are whole numbers")
    return made(**{name: tuple(value) if isinstance(value, list) else value for name, value in body.items()})


async def _body(request: Request, *known: str) -> dict[str, Any]:
    """The JSON object that was sent; with `known` its names are some of these."""
    try:
        body = json.loads(await request.body() or b"{}")
    except ValueError:
        raise BadRequest("send JSON") from None
    if not isinstance(body, dict) or (known and set(body) - set(known)):
        raise BadRequest(f"send a JSON object with some of {', '.join(known)}")
    return body


def _route(path: str, method: str, answer: Callable[[Org, Request], Awaitable[Any]]) -> Route:
    async def endpoint(request: Request) -> Response:
        try:
            result = await answer(request.app.state.org, request)
        except (BadRequest, BadSetting, BadAutomation) as error:
            return JSONResponse({"error": str(error)}, 400)
        except Stopping:
            return JSONResponse({"error": "the org is being stopped"}, 503)
        return result if isinstance(result, Response) else JSONResponse(result)

    return Route(f"/__admin/{path}", endpoint, methods=[method])


ROUTES = [
    _route("journal", "GET", read_journal),
    _route("locks", "GET", read_locks),
    _route("locks", "POST", hold_locks),
    _route("locks/{number:int}", "DELETE", release_locks),
    _route("stall", "POST", stall),
    _route("faults", "GET", read_faults),
    _route("faults", "POST", add_fault),
    _route("faults", "DELETE", clear_faults),
    _route("settings", "GET", read_settings),
    _route("settings", "POST", change_settings),
    _route("automation", "GET", read_automation),
    _route("automation", "POST", add_automation),
    _route("automation", "DELETE", restore_automation),
    _route("writers", "POST", start_writers),
    _route("writers", "DELETE", stop_writers),
    _route("records/{object}", "GET", read_records),
    _route("convert", "POST", convert),
    _route("reset", "POST", reset),
]
