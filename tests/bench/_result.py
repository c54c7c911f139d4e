"""The one form in which every bench tells what it measured."""

import operator
import os
import platform
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from django.db import connection

OPERATORS: dict[str, Callable[[float, float], bool]] = {">=": operator.ge, "<=": operator.le}
Say = Callable[[str], None]


@dataclass(frozen=True)
class Target:
    op: str
    value: float


@dataclass(frozen=True)
class Bench:
    """`ratios` has the figure of every target, by the same name."""

    bench: str
    rounds: int
    ratios: dict[str, float]
    targets: dict[str, Target]
    details: dict[str, Any]
    machine: dict[str, Any]

    @property
    def held(self) -> bool:
        return all(OPERATORS[target.op](self.ratios[name], target.value) for name, target in self.targets.items())

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "held": self.held}

    def as_table(self) -> str:
        lines = [f"bench {self.bench}, {self.rounds} rounds, {self.machine}"]
        for name, ratio in self.ratios.items():
            target = self.targets.get(name)
            wanted = "" if target is None else f"  wanted {target.op} {target.value:g}"
            missed = target is not None and not OPERATORS[target.op](ratio, target.value)
            lines.append(f"  {name:<28} {ratio:>10.2f}{wanted}{'  MISSED' if missed else ''}")
        lines += [f"  {name:<28} {value}" for name, value in self.details.items()]
        return "\n".join([*lines, "held" if self.held else "did not hold"])


def machine() -> dict[str, Any]:
    """What these figures were measured on; `load` is the load average when it began."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('server_version'), current_setting('fsync')")
        postgres, fsync = cursor.fetchone()
    return {
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "postgres": postgres,
        "fsync": fsync,
    }
