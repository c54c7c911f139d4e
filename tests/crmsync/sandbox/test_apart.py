"""The sandbox org stands apart from the product: neither imports the other."""

import ast
import subprocess
import sys
from pathlib import Path

import crmsync.sandbox

ROOT = Path(crmsync.sandbox.__file__).parents[2]
SANDBOX = ROOT / "crmsync" / "sandbox"
COMMAND = ROOT / "crmsync" / "management" / "commands" / "sandbox_org.py"


def imported(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def test_the_sandbox_imports_the_library_and_its_server_only() -> None:
    allowed = {"starlette", "uvicorn", *sys.stdlib_module_names}
    for path in SANDBOX.glob("*.py"):
        for name in imported(path):
            assert name.startswith("crmsync.sandbox") or name.split(".")[0] in allowed, f"{path.name} imports {name}"


def test_only_its_own_command_imports_the_sandbox() -> None:
    for app in ("config", "routing", "outreach", "crmsync"):
        for path in (ROOT / app).rglob("*.py"):
            if path.parent != SANDBOX and path != COMMAND:
                assert not any(name.startswith("crmsync.sandbox") for name in imported(path)), path


def test_it_starts_without_settings_and_without_django() -> None:
    program = "import sys, crmsync.sandbox.server; assert not any(name.startswith('django') for name in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT, env={})
