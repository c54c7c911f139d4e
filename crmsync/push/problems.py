"""What is wrong with a file, by line: the first many of it, and how much more there is."""

from collections.abc import Iterable
from dataclasses import dataclass, field

SHOWN = 100


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """What is wrong in one line of the file; `line` 0: with the file as a whole."""

    line: int
    text: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.text}" if self.line else self.text


@dataclass
class Problems:
    """The first hundred, and the count of all."""

    found: list[Problem] = field(default_factory=list)
    count: int = 0

    def add(self, line: int, text: str) -> None:
        self.count += 1
        if len(self.found) < SHOWN:
            self.found.append(Problem(line, text))

    def extend(self, more: Iterable[Problem]) -> None:
        for problem in more:
            self.add(problem.line, problem.text)

    @property
    def left(self) -> int:
        """How many there are beyond those kept."""
        return self.count - len(self.found)
