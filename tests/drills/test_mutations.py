"""The faults of `./rota drill mutations` can still be put in, each in one place, and the tests named are there."""

import ast

import pytest

from tests.drills._mutants import MUTANTS, ROOT, Mutant


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_fault_can_be_put_in_and_names_a_test_that_exists(mutant: Mutant) -> None:
    changed = mutant.source()
    assert changed != (ROOT / mutant.file).read_text()
    if mutant.file.endswith(".py"):
        compile(changed, mutant.file, "exec")
    file, _, name = mutant.test.partition("::")
    tests = {node.name for node in ast.parse((ROOT / file).read_text()).body if isinstance(node, ast.FunctionDef)}
    assert name.partition("[")[0] in tests


def test_a_fault_that_cannot_be_put_in_is_not_passed_over() -> None:
    with pytest.raises(LookupError, match="stands 0 times"):
        Mutant("nothing", "outreach/moves/gate.py", (("no such text", ""),), "").source()
