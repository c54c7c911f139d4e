"""A cell as the org takes it, or what would be right instead."""

from typing import Any

import pytest

from crmsync.describe import FieldInfo
from crmsync.push.values import Wrong, typed


def field(kind: str, **more: Any) -> FieldInfo:
    return FieldInfo("F", kind, **more)


RIGHT = [
    (field("string", length=5), " a b ", " a b "),
    (field("string"), "#N/A", None),
    (field("string"), "#N/A is how a null is written", "#N/A is how a null is written"),
    (field("picklist", values=("Hot", "Cold")), "Hot", "Hot"),
    (field("picklist"), "Anything", "Anything"),
    (field("multipicklist", values=("a", "b")), "a; b", "a;b"),
    (field("email"), " ada@customer.example ", "ada@customer.example"),
    (field("boolean", nillable=False), "TRUE", True),
    (field("boolean"), "0", False),
    (field("int"), "-12", -12),
    (field("int"), "12.0", 12),
    (field("double", precision=18, scale=2), "1234.50", 1234.5),
    (field("double", precision=18, scale=2), "0.1", 0.1),
    (field("currency", precision=18, scale=0), "1e3", 1000),
    (field("percent"), ".5", 0.5),
    (field("date"), "2024-02-29", "2024-02-29"),
    (field("datetime"), "2026-03-01T23:30:00-05:00", "2026-03-02T04:30:00.000Z"),
    (field("datetime"), "2026-03-01 23:30:00.1239Z", "2026-03-01T23:30:00.123Z"),
    (field("time"), "18:30:00Z", "18:30:00.000Z"),
    (field("reference"), "001D000000IqhSL", "001D000000IqhSLIAZ"),
]


@pytest.mark.parametrize(("field", "text", "value"), RIGHT)
def test_a_cell_gets_the_type_of_its_field(field: FieldInfo, text: str, value: Any) -> None:
    found = typed(field, text)
    assert (found, type(found)) == (value, type(value))


WRONG = [
    (field("string", length=3), "abcd", "has 4 characters; it holds 3"),
    (field("string", nillable=False), "#N/A", "cannot be empty"),
    (field("boolean", nillable=False), "#N/A", "cannot be empty"),
    (field("picklist", values=("Hot", "Cold")), "hot", "does not know “hot”; it takes Hot, Cold"),
    (field("multipicklist", values=("a", "b")), "a;c", "does not know “c”; values are separated by semicolons"),
    (field("email"), "ada@customer", "is no e-mail address: “ada@customer”"),
    (field("boolean"), "maybe", "is neither true nor false: “maybe”"),
    (field("int"), "1.5", "is no whole number up to 2,147,483,647: “1.5”"),
    (field("int"), "3000000000", "is no whole number up to 2,147,483,647: “3000000000”"),
    (field("double"), "1,234", "is no number like 1234.5: “1,234”"),
    (field("double"), "nan", "is no number like 1234.5: “nan”"),
    (field("double", precision=4, scale=2), "100", "takes 2 digits before the point: “100”"),
    (field("double"), "0.12345678901234567", "has more digits than can be sent exactly: “0.12345678901234567”"),
    (field("date"), "31/12/2026", "is no date like 2026-12-31: “31/12/2026”"),
    (field("date"), "2026-02-29", "is no date like 2026-12-31: “2026-02-29”"),
    (field("date"), "2026-03-01T00:00:00Z", "is no date like 2026-12-31: “2026-03-01T00:00:00Z”"),
    (field("date"), "1600-01-01", "is no date like 2026-12-31: “1600-01-01”"),
    (field("datetime"), "2026-03-01T10:00:00", "has no time zone"),
    (field("datetime"), "yesterday", "is no time like 2026-12-31T18:30:00Z: “yesterday”"),
    (field("time"), "half past", "is no time of day like 18:30:00Z: “half past”"),
    (field("reference"), "ACME", "is no Salesforce id of 15 or 18 letters: “ACME”"),
]


@pytest.mark.parametrize(("field", "text", "says"), WRONG)
def test_what_the_org_could_not_take_is_refused_with_what_would_be_right(
    field: FieldInfo, text: str, says: str
) -> None:
    with pytest.raises(Wrong) as refused:
        typed(field, text)
    assert says in str(refused.value)
