"""What is written in `bench crm`, and how fast it could be: a lower bound on the makespan from the org's own costs.

An org that costs `transaction + row * rows + parent * parents` for a chunk, and runs `workers` chunks at once unless
they share a parent, cannot be done before either all work is shared out evenly or the chunks of the parent with the
most rows have followed one another. The workloads are those for which retry policies were once simulated.
"""

import csv
import math
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

CASES = Path(__file__).resolve().parents[1] / "cases" / "csv"
CHUNK = 200


@dataclass(frozen=True)
class Costs:
    """Milliseconds of a transaction, of each of its rows and each parent; all are multiplied by `scale`."""

    transaction_ms: float = 350.0
    row_ms: float = 8.0
    parent_ms: float = 20.0
    scale: float = 1.0

    def arguments(self) -> list[str]:
        """The options of a sandbox org with these costs."""
        named = {
            "--transaction-ms": self.transaction_ms,
            "--row-ms": self.row_ms,
            "--parent-ms": self.parent_ms,
            "--scale": self.scale,
        }
        return [word for name, value in named.items() for word in (name, str(value))]


@dataclass(frozen=True)
class Contact:
    """One row to write: its external id, its fields, the external id of its account."""

    key: str
    fields: Mapping[str, str]
    account: str


def bound_s(rows: Sequence[Contact], costs: Costs, workers: int) -> float:
    """Seconds below which nobody can write these rows: the work shared out, or the parent with the most rows."""
    counts = Counter(row.account for row in rows)
    work = math.ceil(len(rows) / CHUNK) * costs.transaction_ms + costs.row_ms * len(rows)
    work += costs.parent_ms * len(counts)
    hot = max(
        math.ceil(n / CHUNK) * (costs.transaction_ms + costs.parent_ms) + costs.row_ms * n for n in counts.values()
    )
    return max(work / workers, hot) * costs.scale / 1000


def zipf(name: str, *, count: int, parents: int, exponent: float, seed: int = 7) -> list[Contact]:
    """Rows over parents, the k-th of which is chosen with a weight of 1 / k to the exponent; in random order."""
    chance = random.Random(f"{seed}/{name}")
    weights = [1 / k**exponent for k in range(1, parents + 1)]
    return contacts(name, chance.choices(range(parents), weights, k=count))


def one_hot(name: str, *, count: int, seed: int = 7) -> list[Contact]:
    """Half of the rows under one parent, the other half over a thousand."""
    chance = random.Random(f"{seed}/{name}")
    parents = [0] * (count // 2) + [chance.randrange(1, 1000) for _ in range(count - count // 2)]
    chance.shuffle(parents)
    return contacts(name, parents)


def contacts(name: str, parents: Sequence[int]) -> list[Contact]:
    return [
        Contact(f"{name}-{n}", {"last_name": f"Name {n}", "title": "RevOps"}, f"{name}-A{parent}")
        for n, parent in enumerate(parents)
    ]


def from_file(name: str, *, count: int) -> list[Contact]:
    """The first rows of a file as it is uploaded for a mass update."""
    with (CASES / "contacts_update_20000.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row, _ in zip(csv.DictReader(file), range(count), strict=False)]
    return [
        Contact(
            f"{name}-{row['Rota_Id__c']}",
            {"last_name": row["LastName"], "title": row["Title"]},
            f"{name}-{row['Account.Rota_Id__c']}",
        )
        for row in rows
    ]


def workloads(count: int, *, prefix: str = "") -> dict[str, list[Contact]]:
    """The five workloads of so many rows each; their keys begin with `prefix` and the workload's name."""
    return {
        "mild_2000": zipf(f"{prefix}mild_2000", count=count, parents=2000, exponent=0.5),
        "zipf_300": zipf(f"{prefix}zipf_300", count=count, parents=300, exponent=1.0),
        "zipf_50": zipf(f"{prefix}zipf_50", count=count, parents=50, exponent=1.2),
        "one_hot": one_hot(f"{prefix}one_hot", count=count),
        "contacts_file": from_file(f"{prefix}contacts_file", count=count),
    }
