"""Query results that are longer than a page, kept until the last page was fetched or newer ones push them out."""

from collections import OrderedDict
from typing import Any

from crmsync.sandbox import ids

MOST_CURSORS = 20


class Cursors:
    """Results that have more than one page. The oldest is dropped for a new one; a restart drops all."""

    def __init__(self) -> None:
        self._last = 0
        self._results: OrderedDict[str, list[Any]] = OrderedDict()

    def keep(self, records: list[Any]) -> str:
        """The locator of these records."""
        self._last += 1
        locator = ids.make("01g", self._last)
        self.keep_as(locator, records)
        return locator

    def keep_as(self, locator: str, records: list[Any]) -> None:
        self._results[locator] = records
        if len(self._results) > MOST_CURSORS:
            self._results.popitem(last=False)

    def find(self, locator: str) -> list[Any] | None:
        return self._results.get(locator)
