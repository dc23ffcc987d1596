"""Queries that stay for a while at an evaluator which no plan sends their objects any more.

Where objects are kept, a query that is answered at instants is answered by everybody who may have objects of it, each from
its own. When a plan takes the place of such a query elsewhere, the objects stay; so the query stays too, until its window
has passed the moment in which the plan was replaced.
"""

from typing import Any

import numpy as np

from streams.batches import NO_WINDOW, QueryBatch
from streams.columns import Ints

__all__ = ["Lingering"]

_NONE: Ints = np.empty(0, np.int64)


class Lingering:
    """The queries that linger, and until when: what is due then or later has nothing to do with objects that are here."""

    def __init__(self) -> None:
        self.numbers, self._until = _NONE, _NONE

    def add(self, queries: QueryBatch, since: Ints | int) -> None:
        """Note queries none of whose objects has come here since a time; a snapshot is over by itself."""
        rows = np.flatnonzero(queries.continuous & (queries.window != NO_WINDOW))
        until = np.broadcast_to(np.asarray(since, np.int64), len(queries))[rows] + queries.window[rows]
        self.remove(queries.number)
        self.numbers = np.concatenate([self.numbers, queries.number[rows]])
        self._until = np.concatenate([self._until, until])

    def remove(self, numbers: Ints) -> None:
        """Forget queries: they have ended, or a plan wants them here again."""
        if len(self.numbers):
            kept = ~np.isin(self.numbers, numbers)
            self.numbers, self._until = self.numbers[kept], self._until[kept]

    def over(self, watermark: int | None) -> Ints:
        """Return, and forget, the queries whose time is over: all that is due before the watermark has been answered."""
        if watermark is None or not len(self.numbers):
            return _NONE
        over = self._until <= watermark
        found = self.numbers[over]
        self.numbers, self._until = self.numbers[~over], self._until[~over]
        return found

    def snapshot(self) -> dict[str, Any]:
        """Return who lingers."""
        return {"numbers": self.numbers, "until": self._until}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a snapshot."""
        self.numbers, self._until = state["numbers"], state["until"]
