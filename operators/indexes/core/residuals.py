"""What no index files and every candidate is held against: polygons inside of their boxes, and keywords that must not occur.

Few queries have any, so a slot has the number of an entry, 0 for none, and that column is there once some query has one. An
entry says where its keywords, its rings and the slabs of these are in pools that are appended to, and written anew when most of
them has gone. A candidate costs a search for each excluded keyword, and for a polygon the edges of one slab
(`streams.polygons.Slabs`).
"""

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from operators.indexes.core.growth import grown
from streams.batches import QueryBatch
from streams.columns import Ints, csr_places, csr_take
from streams.kernel import kernel
from streams.polygon_kernels import covers, slab_of
from streams.polygons import NO_RINGS, Rings, Slabs
from streams.residual_columns import RESIDUALS

__all__ = ["Residuals", "admitted"]

Slots = NDArray[np.int32]
Floats = NDArray[np.float64]

#: Columns of `spans`: where keywords, vertices and slabs of an entry begin and end, and how many slabs there are.
NONE, NONE_END, RING, RING_END, SLAB, SLAB_END, SLABS = range(7)
_WIDTH = 7

#: Pools are written anew when less than a half is in use, from so many values on.
SMALLEST_PACK = 4096


@kernel
def admitted(
    x: Any, y: Any, kw: Any, begin: Any, end: Any, entry: Any, spans: Any, scale: Any, none: Any, ring_x: Any, ring_y: Any,
    lists: Any,
) -> bool:  # fmt: skip
    """Tell whether an object, with ascending keywords ``kw[begin:end]``, passes the residual conditions of an entry."""
    for n in range(spans[entry, NONE], spans[entry, NONE_END]):
        low, high = begin, end
        while low < high:
            middle = (low + high) // 2
            if kw[middle] < none[n]:
                low = middle + 1
            else:
                high = middle
        if low < end and kw[low] == none[n]:
            return False
    ring, ring_end = spans[entry, RING], spans[entry, RING_END]
    if ring == ring_end:
        return True
    slab = spans[entry, SLAB]
    at = slab + slab_of(y, scale[entry, 0], scale[entry, 1], spans[entry, SLABS])
    behind = slab + spans[entry, SLABS] + 1
    rx, ry = ring_x[ring:ring_end], ring_y[ring:ring_end]
    return covers(x, y, rx, ry, lists, behind + lists[at], behind + lists[at + 1])


@kernel
def _admitted_pairs(
    off: Any, slots: Any, x: Any, y: Any, kw_off: Any, kw: Any, entries: Any, spans: Any, scale: Any, none: Any, ring_x: Any,
    ring_y: Any, lists: Any, out: Any,
) -> bool:  # fmt: skip
    """Tell of each pair whether it stays, and whether all do."""
    every = True
    for i in range(off.shape[0] - 1):
        for pair in range(off[i], off[i + 1]):
            entry = entries[slots[pair]]
            out[pair] = entry == 0 or admitted(
                x[i], y[i], kw, kw_off[i], kw_off[i + 1], entry, spans, scale, none, ring_x, ring_y, lists
            )
            every &= out[pair]
    return every


class _Pool:
    """Columns of the same length that are appended to."""

    def __init__(self, *columns: NDArray[Any]) -> None:
        self.columns, self.top, self.garbage = list(columns), 0, 0

    @property
    def nbytes(self) -> int:
        return self.top * sum(column.itemsize for column in self.columns)

    def append(self, *parts: NDArray[Any]) -> int:
        """Add values; return where they begin."""
        begin, self.top = self.top, self.top + len(parts[0])
        for place, part in enumerate(parts):
            if self.top > len(self.columns[place]):
                self.columns[place] = grown(self.columns[place], 2 * self.top + 64)
            self.columns[place][begin : self.top] = part
        return begin


class Residuals:
    """The residual conditions of queries by slot."""

    def __init__(self) -> None:
        #: By slot: the entry, 0 for none.
        self._entry: Slots = np.zeros(0, np.int32)
        self._clear()

    def _clear(self) -> None:
        self._spans: Ints = np.zeros((1, _WIDTH), np.int64)
        self._scale: Floats = np.zeros((1, 2))
        self._top, self._free = 1, list[int]()
        self._none, self._lists = _Pool(np.empty(0, np.int64)), _Pool(np.empty(0, np.int32))
        self._rings = _Pool(np.empty(0), np.empty(0), np.empty(0, np.uint8))

    @property
    def live(self) -> int:
        """How many queries have any."""
        return self._top - 1 - len(self._free)

    @property
    def row_bytes(self) -> int:
        """Bytes that a row takes, with or without an entry."""
        return self._entry.itemsize if len(self._entry) else 0

    @property
    def nbytes(self) -> int:
        """Bytes in use, without the column by slot."""
        pools = sum(pool.nbytes for pool in (self._none, self._rings, self._lists))
        return pools + (8 * _WIDTH + 16) * (self._top - 1)

    @property
    def columns(self) -> tuple[Any, Any, Any, Any, Any, Any, Any]:
        """What `admitted` reads: entries by slot, then spans, scales and pools."""
        x, y, _ = self._rings.columns
        return self._entry, self._spans, self._scale, self._none.columns[0], x, y, self._lists.columns[0]

    def write(self, slots: Slots, queries: QueryBatch, room: int) -> None:
        """File the conditions of queries, which have no entry yet, by slots of so many rows."""
        if len(self._entry) and len(self._entry) < room:
            self._entry = np.append(self._entry, np.zeros(room - len(self._entry), np.int32))
        if queries.none_off[-1] == 0 and queries.ring_off[-1] == 0:
            return
        some = np.flatnonzero((np.diff(queries.none_off) > 0) | (np.diff(queries.ring_off) > 0))
        if not len(self._entry):
            self._entry = np.zeros(room, np.int32)
        columns = {off: getattr(queries, off) for off, _ in RESIDUALS}
        columns |= {name: getattr(queries, name) for _, names in RESIDUALS for name in names}
        self._entry[slots[some]] = self._add(some, columns)

    def _add(self, rows: Ints, columns: Mapping[str, NDArray[Any]]) -> Ints:
        """Append what rows of ragged columns say; return their entries."""
        entries = self._entries(len(rows))
        for (off_name, names), (pool, column) in zip(RESIDUALS, ((self._none, NONE), (self._rings, RING)), strict=True):
            off, places = csr_places(columns[off_name], rows)
            begin = pool.append(*(columns[name][places] for name in names))
            self._spans[entries, column], self._spans[entries, column + 1] = begin + off[:-1], begin + off[1:]
        self._spans[entries, SLAB:] = 0
        for entry in entries[self._spans[entries, RING_END] > self._spans[entries, RING]].tolist():
            part = slice(*self._spans[entry, RING : RING_END + 1].tolist())
            slabs = Slabs.of(self._rings.columns[1][part], self._rings.columns[2][part])
            begin = self._lists.append(slabs.lists)
            self._spans[entry, SLAB:] = begin, begin + len(slabs.lists), slabs.count
            self._scale[entry] = slabs.low, slabs.per_unit
        return entries

    def _entries(self, count: int) -> Ints:
        again = [self._free.pop() for _ in range(min(count, len(self._free)))]
        fresh = np.arange(self._top, self._top + count - len(again))
        self._top += len(fresh)
        if self._top > len(self._spans):
            self._spans, self._scale = grown(self._spans, 2 * self._top + 16), grown(self._scale, 2 * self._top + 16)
        return np.append(np.array(again, np.int64), fresh)

    def drop(self, slots: Slots) -> None:
        """Forget the conditions of slots."""
        if not self.live:
            return
        some = slots[self._entry[slots] > 0]
        entries = self._entry[some]
        self._entry[some] = 0
        self._free += entries.tolist()
        for pool, column in ((self._none, NONE), (self._rings, RING), (self._lists, SLAB)):
            pool.garbage += int((self._spans[entries, column + 1] - self._spans[entries, column]).sum())
        if any(pool.garbage > max(pool.top // 2, SMALLEST_PACK) for pool in (self._none, self._rings, self._lists)):
            self._pack()

    def _pack(self) -> None:
        """Write what is left anew."""
        slots = np.flatnonzero(self._entry).astype(np.int32)
        left = self.read(slots)
        self._clear()
        if len(slots):
            self._entry[slots] = self._add(np.arange(len(slots)), left)

    def read(self, slots: Slots) -> dict[str, NDArray[Any]]:
        """Return the columns of `RESIDUALS` of slots, or none of them where no query has any."""
        if not self.live:
            return {}
        entries = self._entry[slots]
        made: dict[str, NDArray[Any]] = {}
        pools = (self._none, NONE), (self._rings, RING)
        for (off_name, names), (pool, column) in zip(RESIDUALS, pools, strict=True):
            bounds = self._spans[entries, column : column + 2]
            # Rows and the gaps between them are ragged rows too.
            made[off_name] = np.append(0, np.cumsum(bounds[:, 1] - bounds[:, 0])).astype(np.int32)
            for name, values in zip(names, pool.columns, strict=True):
                made[name] = csr_take(cast(Any, bounds.ravel()), values, 2 * np.arange(len(slots)))[1]
        return made

    def none_of(self, slots: Slots) -> tuple[NDArray[np.int32], Ints]:
        """Return the keywords that objects must not have, as ragged rows by slot."""
        if not self.live:
            return np.zeros(len(slots) + 1, np.int32), np.empty(0, np.int64)
        found = self.read(slots)
        return found["none_off"], found["none"]

    def rings_of(self, slot: int) -> Rings:
        """Return the rings of a slot."""
        found = self.read(np.array([slot], np.int32))
        return Rings(found["ring_x"], found["ring_y"], found["ring_mark"]) if found else NO_RINGS

    def keep(
        self, off: Ints, slots: Slots, x: Floats, y: Floats, kw_off: NDArray[np.int32], kw: Ints
    ) -> NDArray[np.bool_] | None:
        """Tell which pairs of an object and a slot pass; None: all of them.

        Pairs are ragged rows of slots by object, all columns plain.
        """
        if not self.live:
            return None
        kept = np.empty(len(slots), np.bool_)
        return None if _admitted_pairs(off, slots, x, y, kw_off, kw, *self.columns, kept) else kept
