"""Every kind of fault in tests/peers.py has a test, and the test is there."""

import ast
from pathlib import Path

import pytest

from tests.peers import NOT_SHOWN, SHOWN

ROOT = Path(__file__).resolve().parent.parent
KINDS = {
    *(1, 2, 4, 5, 7, 8, 10, 11, 13, 14, 16, 17, 19, 20, 22, 23),  # two reps, repeats, skew, races
    *(25, 26, 28, 29, 31, 32, 34),  # deactivated, out of office
    *(35, 37, 38, 40, 41, 43),  # time zones, clock changes
    *(44, 46, 47, 49, 50, 52, 53),  # weights, caps, counters
    *(55, 56, 58, 59),  # left unassigned, wrong trace
    *(61, 62, 64, 65, 67, 68),  # webhook duplicates
    *(70, 71, 73, 74, 76, 77, 79, 80, 82, 83, 85, 86, 88, 89, 91, 92, 94),  # files
}


def test_every_kind_is_shown_or_said_to_be_missing() -> None:
    assert set(SHOWN) | set(NOT_SHOWN) == KINDS and not set(SHOWN) & set(NOT_SHOWN)


@pytest.mark.parametrize("kind", SHOWN)
def test_the_test_of_a_kind_is_there(kind: int) -> None:
    file, _, name = SHOWN[kind].partition("::")
    tree = ast.parse((ROOT / file).read_text())
    assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}, SHOWN[kind]
