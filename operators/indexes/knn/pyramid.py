"""The radius pyramid: for every keyword a stack of grids, and each ball in the one whose cells are just larger than it.

A subscription is filed under each of its keywords (under the rarest where it wants all of them) by its place, at the level of
its radius: the finest grid whose cells are no smaller than the ball is wide. So a ball reaches at most two by two cells, and
an object finds every ball that it is in by looking at two by two cells of each level that a keyword has. No level is finer
than the number of a keyword's postings is worth, so cells are few; rare keywords have a single list. As balls shrink,
subscriptions move to finer levels: each a dozen times at most, in its whole life.

A subscription with fewer than k objects has a ball without end and is at level 0, which every object with its keyword reads.
But each such object enters its list, so a posting is read there k times at most before its ball has an end; what is read in
vain is what wants all of several keywords, which hangs on the rarest of them, and what sleeps.

Costs: a probe reads, for each keyword of an object, at most four cells a level. A ball in them is hit with a chance of 5 to
20 % where places are even; where they crowd far less: 2 % of what was examined entered a list on the bench's stream. Filing
and removing are O(1) but for growing blocks; moving a posting is both.
Memory: a record of 16 bytes (20 on the globe), 6 bytes to find it again, and at most two cells of 8 bytes for a posting.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from operators.indexes.core.growth import grown
from operators.indexes.core.query_table import QueryTable
from operators.indexes.core.structure import Probe
from operators.indexes.knn import pyramid_kernels as kernels
from operators.indexes.knn.blocks import BLOCK_CLASSES
from operators.indexes.knn.knn_index import Near
from operators.indexes.knn.nearest_lists import NearestLists
from operators.indexes.knn.pyramid_probe import TOGETHER, probe
from streams.errors import DeclarationError

__all__ = ["RadiusPyramid"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Slots = NDArray[np.int32]

#: A probe ends after the object that brings it to so many pairs: while balls have no end, lists must be settled often.
ENOUGH = 1 << 18

#: A circle of longitudes, in degrees.
ROUND = 360.0


class RadiusPyramid:
    """Subscriptions by keyword, radius and place.

    Options:
        a_cell: a keyword gets a finer grid when it has more postings than so many for each cell of its finest one.
        crowded: it gets one earlier when so many small balls are in one cell.
    """

    def __init__(self, table: QueryTable, lists: NearestLists, *, a_cell: float = 4.0, crowded: int = 16) -> None:
        if a_cell < 1 or crowded < 1:
            raise DeclarationError(f"a_cell = {a_cell} and crowded = {crowded}, expected at least 1")
        self._table, self._lists = table, lists
        self._a_cell, self._crowded = float(a_cell), int(crowded)
        space, globe = table.space, table.metric == "haversine"
        wide, high = space.max_x - space.min_x, space.max_y - space.min_y
        around = globe and wide >= ROUND
        longer = ROUND if around else max(wide, high)
        self._frame: Floats = np.array([space.min_x, space.min_y, 1.0 / longer, float(around), float(globe)])
        self._bounds: Floats = np.array(space.as_tuple())
        self._width = 5 if globe else 4
        self._records: NDArray[np.float32] = np.empty((0, self._width), np.float32)
        self._nth: NDArray[np.uint16] = np.empty(0, np.uint16)
        self._cells: Slots = np.empty((0, 2), np.int32)
        self._words: Slots = np.empty((0, 3), np.int32)
        self._grids: Slots = np.empty((0, 2 * kernels.LEVELS), np.int32)
        self._where: Slots = np.empty(0, np.int32)
        self._begin: Slots = np.empty(0, np.int32)
        self._level: NDArray[np.int8] = np.empty(0, np.int8)
        self._free: Slots = np.full(BLOCK_CLASSES, -1, np.int32)
        self._free_cells: Slots = np.full(kernels.LEVELS, -1, np.int32)
        self._free_places: Slots = np.full(BLOCK_CLASSES, -1, np.int32)
        self._state: Ints = np.zeros(kernels.STATE_SIZE, np.int64)
        self._state[kernels.FREE_GRID] = -1
        self._found: Slots = np.empty((2, 1 << 16), np.int32)

    @property
    def nbytes(self) -> int:
        """Bytes in use; capacity that was never touched is address space, not memory."""
        state = self._state
        records = (4 * self._width + 2) * int(state[kernels.RECORDS_TOP])
        cells = 8 * int(state[kernels.CELLS_TOP])
        grids = 8 * kernels.LEVELS * int(state[kernels.GRIDS_TOP])
        slots = 5 * self._table.roster.top + 4 * int(state[kernels.WHERE_TOP])
        return records + cells + grids + slots + 12 * self._table.words.top

    @property
    def _pool(self) -> tuple[Any, ...]:
        return (self._records, self._records.view(np.int32), self._nth, self._cells, self._words, self._grids, self._where,
                self._begin, self._free, self._free_cells, self._state)  # fmt: skip

    def _keys(self, slots: Slots) -> tuple[Slots, Slots]:
        table = self._table
        off, keys = np.empty(len(slots) + 1, np.int32), np.empty(3 * len(slots), np.int32)
        count = kernels.keys_of(slots, table.kw, table.pool, table.traits, off, keys)
        if count > len(keys):
            keys = np.empty(count, np.int32)
            kernels.keys_of(slots, table.kw, table.pool, table.traits, off, keys)
        return off, keys[:count]

    def add(self, slots: Slots) -> None:
        """File subscriptions at the level of their radius."""
        self._reserve()
        off, keys = self._keys(slots)
        while not kernels.open_places(slots, off, self._begin, self._where, self._free_places, self._state):
            self._where = grown(self._where, 2 * int(self._state[kernels.WHERE_TOP]) + 32 * len(keys) + 64)
        self._until_done(kernels.add, slots, off, keys)

    def _reserve(self) -> None:
        room, words = len(self._table.traits), self._table.words.top
        if room > len(self._begin):
            self._begin, self._level = grown(self._begin, room), grown(self._level, room)
        if words > len(self._words):
            had = len(self._words)
            self._words = grown(self._words, 2 * words + 16)
            self._words[had:] = (0, 0, -1)

    def _until_done(self, kernel: Any, slots: Slots, off: Slots, keys: Slots) -> None:
        """Call a kernel again and again, with more room each time it asks for some."""
        done, state = np.zeros(2, np.int64), self._state
        state[kernels.NEED_RECORDS : kernels.NEED_GRIDS + 1] = 0
        while not kernel(
            done, slots, off, keys, self._a_cell, self._crowded, self._lists.radius, self._table.shape, self._bounds,
            self._level, self._frame, self._pool,
        ):  # fmt: skip
            if state[kernels.NEED_RECORDS]:
                room = 2 * int(state[kernels.RECORDS_TOP]) + int(state[kernels.NEED_RECORDS]) + 256
                self._records, self._nth = grown(self._records, room), grown(self._nth, room)
            if state[kernels.NEED_CELLS]:
                room = 2 * int(state[kernels.CELLS_TOP]) + int(state[kernels.NEED_CELLS]) + 256
                self._cells = grown(self._cells, room)
            if state[kernels.NEED_GRIDS]:
                self._grids = grown(self._grids, 2 * len(self._grids) + 16)
            state[kernels.NEED_RECORDS : kernels.NEED_GRIDS + 1] = 0

    def discard(self, slots: Slots) -> Slots:
        """Take subscriptions out."""
        off, keys = self._keys(slots)
        kernels.discard(slots, off, keys, self._a_cell, self._table.shape, self._level, self._frame, self._pool)
        kernels.close_places(slots, off, self._begin, self._where, self._free_places)
        return slots

    def shrink(self, slots: Slots, near: Near | None = None) -> None:
        """Note new radii, and move subscriptions to the level that is right for them.

        After a probe the records that it has read learn the new radii; others of the same subscriptions have old ones, which
        are larger, until they are read as well.
        """
        balls = (self._lists.radius, self._table.shape, self._bounds, self._frame)
        if near is None:
            kernels.refresh(slots, self._keys(slots)[0], *balls, self._records, self._where, self._begin)
        else:
            kernels.refresh_read(near.slots, near.at, *balls, self._records)
        moving = np.empty(len(slots), np.int32)
        if count := kernels.moving(slots, *balls, self._level, moving):
            self._until_done(kernels.shrink, moving[:count], *self._keys(moving[:count]))

    def probe(self, objects: Probe, first: int, *, everything: bool = False) -> Near:
        """Return the subscriptions whose balls objects are in, and some at their edges."""
        self._reserve()
        spots = self._spots(objects)
        longest = int(np.diff(objects.word_off).max(initial=0)) + 1
        # Of each word at most two lines of two cells a level, which give as many runs of records again.
        runs = np.empty((3 * 4 * TOGETHER * longest * kernels.LEVELS, 2), np.int64)
        off = np.empty(len(objects.x) - first + 1, np.int64)
        ends, tally = np.empty(TOGETHER, np.int64), np.zeros(2, np.int64)
        while (
            stop := probe(
                first, everything, ENOUGH, objects.x, objects.y, spots, objects.word_off, objects.words, self._frame,
                self._pool, self._found, off, runs, ends, tally,
            )
        ) < 0:  # fmt: skip
            self._found = np.empty((2, 2 * int(tally[1])), np.int32)
        off = off[: stop - first + 1]
        slots, at = self._found[:, : off[-1]].copy()
        return Near(first, int(stop), off, slots, int(tally[0]), at)

    def _spots(self, objects: Probe) -> NDArray[np.float32]:
        """Return objects as records have places: in units of the space, or as unit vectors."""
        spots = np.zeros((len(objects.x), 3), np.float32)
        if self._width == 5:
            lon, lat = np.radians(objects.x), np.radians(objects.y)
            spots[:, 0], spots[:, 1] = np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon)
            spots[:, 2] = np.sin(lat)
            return spots
        spots[:, 0] = (objects.x - self._frame[0]) * self._frame[2]
        spots[:, 1] = (objects.y - self._frame[1]) * self._frame[2]
        return spots
