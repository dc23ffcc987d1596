"""The lists of nearest objects, by slot, and with them the balls that new objects must fall into.

The ball B(s) of a subscription has the distance of its kth nearest object as radius: what is not nearer cannot enter its list
(DkM-SKS, Section 3.2). Objects come in the order of the input, so of two at the same distance the earlier one stays, and a
ball is open. While a list has fewer than k objects its ball has no end, unless another evaluator has sent a bound.
"""

import numpy as np
from numpy.typing import NDArray

from operators.indexes.core.query_table import ANY, QueryTable
from operators.indexes.core.structure import Probe
from operators.indexes.knn import list_kernels as kernels
from operators.indexes.knn.list_entries import ListEntries
from streams.columns import Ids, Ints

__all__ = ["NearestLists"]

Floats = NDArray[np.float64]
Slots = NDArray[np.int32]
Offsets = NDArray[np.int32]

#: Serial numbers of objects are 32 bits wide where words are stamped with them.
_LAST_SERIAL = 2**31 - 2**24

_NO_DISTANCES: Floats = np.empty(0)


class NearestLists:
    """The lists of a table's queries."""

    def __init__(self, table: QueryTable) -> None:
        self._table = table
        self._entries = ListEntries()
        self._stamp: Slots = np.zeros(0, np.int32)
        self._scratch: Floats = np.empty(kernels.TOGETHER)
        self.items, self.lengths, self.close = self._entries.items, self._entries.lengths, self._entries.close
        self.prints = self._entries.prints

    @property
    def radius(self) -> Floats:
        """The radius of each slot's ball."""
        return self._entries.radius

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        return 16 * self._table.roster.top + self._entries.nbytes + self._stamp.nbytes

    def open(self, slots: Slots, k: NDArray[np.int32]) -> None:
        """Begin empty lists."""
        table = self._table
        self._entries.open(slots, k, (table.traits[slots] & ANY == 0) & (table.kw[slots, 1] >= 0))

    def _tidy(self) -> None:
        """Forget objects that no list names any more, now and then."""
        if self._entries.objects.crowded:
            self._entries.tidy(self._table.roster.held())

    def settle(
        self, first: int, off: Ints, slots: Slots, far: Floats | None, objects: Probe, seq: Ints, ids: Ids
    ) -> Slots:
        """Enter objects into the lists of slots whose balls they may be in; return the slots whose list has changed.

        `off` and `slots` are pairs by object, from object `first` on; `far` their distances, None where they are Euclidean.
        """
        count = len(off) - 1
        entries = self._entries
        entries.objects.reserve(count)
        self._stamps(count)
        row_of = np.full(len(objects.x), -1, np.int32)
        changed = np.empty(len(slots), np.int32)
        done = np.zeros(3, np.int64)
        table = self._table
        while not kernels.settle(
            first, table.sleeping > 0, off, slots, _NO_DISTANCES if far is None else far, objects.x, objects.y, seq,
            objects.word_off, objects.words, self._stamp, table.traits, table.shape, table.kw, table.pool, *entries.arrays,
            row_of, changed, entries.state, done, self._scratch,
        ):  # fmt: skip
            entries.grow()
        entered = np.flatnonzero(row_of[first : first + count] >= 0) + first
        # Rows are filled in the order of the objects, so their identifiers follow in that order.
        entries.objects.name(ids.take(entered))
        self._tidy()
        return changed[: done[2]]

    def _stamps(self, objects: int) -> None:
        state = self._entries.state
        if state[kernels.SERIAL] + 2 * objects > _LAST_SERIAL:
            self._stamp[:] = 0
            state[kernels.SERIAL] = 0
        if self._table.words.top > len(self._stamp):
            grown = np.zeros(2 * self._table.words.top + 16, np.int32)
            grown[: len(self._stamp)] = self._stamp
            self._stamp = grown

    def bind(self, slots: Slots, bounds: Floats) -> Slots:
        """Use bounds of others, NaN says nothing: what is not nearer does not matter; return whose ball is smaller now."""
        shrunk = np.empty(len(slots), np.int32)
        return shrunk[: kernels.bind(slots, bounds, self.radius, shrunk)]

    def merge(self, slots: Slots, off: Offsets, seq: Ints, ids: Ids, far: Floats) -> None:
        """Enter the lists that others have of the same queries; an object that both list counts once."""
        places, first, back = np.unique(seq, return_index=True, return_inverse=True)
        rows = self._entries.objects.append(places, ids.take(first))[back]
        self._entries.enter(slots, off, seq, rows, far)
        self._tidy()
