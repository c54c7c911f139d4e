"""How long a transaction holds its locks: by itself, for its rows, its parents, its triggers and its roll-ups."""

import math
import random
from collections import Counter
from collections.abc import Iterable, Sequence

from crmsync.sandbox.automation import Automation, Trigger
from crmsync.sandbox.options import Options
from crmsync.sandbox.schema import Schema, SObject
from crmsync.sandbox.store import Record

Saved = tuple[SObject, str]  # an object, and whether its record was inserted, updated or deleted


class Costs:
    """Costs by the options of the org. With `noise` each is multiplied by a lognormal factor, drawn in order from
    `seed`."""

    def __init__(self, options: Options, automation: Automation, schema: Schema) -> None:
        self._options = options
        self._automation = automation
        self._rollup_ms = {
            (parent.name): max(rollup.ms for each, _, rollup in rolled if each is parent)
            for rolled in schema.rollups.values()
            for parent, _, _ in rolled
        }
        self._random = random.Random(options.seed)

    def restore(self) -> None:
        """Draw the noise from the start again."""
        self._random.seed(self._options.seed)

    def runs(self, saved: Iterable[Saved]) -> list[tuple[Trigger, int]]:
        """The triggers that run when these are saved, each with its number of rows."""
        counts = Counter((sobject.name, event) for sobject, event in saved)
        return [
            (trigger, rows)
            for (name, event), rows in counts.items()
            for trigger in self._automation.triggers(name, event)
        ]

    def seconds(
        self,
        rows: int,
        parents: int,
        runs: Sequence[tuple[Trigger, int]],
        rolled: Iterable[tuple[SObject, Record]],
        passes: int,
    ) -> float:
        """How long the locks are held. `passes`: how often the triggers ran, once more after each partial failure."""
        options = self._options
        ms = options.transaction_ms + options.row_ms * rows + options.parent_ms * parents
        ms += passes * sum(trigger.ms * count for trigger, count in runs)
        ms += sum(self._rollup_ms.get(sobject.name, 0.0) for sobject, _ in rolled)
        return ms * options.scale / 1000 * self.noise()

    def noise(self) -> float:
        return math.exp(self._random.gauss(0, self._options.noise)) if self._options.noise else 1.0
