"""The time zone of a lead: its country's, where all clocks of the country show the same time."""

import pytest

from outreach.flows.launching import with_known_zones
from outreach.flows.zones import known_to_the_server, zone_of, zones_of_countries
from outreach.models.campaign import validate_zone
from outreach.moves.campaigns import Person


@pytest.mark.parametrize(
    ("country", "zone"),
    [
        ("Japan", "Asia/Tokyo"),
        ("fr", "Europe/Paris"),
        ("Germany", "Europe/Berlin"),  # Büsingen has a zone of its own and the same clocks
        ("US", None),
        ("Spain", None),  # the Canaries are an hour behind
        ("Atlantis", None),
        ("", None),
    ],
)
def test_a_country_with_one_zone_gives_it_and_one_with_several_gives_none(country: str, zone: str | None) -> None:
    assert zone_of(country) == zone


def test_every_zone_of_a_country_may_be_a_campaigns_too() -> None:
    zones = set(zones_of_countries().values())
    assert len(zones) > 150
    for zone in zones:
        validate_zone(zone)


@pytest.mark.django_db
def test_a_zone_that_postgres_does_not_know_is_no_zone() -> None:
    people = [Person(1, "a@x", "a@x", "Asia/Tokyo"), Person(2, "b@x", "b@x", "Mars/Base"), Person(3, "c@x", "c@x")]
    assert [one.zone for one in with_known_zones(people)] == ["Asia/Tokyo", None, None]
    assert known_to_the_server([]) == set()
