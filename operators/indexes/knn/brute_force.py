"""Every subscription against every object: the truth that the other structures are held against."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from operators.indexes.core.query_table import QueryTable
from operators.indexes.core.structure import Probe
from operators.indexes.knn.knn_index import Near, Radii
from streams.columns import distinct

__all__ = ["BruteForce"]

Slots = NDArray[np.int32]

#: Pairs that are returned at a time, at most, where an object has no more by itself.
PAIRS = 1 << 20


class BruteForce:
    """A list of all slots."""

    def __init__(self, table: QueryTable, _lists: Radii) -> None:
        self._table = table
        self._slots: Slots = np.empty(0, np.int32)

    def add(self, slots: Slots) -> None:
        """Take in subscriptions."""
        self._slots = np.concatenate([self._slots, slots])

    def discard(self, slots: Slots) -> Slots:
        """Remove subscriptions."""
        self._slots = np.setdiff1d(self._slots, slots, assume_unique=True)
        return slots

    def shrink(self, slots: Slots, near: Near | None = None) -> None:
        """Do nothing: balls are not looked at."""

    def probe(self, objects: Probe, first: int, *, everything: bool = False) -> Near:
        """Return all subscriptions that share a keyword with an object, or have none."""
        stop = min(len(objects.x), first + max(1, PAIRS // max(len(self._slots), 1)))
        off, words = self._table.words_of(self._slots)
        plain = np.diff(off) == 0
        row = np.repeat(np.arange(len(self._slots)), np.diff(off))
        found: list[Any] = []
        for i in range(first, stop):
            theirs = distinct(objects.words[objects.word_off[i] : objects.word_off[i + 1]])
            wanted = plain.copy()
            wanted[row[np.isin(words, theirs)]] = True
            found.append(self._slots if everything else self._slots[wanted])
        ends = np.cumsum([0, *(len(slots) for slots in found)])
        return Near(first, stop, ends, np.concatenate(found), (stop - first) * len(self._slots))

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        return self._slots.nbytes
