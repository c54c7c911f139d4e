"""Which line of a file had an address first, for millions of addresses in 16 bytes each.

A rehearsal needs it: it rolls back what it wrote, so the tables cannot tell it what came before. A dictionary would
take ten times as much.
"""

from array import array

EMPTY = 0


class SeenLines:
    """Lines by key, open addressing. Two keys with one hash of 64 bits count as one: of ten million, hardly ever."""

    def __init__(self) -> None:
        self.used = 0
        self.keys = array("q", bytes(8 << 12))
        self.lines = array("q", bytes(8 << 12))

    def get(self, key: object) -> int | None:
        """The line noted for the key, or None."""
        at = self._place(hash(key) or 1)
        return self.lines[at] if self.keys[at] != EMPTY else None

    def note(self, key: object, line: int) -> None:
        """Note the line, unless an earlier one stands there."""
        code = hash(key) or 1
        at = self._place(code)
        if self.keys[at] != EMPTY:
            return
        self.keys[at], self.lines[at] = code, line
        self.used += 1
        if self.used * 2 > len(self.keys):
            self._grow()

    def _place(self, code: int) -> int:
        keys = self.keys
        last = len(keys) - 1
        at = code & last
        while keys[at] not in (EMPTY, code):
            at = (at + 1) & last
        return at

    def _grow(self) -> None:
        keys, lines = self.keys, self.lines
        self.keys = array("q", bytes(16 * len(keys)))
        self.lines = array("q", bytes(16 * len(keys)))
        for code, line in zip(keys, lines, strict=True):
            if code != EMPTY:
                at = self._place(code)
                self.keys[at], self.lines[at] = code, line
