"""When queries are due to be answered: a snapshot once, a continuous terms query at every slide.

An instant is answered once the watermark has passed it: then every object up to it has come, and none may come any more. What
is due follows from the columns of a query and from how far answers have been given, so a query that moves to another
evaluator is answered at each instant by exactly one.
"""

from typing import Any

import numpy as np

from streams.batches import FOREVER, QueryBatch
from streams.columns import Ints

__all__ = ["Instants"]

_NONE: Ints = np.empty(0, np.int64)


class Instants:
    """The next instant of each query that has any, in no particular order.

    Looking for what is due costs what is held, but only once the earliest instant has passed.

    Attributes:
        earliest: the first of all instants.
    """

    def __init__(self) -> None:
        self._number, self._at, self._step, self._end = _NONE, _NONE, _NONE, _NONE
        self.earliest = FOREVER

    def __len__(self) -> int:
        return len(self._number)

    def add(self, queries: QueryBatch, after: int | None) -> None:
        """Note queries; instants before `after` have been answered already."""
        rows = np.flatnonzero(queries.at_instants)
        if not len(rows):
            return
        step = np.where(queries.continuous[rows], queries.slide[rows], 0)
        at = queries.ts[rows] + step
        if after is not None:
            missed = np.maximum(after - at, 0)
            at = np.where(step > 0, at + -(-missed // np.maximum(step, 1)) * step, at)
        due = at < queries.end[rows] if after is None else (at < queries.end[rows]) & (at >= after)
        rows, at, step = rows[due], at[due], step[due]
        self._number = np.concatenate([self._number, queries.number[rows]])
        self._at, self._step = np.concatenate([self._at, at]), np.concatenate([self._step, step])
        self._end = np.concatenate([self._end, queries.end[rows]])
        self._look()

    def set_end(self, numbers: Ints, ends: Ints) -> None:
        """Lower the ends of queries: what would be due at or after them is not any more."""
        if not len(self._number):
            return
        order = np.lexsort((ends, numbers))  # of several ends of one query the smallest comes first
        place = np.minimum(np.searchsorted(numbers[order], self._number), len(numbers) - 1)
        known = numbers[order][place] == self._number
        self._end = np.where(known, np.minimum(self._end, ends[order][place]), self._end)
        self._keep(self._at < self._end)

    def remove(self, numbers: Ints) -> None:
        """Forget queries."""
        if len(self._number) and len(numbers):
            self._keep(~np.isin(self._number, numbers))

    def overdue(self, numbers: Ints, watermark: int | None) -> tuple[Ints, Ints]:
        """Return (number, instant) of those of these queries that could not be answered in time, and forget them."""
        late = np.isin(self._number, numbers) & (self._at < (watermark if watermark is not None else -FOREVER))
        found = self._number[late], self._at[late]
        self.remove(numbers)
        return found

    def catch_up(self, queries: QueryBatch, instants: Ints) -> None:
        """Take over what another could not answer in time: each query is answered from its instant on."""
        self.remove(queries.number)
        step = np.where(queries.continuous, queries.slide, 0)
        self._number, self._at = np.concatenate([self._number, queries.number]), np.concatenate([self._at, instants])
        self._step, self._end = np.concatenate([self._step, step]), np.concatenate([self._end, queries.end])
        self._look()

    def due(self, watermark: int, withheld: Ints) -> tuple[Ints, Ints]:
        """Return (number, instant) of all that is due before the watermark, in the order of time, and move on.

        What is withheld stays due.
        """
        numbers, instants = [_NONE], [_NONE]
        free = ~np.isin(self._number, withheld) if len(withheld) else np.ones(len(self._number), np.bool_)
        while self.earliest < watermark:
            now = np.flatnonzero((self._at < watermark) & (self._at < self._end) & free)
            if not len(now):
                break
            numbers.append(self._number[now])
            instants.append(self._at[now])
            at = self._at.copy()
            at[now] = np.where(self._step[now] > 0, at[now] + self._step[now], FOREVER)
            self._at = at
        self._keep(self._at < self._end)
        number, instant = np.concatenate(numbers), np.concatenate(instants)
        order = np.argsort(instant, kind="stable")
        return number[order], instant[order]

    def _keep(self, rows: Any) -> None:
        self._number, self._at = self._number[rows], self._at[rows]
        self._step, self._end = self._step[rows], self._end[rows]
        self._look()

    def _look(self) -> None:
        self.earliest = int(self._at.min()) if len(self._at) else FOREVER

    def snapshot(self) -> dict[str, Any]:
        """Return what is noted."""
        return {"number": self._number, "at": self._at, "step": self._step, "end": self._end}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a snapshot."""
        self._number, self._at = state["number"], state["at"]
        self._step, self._end = state["step"], state["end"]
        self._look()
