"""How Rota is built, held to by reading its source: who changes statuses, who opens transactions, names of files."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
APPS = ("config", "outreach", "routing", "crmsync")
FILES = sorted(file for app in APPS for file in (ROOT / app).rglob("*.py") if "migrations" not in file.parts)
NAMES_THAT_SAY_NOTHING = {"utils", "util", "common", "base", "services", "helpers", "misc", "core", "lib"}
MOST_LINES = 300

# The moves: the only modules that may assign a status. In SQL, take_turns and outbox_enqueue do.
MOVES = {
    "routing/import_states.py",
    "routing/leads.py",
    "routing/turns.py",
    "routing/choice.py",
    "routing/reassign.py",
    "routing/rule_books.py",
    "crmsync/moves",
    "crmsync/sandbox",
    "outreach",
}


def name_of(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


def tree_of(file: Path) -> ast.Module:
    return ast.parse(file.read_text())


def calls(tree: ast.AST, name: str) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = node.func
            if (isinstance(called, ast.Attribute) and called.attr == name) or (
                isinstance(called, ast.Name) and called.id == name
            ):
                yield node


def statuses_assigned(tree: ast.AST) -> Iterator[int]:
    """Lines that write a field called status: `.update(status=...)` and `something.status = ...`."""
    for call in calls(tree, "update"):
        if any(keyword.arg == "status" for keyword in call.keywords):
            yield call.lineno
    for node in ast.walk(tree):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if is_one_target(node) else []
        for target in targets:
            if isinstance(target, ast.Attribute) and target.attr == "status":
                yield target.lineno


def is_one_target(node: ast.AST) -> bool:
    return isinstance(node, ast.AnnAssign | ast.AugAssign)


def test_the_rule_about_statuses_sees_what_it_forbids():
    bad = "lead.status = 1\nleads.update(status=2)\nlead.status: int = 3\n"
    assert sorted(statuses_assigned(ast.parse(bad))) == [1, 2, 3]


def test_only_moves_assign_a_status():
    wrong = [
        f"{name_of(file)}:{line}"
        for file in FILES
        if not any(name_of(file).startswith(move) for move in MOVES)
        for line in statuses_assigned(tree_of(file))
    ]
    assert not wrong


def test_no_file_is_named_by_a_word_that_says_nothing():
    assert not [name_of(file) for file in FILES if file.stem in NAMES_THAT_SAY_NOTHING]


def test_every_file_stays_under_three_hundred_lines():
    long = {name_of(file): len(file.read_text().splitlines()) for file in FILES}
    assert not {name: lines for name, lines in long.items() if lines > MOST_LINES}


def test_who_opens_a_transaction_says_durable_so_that_it_is_never_an_inner_one():
    wrong = [
        f"{name_of(file)}:{call.lineno}"
        for file in FILES
        for call in calls(tree_of(file), "atomic")
        if not any(keyword.arg == "durable" for keyword in call.keywords)
    ]
    assert not wrong


@pytest.mark.parametrize("app", ["routing", "crmsync"])
def test_no_move_opens_a_transaction_it_asks_its_caller_for(app):
    wrong = [
        f"{name_of(file)}:{node.lineno}"
        for file in FILES
        if name_of(file).startswith(f"{app}/")
        for node in ast.walk(tree_of(file))
        if isinstance(node, ast.FunctionDef)
        and "Call inside a transaction" in (ast.get_docstring(node) or "")
        and any(calls(node, "atomic"))
    ]
    assert not wrong


def test_every_module_begins_with_a_sentence():
    silent = [
        name_of(file)
        for file in FILES
        if file.read_text().strip() and file.name != "apps.py" and not ast.get_docstring(tree_of(file))
    ]
    assert not silent


def test_public_functions_of_routing_say_what_they_do():
    silent = [
        f"{name_of(file)}:{node.name}"
        for file in FILES
        if file.parent == ROOT / "routing"
        for node in tree_of(file).body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_") and not ast.get_docstring(node)
    ]
    assert not silent


def test_no_query_slices_inside_an_in():
    """`pk__in=queryset[:n]` may claim more than n rows; ids are listed first."""
    wrong = [
        f"{name_of(file)}:{keyword.value.lineno}"
        for file in FILES
        for node in ast.walk(tree_of(file))
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg and keyword.arg.endswith("__in") and isinstance(keyword.value, ast.Subscript)
    ]
    assert not wrong


def test_no_dead_receivers_no_save_overrides():
    wrong = [
        f"{name_of(file)}:{node.lineno}"
        for file in FILES
        if "/models" in name_of(file)
        for node in ast.walk(tree_of(file))
        if isinstance(node, ast.FunctionDef) and node.name in ("save", "delete")
    ]
    assert not wrong


def test_commands_take_files_from_where_the_person_stands() -> None:
    """`type=Path` would look for them in the project's folder, where `./rota` runs every command."""
    plain = [
        f"{name_of(file)}:{call.lineno}"
        for file in FILES
        if "commands" in file.parts
        for call in calls(tree_of(file), "add_argument")
        for keyword in call.keywords
        if keyword.arg == "type" and ast.unparse(keyword.value) in ("Path", "pathlib.Path", "open")
    ]
    assert plain == []
