"""What the demo sends, and how its figures are made."""

from pathlib import Path

import pytest

from config.demo.leads import BadLeadsFile, built_in, distinct, from_file, percentiles


def write(folder: Path, text: str) -> Path:
    path = folder / "leads.jsonl"
    path.write_text(text)
    return path


def test_the_built_in_burst_is_thirty_different_people_each_time() -> None:
    first, second = built_in(), built_in()
    assert distinct(event.lead for event in first) == 30
    assert distinct(event.lead for event in [*first, *second]) == 60
    assert len({event.id for event in [*first, *second]}) == 60


def test_a_leads_id_is_its_event_id_and_no_field_of_the_lead(tmp_path: Path) -> None:
    (event,) = from_file(write(tmp_path, '{"id": "evt_1", "email": "pat@acme.example"}\n\n'))
    assert (event.id, event.lead) == ("evt_1", {"email": "pat@acme.example"})


def test_a_file_with_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    (event,) = from_file(write(tmp_path, '\ufeff{"id": 7, "email": "pat@acme.example"}'))
    assert event.id == "7"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"id": "1"}\n{"id"', "line 2 is not JSON"),
        ('{"email": "pat@acme.example"}', 'line 1: wanted is one JSON object with an "id"'),
        ("[1]", "line 1: wanted"),
        ('{"id": ""}', "line 1: wanted"),
        ("\n \n", "has no leads in it"),
    ],
)
def test_a_bad_file_is_refused_with_the_line(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(BadLeadsFile, match=says):
        from_file(write(tmp_path, text))


def test_a_missing_file_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(BadLeadsFile, match="nothing.jsonl cannot be read"):
        from_file(tmp_path / "nothing.jsonl")


def test_leads_that_share_an_address_are_one() -> None:
    leads = [
        {"email": "PAT@acme.example"},
        {"email": "pat@acme.example", "phone": "+33 6 12 34 56 78"},
        {"phone": "+33612345678"},
        {"email": "kit@acme.example"},
        {"email": "no address"},
    ]
    assert distinct(leads) == 2


def test_two_leads_become_one_when_a_third_joins_them() -> None:
    first, second = {"email": "pat@acme.example"}, {"phone": "+33612345678"}
    assert distinct([first, second, {**first, **second}]) == 1


def test_percentiles_are_by_nearest_rank() -> None:
    assert percentiles([float(value) for value in range(1, 101)]) == {"p50": 50.0, "p95": 95.0, "max": 100.0}
    assert percentiles([3.0]) == {"p50": 3.0, "p95": 3.0, "max": 3.0}
    assert percentiles([]) == {"p50": None, "p95": None, "max": None}
