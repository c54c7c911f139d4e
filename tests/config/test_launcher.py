"""./rota explains itself, installs what the lock says once, and keeps stdout for results."""

import importlib.machinery
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from config.launch import COMMANDS, secret_key
from config.localpg import PROJECT

ROTA = PROJECT / "rota"


def rota(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(ROTA), *words], env={**os.environ, **more}, capture_output=True, text=True)


@pytest.fixture
def launcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The launcher as a module, working in a folder with two empty locks."""
    loader = importlib.machinery.SourceFileLoader("rota_launcher", str(ROTA))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    monkeypatch.setattr(module, "ROOT", str(tmp_path))
    monkeypatch.setattr(module, "VENV", str(tmp_path / ".venv"))
    monkeypatch.setattr(module, "PYTHON", str(tmp_path / ".venv/bin/python"))
    monkeypatch.setattr(module, "NEW_VENV", ("-m", "venv", "--without-pip"))  # the slow part
    monkeypatch.setattr(module, "pip", lambda *words: 0)
    monkeypatch.chdir(tmp_path)
    for lock in ("requirements.txt", "requirements-dev.txt"):
        (tmp_path / lock).write_text("# nothing yet\n")
    return module


def test_an_unknown_word_prints_the_help_and_exits_2() -> None:
    said = rota("serve")
    assert said.returncode == 2
    assert said.stdout == ""
    assert "there is no `serve`" in said.stderr and "./rota up" in said.stderr


@pytest.mark.parametrize("words", [(), ("--help",)])
def test_the_help_names_every_command(words: tuple[str, ...], launcher: ModuleType) -> None:
    said = rota(*words)
    assert said.returncode == 0
    assert all(f"./rota {command}" in said.stdout for command in COMMANDS)
    assert set(launcher.COMMANDS) == set(COMMANDS)


def test_stdout_belongs_to_the_command() -> None:
    said = rota("manage", "shell", "--no-imports", "-c", "print('{\"held\": true}')")
    assert json.loads(said.stdout) == {"held": True}, said.stderr


def test_a_file_is_looked_for_where_the_person_stands(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_bytes((PROJECT / "tests/cases/mail/esp_events.jsonl").read_bytes())
    for file in ("events.jsonl", "./events.jsonl", str(tmp_path / "events.jsonl")):
        said = subprocess.run(
            [str(ROTA), "manage", "audit_sends", "--no-ledger", file], cwd=tmp_path, capture_output=True, text=True
        )
        assert said.returncode == 3, said.stderr
    said = subprocess.run([str(ROTA), "demo", "--leads", "none.jsonl"], cwd=tmp_path, capture_output=True, text=True)
    assert said.returncode == 2 and str(tmp_path / "none.jsonl") in said.stderr


def test_the_locks_are_installed_once_and_the_dev_lock_serves_both(launcher: ModuleType, tmp_path: Path) -> None:
    installed = []
    install = launcher.install
    launcher.install = lambda lock: (installed.append(lock), install(lock))  # type: ignore[attr-defined]
    for lock in (launcher.RUNTIME, launcher.RUNTIME, launcher.DEV, launcher.DEV, launcher.RUNTIME):
        launcher.set_up(lock)
    assert installed == [launcher.RUNTIME, launcher.DEV]

    (tmp_path / "requirements.txt").write_text("# changed\n")
    assert not launcher.satisfied(launcher.DEV)
    launcher.set_up(launcher.RUNTIME)
    python = tmp_path / ".venv/bin/python"
    python.unlink()
    python.symlink_to(tmp_path / "a python that was removed")
    launcher.set_up(launcher.RUNTIME)
    assert installed[2:] == [launcher.RUNTIME, launcher.RUNTIME]
    assert subprocess.run([python, "-c", ""]).returncode == 0


def test_half_an_install_is_made_again_from_nothing(
    launcher: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launcher, "pip", lambda *words: 1)
    with pytest.raises(SystemExit, match="pip could not install"):
        launcher.set_up(launcher.RUNTIME)
    assert not launcher.satisfied(launcher.RUNTIME)
    (left := tmp_path / ".venv/left-over").touch()
    monkeypatch.setattr(launcher, "pip", lambda *words: 0)
    launcher.set_up(launcher.RUNTIME)
    assert not left.exists()


def test_an_old_python_and_a_missing_venv_module_are_named(
    launcher: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "version_info", (3, 10, 4))
        with pytest.raises(SystemExit, match="3.11 or newer"):
            launcher.main(["up"])
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(SystemExit, match="apt-get install python3-venv"):
        launcher.make_venv()


def test_the_secret_key_is_made_once_and_is_nobody_elses_to_read(tmp_path: Path) -> None:
    path = tmp_path / "var" / "secret_key"
    first = secret_key(path)
    assert len(first) > 50 and secret_key(path) == first
    assert path.stat().st_mode & 0o777 == 0o600
    assert [one.name for one in path.parent.iterdir()] == ["secret_key"]
