"""The lists of queries, and for each object in whose lists it is.

A list has room for as many objects as its refiller wants, k or more. It has every object that is better than its threshold; one
with a threshold of -inf has all that share a keyword. Who has an object that leaves is known, never searched for.
"""

import numpy as np

from operators.indexes.core.growth import grown
from operators.indexes.dynamic import ranked_kernels as kernels
from operators.indexes.dynamic.dynamic_index import Floats, Slots
from operators.indexes.dynamic.object_table import ObjectTable
from operators.indexes.dynamic.ranked_kernels import RETUNED, TOUCHED, Lists
from operators.indexes.topk.buffer_blocks import BLOCK_CLASSES, TOP
from streams.columns import Ints

__all__ = ["RankedLists"]

_LATEST = np.iinfo(np.int64).max
#: The columns that have a row a slot.
_BY_SLOT = ("start", "length", "room", "theta", "cut", "flags")


class RankedLists:
    """Lists by slot.

    Attributes:
        k: how many of a list are its result; 0 for slots without a list.
    """

    def __init__(self, objects: ObjectTable) -> None:
        self._objects = objects
        self._columns = Lists(
            np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0), np.empty(0, np.int64),
            np.empty(0, np.uint8), np.empty(0, np.int32), np.empty(0),
        )  # fmt: skip
        self.k: Slots = np.empty(0, np.int32)
        self._top = 0
        self._spare: dict[int, list[int]] = {}
        self.backs = np.zeros((0, 3), np.int64)
        self.pool: Slots = np.empty(64, np.int32)
        self.free, self.blocks = np.full(BLOCK_CLASSES, -1, np.int64), np.zeros(3, np.int64)

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        return 12 * self._top + 37 * len(self.k) + 24 * len(self.backs) + 4 * int(self.blocks[TOP])

    @property
    def columns(self) -> Lists:
        """The columns for kernels, as they are now."""
        return self._columns

    def open(self, slots: Slots, k: Slots, room: Slots) -> None:
        """Begin empty lists, whose thresholds are inf."""
        self._reserve(int(slots.max()) + 1)
        start, length, rooms, theta, cut, flags = self._columns[:6]
        self.k[slots], length[slots], rooms[slots], flags[slots] = k, 0, room, 0
        theta[slots], cut[slots] = np.inf, _LATEST
        for slot, size in zip(slots.tolist(), room.tolist(), strict=True):
            spare = self._spare.get(size)
            if spare:
                start[slot] = spare.pop()
            else:
                start[slot], self._top = self._top, self._top + size
        if self._top > len(self._columns.who):
            who, value = grown(self._columns.who, 2 * self._top), grown(self._columns.value, 2 * self._top)
            self._columns = self._columns._replace(who=who, value=value)

    def _reserve(self, top: int) -> None:
        had = len(self.k)
        if top > had:
            larger = {name: grown(getattr(self._columns, name), 2 * top) for name in _BY_SLOT}
            self._columns = self._columns._replace(**larger)
            self.k = grown(self.k, 2 * top)
            self.k[had:], self._columns.theta[had:], self._columns.flags[had:] = 0, np.inf, 0

    def close(self, slots: Slots) -> None:
        """End lists."""
        lists = self._columns
        self.clear(slots)
        for start, size in zip(lists.start[slots].tolist(), lists.room[slots].tolist(), strict=True):
            self._spare.setdefault(size, []).append(start)
        self.k[slots], lists.theta[slots], lists.flags[slots] = 0, np.inf, 0

    def clear(self, slots: Slots) -> None:
        """Empty lists, which stay open."""
        kernels.clear(slots, self._columns, self.backs, self.pool)

    def leave(self, objects: Slots) -> None:
        """Take objects out of all lists."""
        kernels.leave(objects, self._columns, self.backs, self.pool, self.free, self.blocks)

    def arrive(self) -> None:
        """Make room for objects that are new."""
        had, top = len(self.backs), self._objects.top
        if top > had:
            self.backs = grown(self.backs, 2 * top)
            self.backs[had:] = 0

    def enter(self, objects: Slots, slots: Slots, score: Floats) -> Slots:
        """Put objects into lists; return the pairs of a query and an object that is in its list no more."""
        ousted = np.empty((len(objects), 2), np.int32)
        self.pool, count = kernels.enter(
            objects, slots, score, self._objects.first_seen, self._columns, self.backs, self.pool, self.free,
            self.blocks, ousted,
        )  # fmt: skip
        return ousted[:count]

    def begin(self, slots: Slots, off: Ints, objects: Slots, score: Floats) -> None:
        """Give lists that are empty their objects, best first, in ragged rows."""
        self.pool = kernels.append_all(
            slots, off, objects, score, self._columns, self.backs, self.pool, self.free, self.blocks
        )

    def settle(self) -> Slots:
        """Raise the thresholds of lists that are full; return those that have run short."""
        lists = self._columns
        touched = np.flatnonzero(lists.flags & TOUCHED).astype(np.int32)
        lists.flags[touched] &= ~TOUCHED
        self.tune(touched[lists.length[touched] == lists.room[touched]])
        return touched[(lists.length[touched] < self.k[touched]) & (lists.theta[touched] > -np.inf)]

    def tune(self, slots: Slots) -> None:
        """Let the last object of lists, which are not empty, be their threshold."""
        lists = self._columns
        last = lists.start[slots] + lists.length[slots] - 1
        lists.theta[slots], lists.cut[slots] = lists.value[last], self._objects.first_seen[lists.who[last]]
        lists.flags[slots] |= RETUNED

    def know_all(self, slots: Slots) -> None:
        """Take note that lists have all that share a keyword."""
        self._columns.theta[slots], self._columns.cut[slots] = -np.inf, _LATEST
        self._columns.flags[slots] |= RETUNED

    def flagged(self, flag: np.uint8) -> Slots:
        """Return the slots with a flag, and lower it."""
        flags = self._columns.flags
        slots = np.flatnonzero(flags & flag).astype(np.int32)
        flags[slots] &= ~flag
        return slots

    def results(self, slots: Slots) -> tuple[Ints, Slots, Floats]:
        """Return the first k of lists as ragged rows: offsets, objects, scores."""
        lists = self._columns
        counts = np.minimum(lists.length[slots], self.k[slots]).astype(np.int64)
        off = np.concatenate([[0], np.cumsum(counts)])
        places = np.repeat(lists.start[slots] - off[:-1], counts) + np.arange(off[-1])
        return off, lists.who[places], lists.value[places]

    def renumber(self, old: Slots) -> None:
        """Follow slots that have changed: what was at ``old[i]`` is at i."""
        at = np.flatnonzero(old < len(self.k))
        at = at[self.k[old[at]] > 0]
        was, place = old[at], np.full(len(self.k), -1, np.int32)
        place[was] = at
        moved = {name: getattr(self._columns, name)[was] for name in _BY_SLOT}
        k, self.k = self.k[was], np.zeros_like(self.k)
        self.k[at], self._columns.theta[:], self._columns.flags[:] = k, np.inf, 0
        for name, values in moved.items():
            getattr(self._columns, name)[at] = values
        held = np.repeat(self.backs[:, 0], self.backs[:, 1]) + _within(self.backs[:, 1])
        self.pool[held] = place[self.pool[held]]


def _within(counts: Ints) -> Ints:
    """Return 0, 1, ... for each of some counts, one after the other."""
    ends = np.cumsum(counts)
    return np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - counts, counts)
