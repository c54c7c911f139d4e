"""Query results that are longer than a page, kept until the last page was fetched or newer ones push them out."""

from collections import OrderedDict
from typing import Any

from crmsync.sandbox import ids

MOST_CURSORS = 20


class Cursors:
    """Results that have more than one page. The oldest is dropped for a new one; a restart drops all."""

    def __init__(self) -> None:
        self._last = 0
        self._results: OrderedDict[str, list[dict[str, Any]]] = OrderedDict()

    def keep(self, records: list[dict[str, Any]]) -> str:
        """The locator of these records."""
        self._last += 1
        locator = ids.make("01g", self._last)
        self._results[locator] = records
        if len(self._results) > MOST_CURSORS:
            self._results.popitem(last=False)
        return locator

    def find(self, locator: str) -> list[dict[str, Any]] | None:
        return self._results.get(locator)
