"""Lists of nearest objects by slot, in blocks of entries, with the objects that they name."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from operators.indexes.core.growth import grown
from operators.indexes.knn import list_kernels as kernels
from operators.indexes.knn.blocks import BLOCK_CLASSES
from operators.indexes.knn.object_rows import ObjectRows
from streams.columns import Ids, Ints

__all__ = ["ListEntries"]

Floats = NDArray[np.float64]
Slots = NDArray[np.int32]
Offsets = NDArray[np.int32]
Flags = NDArray[np.bool_]

_NONE: Ints = np.empty(0, np.int64)


class ListEntries:
    """Lists by slot: the k nearest of what was entered, of equal ones the first by `seq`; an object is in a list once.

    Attributes:
        radius: by slot, the distance of the kth entry, or a smaller bound; infinite where there is neither.
        objects: what the entries name.
        state: counters that kernels keep.
    """

    def __init__(self) -> None:
        self.radius: Floats = np.empty(0)
        self.objects = ObjectRows()
        self.state: Ints = np.zeros(kernels.STATE_SIZE, np.int64)
        self._heads: Slots = np.empty((0, 2), np.int32)
        self._far: Floats = np.empty(0)
        self._row: Slots = np.empty(0, np.int32)
        self._free: Slots = np.full(BLOCK_CLASSES, -1, np.int32)

    @property
    def nbytes(self) -> int:
        """Bytes in use, without those by slot."""
        return 12 * int(self.state[kernels.TOP]) + self.objects.nbytes

    @property
    def arrays(self) -> tuple[Any, ...]:
        """What kernels are given of the lists."""
        return self.radius, self._heads, self._far, self._row, self._free, self.objects.seq

    def open(self, slots: Slots, k: NDArray[np.int32], several: Flags | None = None) -> None:
        """Begin empty lists; `several` tells which want all of several keywords."""
        room = int(slots.max(initial=-1)) + 1
        if room > len(self.radius):
            room = room + room // 2 + 16
            self.radius, self._heads = grown(self.radius, room), grown(self._heads, room)
        self.radius[slots] = np.inf
        self._heads[slots, 0] = 0
        self._heads[slots, 1] = k.astype(np.int32) << kernels.BITS
        if several is not None:
            self._heads[slots[several], 1] |= kernels.SEVERAL

    def close(self, slots: Slots) -> None:
        """Forget lists."""
        kernels.close(slots, self._heads, self._row, self._free)

    def grow(self) -> None:
        """Make room for more entries."""
        room = 2 * int(self.state[kernels.TOP]) + int(self.state[kernels.NEED]) + 1024
        self._far, self._row = grown(self._far, room), grown(self._row, room)

    def tidy(self, held: Slots) -> None:
        """Forget objects that no list of the slots held names any more."""
        named = np.zeros(self.objects.top, np.bool_)
        held = np.sort(held)  # blocks were mostly given in this order
        kernels.mark(held, self._heads, self._row, named)
        kernels.renumber(held, self._heads, self._row, self.objects.rewrite(named))
        self.state[kernels.OBJECTS] = self.objects.top

    def enter(self, slots: Slots, off: Offsets, seq: Ints, rows: Slots, far: Floats) -> Flags:
        """Enter objects, which have rows, into lists; return of each list whether it is another now."""
        items: Any = (np.ascontiguousarray(far, np.float64), np.ascontiguousarray(seq, np.int64), rows)
        self.state[kernels.OBJECTS] = self.objects.top
        gained, begin = np.zeros(len(slots), np.bool_), 0
        while (begin := kernels.merge(begin, slots, off, *items, *self.arrays, self.state, gained)) < len(seq):
            self.grow()
        return gained

    def items(self, slots: Slots, since: int | None = None) -> tuple[Offsets, Ints, Ids, Floats]:
        """Return lists: offsets, places in the input, identifiers and distances, nearest first.

        With `since` only objects from this place in the input on.
        """
        off = np.empty(len(slots) + 1, np.int32)
        if since is None:
            kernels.places(slots, self._heads, off)
        else:
            kernels.recent_places(since, slots, self._heads, self._row, self.objects.seq, off)
        count = int(off[-1])
        far, rows, seq = np.empty(count), np.empty(count, np.int32), np.empty(count, np.int64)
        least = np.iinfo(np.int64).min if since is None else since
        objects, known = self.objects, self.objects.numbered
        names = np.empty(0 if known is None else count, np.int64)
        kernels.gather(
            least, slots, self._heads, self._far, self._row, objects.seq, _NONE if known is None else known, off, far, rows,
            seq, names,
        )  # fmt: skip
        return off, seq, objects.ids(rows) if known is None else Ids("int", names), far

    def prints(self, slots: Slots) -> Ints:
        """Return a number for each list that no earlier state of it had, whoever holds it; 0 for an empty one."""
        out = np.empty(len(slots), np.uint64)
        kernels.prints(slots, self._heads, self._far, self._far.view(np.uint64), out)
        return out.view(np.int64)

    def lengths(self, slots: Slots) -> NDArray[np.int32]:
        """Return k of slots."""
        found = np.empty(len(slots), np.int32)
        kernels.lengths(slots, self._heads, found)
        return found
