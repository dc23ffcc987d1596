"""The lists of nearest objects, by slot, and with them the balls that new objects must fall into.

The ball B(s) of a subscription has the distance of its kth nearest object as radius: what is not nearer cannot enter its list
(DkM-SKS, Section 3.2). Objects come in the order of the input, so of two at the same distance the earlier one stays, and a
ball is open. While a list has fewer than k objects its ball has no end, unless another evaluator has sent a bound.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from operators.indexes.core.growth import grown
from operators.indexes.core.query_table import QueryTable
from operators.indexes.core.structure import Probe
from operators.indexes.knn import list_kernels as kernels
from operators.indexes.knn.blocks import BLOCK_CLASSES
from operators.indexes.knn.object_rows import ObjectRows
from streams.columns import Ids, Ints

__all__ = ["NearestLists"]

Floats = NDArray[np.float64]
Slots = NDArray[np.int32]
Offsets = NDArray[np.int32]

#: Serial numbers of objects are 32 bits wide where words are stamped with them.
_LAST_SERIAL = 2**31 - 2**24

_NO_DISTANCES: Floats = np.empty(0)


class NearestLists:
    """The lists of a table's queries.

    Attributes:
        radius: of each slot's ball.
    """

    def __init__(self, table: QueryTable) -> None:
        self._table = table
        self.radius: Floats = np.empty(0)
        self._heads: Slots = np.empty((0, 2), np.int32)
        self._far: Floats = np.empty(0)
        self._row: Slots = np.empty(0, np.int32)
        self._free: Slots = np.full(BLOCK_CLASSES, -1, np.int32)
        self._objects = ObjectRows()
        self._stamp: Slots = np.zeros(0, np.int32)
        self._state: Ints = np.zeros(kernels.STATE_SIZE, np.int64)

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        slots = 16 * self._table.roster.top
        return slots + 12 * int(self._state[kernels.TOP]) + self._objects.nbytes + self._stamp.nbytes

    @property
    def _lists(self) -> Any:
        """What kernels are given of the lists."""
        return self.radius, self._heads, self._far, self._row, self._free, self._objects.seq

    def open(self, slots: Slots, k: NDArray[np.int32]) -> None:
        """Begin empty lists."""
        room = len(self._table.traits)
        if room > len(self.radius):
            self.radius, self._heads = grown(self.radius, room), grown(self._heads, room)
        kernels.open_lists(slots, k, self._table.traits, self._table.kw, self.radius, self._heads)

    def close(self, slots: Slots) -> None:
        """Forget lists."""
        kernels.close(slots, self._heads, self._row, self._free)

    def _tidy(self) -> None:
        """Forget objects that no list names any more, now and then."""
        if not self._objects.crowded:
            return
        held, named = self._table.roster.held(), np.zeros(self._objects.top, np.bool_)
        kernels.mark(held, self._heads, self._row, named)
        kernels.renumber(held, self._heads, self._row, self._objects.rewrite(named))
        self._state[kernels.OBJECTS] = self._objects.top

    def settle(
        self, first: int, off: Ints, slots: Slots, far: Floats | None, objects: Probe, seq: Ints, ids: Ids
    ) -> Slots:
        """Enter objects into the lists of slots whose balls they may be in; return the slots whose list has changed.

        `off` and `slots` are pairs by object, from object `first` on; `far` their distances, None where they are Euclidean.
        """
        count = len(off) - 1
        self._objects.reserve(count)
        self._stamps(count)
        row_of = np.full(len(objects.x), -1, np.int32)
        changed = np.empty(len(slots), np.int32)
        done = np.zeros(3, np.int64)
        table = self._table
        while not kernels.settle(
            first, table.sleeping > 0, off, slots, _NO_DISTANCES if far is None else far, objects.x, objects.y, seq,
            objects.word_off, objects.words, self._stamp, table.traits, table.shape, table.kw, table.pool, *self._lists,
            row_of, changed, self._state, done,
        ):  # fmt: skip
            self._grow()
        entered = np.flatnonzero(row_of[first : first + count] >= 0) + first
        # Rows are filled in the order of the objects, so their identifiers follow in that order.
        self._objects.name(ids.take(entered))
        self._tidy()
        return changed[: done[2]]

    def _stamps(self, objects: int) -> None:
        if self._state[kernels.SERIAL] + 2 * objects > _LAST_SERIAL:
            self._stamp[:] = 0
            self._state[kernels.SERIAL] = 0
        if self._table.words.top > len(self._stamp):
            grown = np.zeros(2 * self._table.words.top + 16, np.int32)
            grown[: len(self._stamp)] = self._stamp
            self._stamp = grown

    def _grow(self) -> None:
        """Make room for more entries."""
        room = 2 * int(self._state[kernels.TOP]) + int(self._state[kernels.NEED]) + 1024
        self._far, self._row = grown(self._far, room), grown(self._row, room)

    def bind(self, slots: Slots, bounds: Floats) -> None:
        """Use bounds of others: an object that is not nearer does not matter; NaN says nothing."""
        known = ~np.isnan(bounds)
        np.minimum.at(self.radius, slots[known], bounds[known])

    def items(self, slots: Slots) -> tuple[Offsets, Ints, Ids, Floats]:
        """Return lists: offsets, places in the input, identifiers and distances, nearest first."""
        off = np.empty(len(slots) + 1, np.int32)
        kernels.places(slots, self._heads, off)
        far, rows, seq = np.empty(int(off[-1])), np.empty(int(off[-1]), np.int32), np.empty(int(off[-1]), np.int64)
        kernels.gather(slots, self._heads, self._far, self._row, self._objects.seq, off, far, rows, seq)
        return off, seq, self._objects.ids(rows), far

    def lengths(self, slots: Slots) -> NDArray[np.int32]:
        """Return k of slots."""
        return np.asarray((self._heads[slots, 1] >> kernels.BITS) & kernels.LENGTH, np.int32)

    def merge(self, slots: Slots, off: Offsets, seq: Ints, ids: Ids, far: Floats) -> None:
        """Enter the lists that others have of the same queries; an object that both list counts once."""
        places, first, back = np.unique(seq, return_index=True, return_inverse=True)
        rows = self._objects.append(places, ids.take(first))[back]
        self._state[kernels.OBJECTS] = self._objects.top
        items: Any = (np.ascontiguousarray(far, np.float64), np.ascontiguousarray(seq, np.int64), rows)
        begin = 0
        while (begin := kernels.merge(begin, slots, off, *items, *self._lists, self._state)) < len(seq):
            self._grow()
        self._tidy()
