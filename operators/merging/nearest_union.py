"""Lists of nearest objects of which several evaluators know parts: one list a query, into which everything is entered.

What was once among the nearest stays so until better objects have come, whoever saw them. So nobody's list needs to be kept
apart, it does not matter whether one comes whole or only what is new in it, and one that is withdrawn takes nothing away.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from operators.indexes.core.growth import grown
from operators.indexes.core.roster import Roster
from operators.indexes.core.standing_queries import plain
from operators.indexes.knn.list_entries import ListEntries
from streams.batches import FOREVER, TYPE_KNN, RankedBatch
from streams.columns import Ints, distinct

__all__ = ["NearestUnion"]

Slots = NDArray[np.int32]


class NearestUnion:
    """The k nearest of all objects that were ever named for each query."""

    def __init__(self) -> None:
        self._roster, self._entries = Roster(), ListEntries()
        self._ts: Ints = np.empty(0, np.int64)

    def __len__(self) -> int:
        return self._roster.live

    def holds(self, numbers: Ints) -> NDArray[np.bool_]:
        """Tell of which queries there are lists."""
        return self._roster.holds(plain(numbers, np.int64))

    def enter(self, lists: RankedBatch) -> RankedBatch:
        """Enter what evaluators know; return the lists that are others now, by number."""
        if not len(lists):
            return lists
        slots = self._slots_of(lists)
        np.maximum.at(self._ts, slots, lists.ts)
        objects = self._entries.objects
        if objects.crowded:
            self._entries.tidy(self._roster.held())
        rows = objects.append(lists.seq, lists.ids)
        gained = self._entries.enter(slots, plain(lists.off, np.int32), lists.seq, rows, lists.value)
        return self._lists(self._roster.find(distinct(lists.number[gained])))

    def _slots_of(self, lists: RankedBatch) -> Slots:
        """Return the slots of queries, with new ones for those that are new."""
        numbers = plain(lists.number, np.int64)
        slots = self._roster.find(numbers)
        if slots.min() >= 0:
            return slots
        new, first = np.unique(numbers[slots < 0], return_index=True)
        k = lists.k[slots < 0][first]
        opened = self._roster.admit(new, np.zeros(len(new), np.int64), np.full(len(new), FOREVER))
        if self._roster.top > len(self._ts):
            self._ts = grown(self._ts, 2 * self._roster.top + 64)
        self._ts[opened] = np.iinfo(np.int64).min
        self._entries.open(opened, k)
        return self._roster.find(numbers)

    def _lists(self, slots: Slots) -> RankedBatch:
        """Return the lists of slots, each of the time of the latest that was entered."""
        off, seq, ids, far = self._entries.items(slots)
        count = len(slots)
        return RankedBatch(
            number=self._roster.numbers_of(slots), ts=self._ts[slots], type=np.full(count, TYPE_KNN, np.uint8),
            k=self._entries.lengths(slots), instant=np.zeros(count, np.bool_), off=off, seq=seq, ids=ids, value=far,
        )  # fmt: skip

    def remove(self, numbers: Ints) -> None:
        """Forget queries; those without a list are passed over."""
        if len(gone := self._roster.withdraw(plain(numbers, np.int64))):
            self._entries.close(gone)
            self._roster.recycle(gone)

    def snapshot(self) -> RankedBatch:
        """Return all lists, by number."""
        held = self._roster.held()
        return self._lists(held[np.argsort(self._roster.numbers_of(held))])

    def restore(self, state: Any) -> None:
        """Take over a snapshot."""
        self._roster, self._entries, self._ts = Roster(), ListEntries(), np.empty(0, np.int64)
        self.enter(state)
