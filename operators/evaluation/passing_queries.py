"""Snapshots between their registration and their answer, which is mostly one epoch: few at a time, as they came.

They are not worth a table with numbered words, which pays where queries stay. Nor do they sleep: whoever asks for an answer
knows when it is due, and a snapshot takes part in nothing else.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from streams.batches import QueryBatch
from streams.columns import Ids, Ints

__all__ = ["PassingQueries"]

_NONE: Ints = np.empty(0, np.int64)


class PassingQueries:
    """Queries by number, in one batch."""

    def __init__(self) -> None:
        self._held = QueryBatch.empty()

    def __len__(self) -> int:
        return len(self._held)

    def numbers(self) -> Ints:
        """Return the numbers of all, ascending."""
        return self._held.number

    def _place(self, numbers: Ints) -> tuple[Ints, NDArray[np.bool_]]:
        """Return where numbers are, and which of them are held at all."""
        place = np.minimum(np.searchsorted(self._held.number, numbers), max(len(self) - 1, 0))
        held = self._held.number[place] == numbers if len(self) else np.zeros(len(numbers), np.bool_)
        return place, held

    def holds(self, numbers: Ints) -> NDArray[np.bool_]:
        """Tell of each number whether it is held."""
        return self._place(numbers)[1]

    def queries(self, numbers: Ints) -> QueryBatch:
        """Return those of these queries that are held, in this order; their ids are their numbers."""
        if len(numbers) == len(self) and (numbers == self._held.number).all():
            return self._held
        place, held = self._place(numbers)
        return self._held.take(place[held])

    def insert(self, queries: QueryBatch) -> None:
        """Add registrations, none of which is held."""
        if not len(queries):
            return
        whole = QueryBatch.concat([self._held, replace(queries, ids=Ids("int", queries.number))])
        ascending = len(whole) == 1 or (whole.number[1:] > whole.number[:-1]).all()
        self._held = whole if ascending else whole.take(np.argsort(whole.number, kind="stable"))

    def set_end(self, numbers: Ints, ends: Ints) -> int:
        """Lower the ends of those that are held; return how many there are."""
        place, held = self._place(numbers)
        if held.any():
            lowered = self._held.end.copy()
            np.minimum.at(lowered, place[held], ends[held])
            self._held = replace(self._held, end=lowered)
        return int(np.count_nonzero(np.bincount(place[held])))

    def ended(self, now: int) -> Ints:
        """Return the numbers of those with end <= now."""
        return self._held.number[self._held.end <= now] if len(self) else _NONE

    def remove(self, numbers: Ints) -> int:
        """Drop those that are held; return how many there were."""
        before = len(self)
        if before:
            self._held = self._held.where(~np.isin(self._held.number, numbers))
        return before - len(self)
