"""Take in one lead in a process of its own, and stop at a chosen point so that a test may kill it there.

python -m tests.races.child SOURCE EMAIL before|after
"""

import sys
from typing import Any

import django


def main() -> None:
    django.setup()
    from django.db import connection

    from routing.models import InboundSource
    from tests.races.crowd import take_in

    source, email, where = sys.argv[1:]

    def stop(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if "take_turns" not in sql:
            return execute(sql, params, many, context)
        if where == "before":
            wait_to_be_killed()
        result = execute(sql, params, many, context)
        wait_to_be_killed()
        return result

    with connection.execute_wrapper(stop):
        take_in(InboundSource.objects.get(slug=source), email=email)


def wait_to_be_killed() -> None:
    print("here", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
