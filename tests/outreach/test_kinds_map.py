"""The map from promises and known faults to tests is whole, and every test in it is there."""

import ast
from functools import cache
from pathlib import Path

import pytest

from tests.outreach.kinds_map import INVARIANTS, KINDS, CannotOccur

ROOT = Path(__file__).resolve().parents[2]
NAMED = sorted(
    {test for tests in INVARIANTS.values() for test in tests} | {k for k in KINDS.values() if isinstance(k, str)}
)


@cache
def names_in(file: str) -> frozenset[str]:
    tree = ast.parse((ROOT / file).read_text())
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


@pytest.mark.parametrize("test", NAMED)
def test_it_exists(test: str) -> None:
    file, _, name = test.partition("::")
    assert name in names_in(file)


def test_no_invariant_is_left_out() -> None:
    assert list(INVARIANTS) == [f"I{n}" for n in range(1, 18)] and all(INVARIANTS.values())


def test_what_cannot_occur_says_why() -> None:
    assert all(len(kind.because) > 20 for kind in KINDS.values() if isinstance(kind, CannotOccur))
