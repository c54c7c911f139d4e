"""What stands behind an option and cannot be meant is wrong usage, before anything is done."""

from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.core.management.base import BaseCommand

from outreach.management.commands import audit_sends, send_due, send_notices
from outreach.models import Claim
from tests.outreach.make import make_running

WRONG = [
    *((send_due, "--batch", value) for value in ("-3", "0", "1001", "1.5", "many", "9" * 5_000)),
    *((send_due, "--budget", value) for value in ("nan", "inf", "-1", "0", "soon")),
    *((command, "--job", value) for command in (send_due, send_notices) for value in ("j" * 101, " ", "a\x00b")),
    *((audit_sends, option, value) for option in ("--within", "--lease") for value in ("nan", "-1", "inf")),
]


@pytest.mark.parametrize(("module", "option", "value"), WRONG)
def test_wrong_usage_is_told_and_ends_with_exit_2(module: Any, option: str, value: str, capsys: Any) -> None:
    command: BaseCommand = module.Command()
    command._called_from_command_line = True  # type: ignore[attr-defined]
    parser = command.create_parser("manage.py", "it")
    with pytest.raises(SystemExit) as ended:
        parser.parse_args([f"{option}={value}", "mail.log"][: 2 if module is audit_sends else 1])
    assert ended.value.code == 2
    assert f"argument {option}: " in capsys.readouterr().err


@pytest.mark.django_db(transaction=True)
def test_wrong_usage_claims_nothing() -> None:
    make_running()
    with pytest.raises(CommandError, match="is not a whole number from 1 to 1,000"):
        call_command("send_due", "--batch", "0")
    assert not Claim.objects.exists()
