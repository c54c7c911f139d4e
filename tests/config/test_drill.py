"""The drill command: a thin dispatcher whose figures always come in one form."""

import json
from typing import Any

import pytest
from django.core.management import call_command

from config.management.commands import drill


def test_an_unknown_drill_exits_2_with_the_list(capsys: Any) -> None:
    with pytest.raises(SystemExit) as stopped:
        call_command("drill", "nonsense")
    assert stopped.value.code == 2
    assert "sends" in capsys.readouterr().err


@pytest.mark.parametrize("ok", [True, False])
def test_the_figures_are_one_json_object_and_the_exit_code_says_whether_they_held(
    ok: bool, monkeypatch: Any, capsys: Any
) -> None:
    result = {"drill": "sends", "seed": 1, "seconds": 1.0, "checks": {"lost": {"value": 0, "limit": "0", "ok": ok}}}
    monkeypatch.setattr("tests.drills.sends.run", lambda **_: result | {"ok": ok})
    if ok:
        call_command("drill", "sends", "--json")
    else:
        with pytest.raises(SystemExit) as stopped:
            call_command("drill", "sends", "--json")
        assert stopped.value.code == 1
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["ok"] is ok
    assert "lost" in drill.as_table(result | {"ok": ok})
