"""The sandbox org stands apart from the product: neither imports the other."""

import ast
import os
import signal
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
    allowed = {"cryptography", "starlette", "uvicorn", *sys.stdlib_module_names}
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


def test_the_management_command_is_the_same_org(tmp_path: Path) -> None:
    command = [sys.executable, "manage.py", "sandbox_org", "--port", "0", "--data", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=os.environ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("sandbox org listening on http://127.0.0.1:")
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0


def test_options_that_make_no_sense_are_a_usage_error(tmp_path: Path) -> None:
    for option in (["--port", "70000"], ["--scale", "-1"], ["--row-ms", "much"]):
        command = [sys.executable, "-m", "crmsync.sandbox", "--data", str(tmp_path / "org"), *option]
        refused = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=20)
        assert refused.returncode == 2 and option[1] in refused.stderr
