"""The time zone of a lead, as far as its country tells: that of a country all of whose clocks show the same time."""

from collections import defaultdict
from collections.abc import Collection
from functools import cache
from importlib.resources import files

from django.db import connection

from routing.places import country_code

ZONES = files("tzdata").joinpath("zoneinfo")


def zone_of(country: str) -> str | None:
    """The zone of a country as a form calls it; None where we do not know it, or it has several."""
    return zones_of_countries().get(country_code(country))


@cache
def zones_of_countries() -> dict[str, str]:
    """By two-letter code, the zone of each country that has one; the first of several that keep the same time now."""
    zones: dict[str, list[str]] = defaultdict(list)
    for line in ZONES.joinpath("zone.tab").read_text("utf-8").splitlines():
        if line and not line.startswith("#"):
            code, _, zone, *_ = line.split("\t")
            zones[code].append(zone)
    return {code: names[0] for code, names in zones.items() if len(set(map(rule_of, names))) == 1}


def rule_of(zone: str) -> bytes:
    """What the zone's clocks do from now on: the last line of its file (RFC 9636)."""
    return ZONES.joinpath(*zone.split("/")).read_bytes().splitlines()[-1]


def known_to_the_server(zones: Collection[str]) -> set[str]:
    """Those of the zones that Postgres knows, too: its list may be older, and the gate must not fail over a name."""
    if not zones:
        return set()
    with connection.cursor() as cursor:
        cursor.execute("SELECT name FROM pg_timezone_names WHERE name = ANY(%s)", [list(zones)])
        return {name for (name,) in cursor.fetchall()}
