"""KAG, the keyword-adaptive grid: every keyword has a grid of its own, as fine as its queries ask for.

A query hangs on its least frequent keyword, like in FAST, and is filed once, by its centre, in the grid of that keyword
and of its class of sizes; so nothing is replicated and nothing is hashed. The grid of a keyword grows finer as
postings come and coarser as they go: frequent keywords get small cells, rare ones a short list. It covers the place where
its queries are, so that neither the size of the space nor what lies elsewhere matters. A posting is a filter of
16 bytes (the box in quanta, two further keywords); the exact region is looked at only where the filter leaves a doubt.
Where regions are so large that space tells little apart, the second keyword does. Equal queries share one posting. A query
that any of its keywords finds has a posting under each of them; of many keywords, where its region is small, one by its place.

Its kernels, by what they are about (each ``kag_*_kernels``):

    group     the layout of everything; blocks, frames, groups and their grids
    place     where in a list or a cell a posting goes, and leaves
    tag       what a posting says of a query's further keywords
    bundle    equal queries that share a posting
    filing    queries are filed
    removal   queries are taken out
    hint      the memory that filing and removal will touch is asked for ahead
    probe     objects are matched
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from operators.indexes.core.growth import lined
from operators.indexes.core.quanta import boxes_in_quanta, places_in_quanta
from operators.indexes.core.query_table import ANY, KIND, QueryTable
from operators.indexes.core.structure import Bounds, Found, Probe
from operators.indexes.range import kag_filing_kernels, kag_removal_kernels, kag_tag_kernels
from operators.indexes.range.kag_group_kernels import (
    APART,
    BUNDLES_TOP,
    CELLS_TOP,
    FINE_BITS,
    FREE_BUNDLE,
    FREE_GROUP,
    GROUPS_TOP,
    MEMBERS,
    NEED_CELLS,
    NEED_POSTINGS,
    NO_WORD,
    POSTINGS_TOP,
    RUNS,
    SECOND_WORDS,
    SIDES,
    STATE_SIZE,
)  # fmt: skip
from operators.indexes.range.kag_probe_kernels import BENT, WAITING, probe
from streams.errors import DeclarationError
from streams.geometry import EARTH_RADIUS_M, REGION_CIRCLE

__all__ = ["Kag"]

Ints = NDArray[np.int64]
Slots = NDArray[np.int32]
Postings = NDArray[np.uint32]

_LAST_TICK = 2**31 - 2
_BLOCK_CLASSES = 128
#: Circles smaller than this, in terms of the largest coordinate, are not judged by their boxes: float64 rounds these by 2^-53
#: of it, which is to be far less than one of the 2^16 quanta that a frame, and so a circle, has at most.
FINEST = 2.0**-24
#: A query that more keywords find than this hangs on its place alone, as long as an object anywhere in the space is expected
#: to meet no more of such queries than that: it is held against the keywords of each.
MANY_WORDS, MOST_MET = 8, 32.0


class Kag:
    """The structure of the default index.

    Options:
        cells_per_posting: cells that a keyword's grid has for each of its postings, at least; more of them find fewer
            false candidates and cost four bytes each.
        most_cells_per_posting: cells for each posting where they crowd into few of them, at most.
        list_length: postings up to which a keyword has a list and no grid.
    """

    def __init__(
        self,
        table: QueryTable,
        cells_per_posting: float = 1.0,
        most_cells_per_posting: float = 8.0,
        list_length: int = 8,
    ) -> None:
        for name, cells in (("cells", cells_per_posting), ("most_cells", most_cells_per_posting)):
            if not 0.01 <= cells <= 64:
                raise DeclarationError(f"{name}_per_posting = {cells}, expected a number from 0.01 to 64")
        if not 1 <= list_length <= 4096:
            raise DeclarationError(f"list_length = {list_length}, expected a whole number from 1 to 4096")
        self._table = table
        self._tuning = (float(cells_per_posting), float(most_cells_per_posting), int(list_length))
        self._directory: Slots = np.full(1, -1, np.int32)
        self._groups: Slots = lined((64, 8), np.int32)
        self._cells: Slots = np.empty(256, np.int32)
        self._postings: Postings = lined((256, 4), np.uint32)
        self._free: Slots = np.full(_BLOCK_CLASSES, -1, np.int32)
        self._free_cells: Slots = np.full(len(SIDES), -1, np.int32)
        self._state: Ints = np.zeros(STATE_SIZE, np.int64)
        self._state[FREE_GROUP] = self._state[FREE_BUNDLE] = -1
        self._bundles: Slots = np.empty((16, 4), np.int32)
        self._members: Slots = np.zeros((0, 2), np.int32)
        self._apart: NDArray[np.uint8] = np.zeros(0, np.uint8)
        self._where: Slots = np.zeros(0, np.int32)
        self._by_place: NDArray[np.bool_] = np.zeros(0, np.bool_)
        self._placed, self._met = 0, 0.0
        self._stamp: Slots = np.zeros(1, np.int32)
        self._marks: NDArray[np.uint8] = np.zeros(NO_WORD + 2, np.uint8)
        self._rounds = False
        self._tick = 1
        self._runs = (
            np.empty((RUNS, 4), np.int64), np.empty(WAITING, np.uint64), np.zeros(SECOND_WORDS + 1, np.int32),
        )  # fmt: skip
        self._out: Slots = np.empty(4096, np.int32)

    @property
    def nbytes(self) -> int:
        """Bytes in use, without the table; capacity that was never touched is address space, not memory."""
        state = self._state
        arenas = 16 * int(state[POSTINGS_TOP]) + 4 * int(state[CELLS_TOP]) + 32 * int(state[GROUPS_TOP])
        rows = min(int(state[APART]), self._table.roster.top) + 8 * int(state[MEMBERS]) + 16 * int(state[BUNDLES_TOP])
        return arenas + rows + 8 * self._table.words.top + self._marks.nbytes

    def add(self, slots: Slots, bounds: Bounds) -> None:
        """File queries."""
        self._grow_words()
        self._grow_rows()
        table = self._table
        said = kag_tag_kernels.said(slots, table.traits)
        if said & ANY:
            self._choose(slots, bounds)
        slots, words, bounds = self._postings_of(slots, bounds)
        box = boxes_in_quanta(bounds, table.space, FINE_BITS)
        tags, flags = np.empty(len(slots), np.uint32), np.empty(len(slots), np.uint32)
        round_ones = np.zeros(len(slots), np.bool_)
        if said & REGION_CIRCLE:
            round_ones = self._round(slots, bounds)
            self._rounds = self._rounds or bool(np.count_nonzero(round_ones))
        kag_tag_kernels.tag(slots, words, round_ones, table.kw, table.pool, table.traits, tags, flags)
        done = 0
        while done < len(slots):
            done = kag_filing_kernels.add(
                done, slots, words, box, tags, flags, self._directory, self._groups, self._cells, self._postings,
                self._free, self._free_cells, self._bundles, self._members, self._apart, self._state, table.shape, table.traits,
                table.kw, table.pool, *self._tuning,
            )  # fmt: skip
            self._make_room(done < len(slots))

    def discard(self, slots: Slots, bounds: Bounds) -> Slots:
        """Take queries out."""
        own, words, boxes = self._postings_of(slots, bounds)
        box = boxes_in_quanta(boxes, self._table.space, FINE_BITS)
        out = np.zeros(len(own), np.bool_)
        done = 0
        while done < len(own):
            done = kag_removal_kernels.discard(
                done, own, words, box, out, self._where, self._directory, self._groups, self._cells, self._postings,
                self._free, self._free_cells, self._bundles, self._members, self._apart, self._state,
                self._table.kw, *self._tuning,
            )  # fmt: skip
            self._make_room(done < len(own))
        self._forget(slots, bounds)
        return slots

    def _round(self, slots: Slots, bounds: Bounds) -> NDArray[np.bool_]:
        """Tell which postings are circles that are nearly ellipses in their boxes, none of which the space cuts off.

        In degrees a circle of angle r at latitude b differs from an ellipse by about r (1 + tan b) of its squared radius.
        """
        table, space = self._table, self._table.space
        circles: NDArray[np.bool_] = table.traits[slots] & KIND == REGION_CIRCLE
        far = max(abs(bound) for bound in space.as_tuple())
        whole: NDArray[np.bool_] = (bounds[:, 2:] - bounds[:, :2]).min(axis=1) > FINEST * far
        whole &= (bounds[:, 0] > space.min_x) & (bounds[:, 1] > space.min_y)
        whole &= (bounds[:, 2] < space.max_x) & (bounds[:, 3] < space.max_y)
        if table.metric == "haversine":
            shape = table.shape[slots]
            latitude = np.radians(np.where(circles, shape[:, 1], 0.0))
            whole &= shape[:, 2] / EARTH_RADIUS_M * (1.0 + np.abs(np.tan(latitude))) <= BENT / 4
        return circles & whole

    def probe(self, objects: Probe) -> Found:
        """Match objects."""
        table, count = self._table, len(objects.x)
        if self._tick > _LAST_TICK - count:
            self._stamp[:] = 0
            self._tick = 1
        x, y = places_in_quanta(objects.x, objects.y, table.space, FINE_BITS)
        self._runs[-1][:] = 0
        off, examined = np.zeros(count + 1, np.int64), np.empty(count, np.int64)
        done = 0
        while done < count:
            done = probe(
                done, x, y, objects.x, objects.y, objects.word_off, objects.words, self._tick,
                self._directory, self._groups, self._cells, self._postings.view(np.uint64),
                self._postings.reshape(-1), self._bundles, table.shape, table.traits, table.kw,
                table.pool, table.metric == "haversine", self._rounds,
                self._stamp, self._marks, *self._runs, self._out, off, examined,
            )  # fmt: skip
            if done < count:
                larger = np.empty(2 * len(self._out), np.int32)
                larger[: off[done]] = self._out[: off[done]]
                self._out = larger
        self._tick += count
        slots = self._out[: off[-1]]
        if table.metric != "haversine":
            return Found(off, slots, examined)
        undecided = np.flatnonzero(slots < 0)
        slots[undecided] = ~slots[undecided]
        return Found(off, slots, examined, undecided)

    def _choose(self, slots: Slots, bounds: Bounds) -> None:
        """Decide which queries hang on their place alone."""
        table = self._table
        either = np.flatnonzero((table.traits[slots] & ANY != 0) & (table.kw[slots, 2] < -1))  # of four words and more
        if not len(either):
            return
        many = either[np.diff(table.words_of(slots[either])[0]) > MANY_WORDS]
        met = self._met + np.cumsum(self._shares(bounds[many]))
        chosen = many[met <= MOST_MET]
        if len(chosen):
            self._by_place[slots[chosen]] = True
            self._placed += len(chosen)
            self._met = float(met[len(chosen) - 1])

    def _forget(self, slots: Slots, bounds: Bounds) -> None:
        """Note that queries have gone."""
        if self._placed and (gone := self._by_place[slots]).any():
            self._by_place[slots[gone]] = False
            self._placed -= int(np.count_nonzero(gone))
            left = self._met - float(self._shares(bounds[gone]).sum())
            self._met = max(left, 0.0) if self._placed else 0.0  # what rounding has left goes with the last

    def _shares(self, bounds: Bounds) -> NDArray[np.float64]:
        """Return which part of the space boxes are, at least a little."""
        space = self._table.space
        area = max((space.max_x - space.min_x) * (space.max_y - space.min_y), np.finfo(np.float64).tiny)
        sides = np.maximum(bounds[:, 2:] - bounds[:, :2], 0.0)
        return np.clip(sides[:, 0] * sides[:, 1] / area, 1e-9, 1.0)

    def _postings_of(self, slots: Slots, bounds: Bounds) -> tuple[Slots, Slots, Bounds]:
        """Return slot, word and bounds of each posting: one for a query, or one for each word where any will do.

        What hangs on its place alone has word 0, as if it had no keyword.
        """
        places, words = self._table.postings(slots)
        if len(places) == len(slots):
            return slots, words, bounds
        alone = self._by_place[slots]
        if alone.any():
            kept = ~alone[places]
            by_place = np.flatnonzero(alone)
            places = np.concatenate([places[kept], by_place])
            words = np.concatenate([words[kept], np.zeros(len(by_place), np.int32)])
        return slots[places], words, bounds[places]

    def _grow_words(self) -> None:
        top = self._table.words.top
        if top > len(self._directory):
            room = top + top // 2
            self._directory = np.append(self._directory, np.full(room - len(self._directory), -1, np.int32))
            self._stamp = np.append(self._stamp, np.zeros(room - len(self._stamp), np.int32))

    def _grow_rows(self) -> None:
        """Have a row for each slot; rows that nobody writes to are address space, not memory."""
        rows = len(self._table.traits)
        if rows > len(self._apart):
            state = self._state
            self._members = _longer(self._members, rows, in_use=bool(state[MEMBERS]))
            self._apart = _longer(self._apart, rows, in_use=bool(state[APART]))
            self._by_place = _longer(self._by_place, rows, in_use=self._placed > 0)
            self._where = _longer(self._where, rows, in_use=False)

    def _make_room(self, needed: bool) -> None:
        """Let the arenas grow threefold or by what the kernel has asked for; what is not yet touched costs nothing."""
        if not needed:
            return
        state = self._state
        self._postings = _roomier(self._postings, int(state[POSTINGS_TOP]), int(state[NEED_POSTINGS]))
        self._cells = _roomier(self._cells, int(state[CELLS_TOP]), int(state[NEED_CELLS]))
        self._groups = _roomier(self._groups, int(state[GROUPS_TOP]), 2)
        self._bundles = _roomier(self._bundles, int(state[BUNDLES_TOP]), 1)


def _longer(array: NDArray[Any], rows: int, in_use: bool) -> NDArray[Any]:
    """Return an array with more rows, of zeros; one that is all zeros is not copied, which would make memory of it."""
    larger = np.zeros((rows, *array.shape[1:]), array.dtype)
    if in_use:
        larger[: len(array)] = array
    return larger


def _roomier(array: NDArray[Any], used: int, needed: int) -> NDArray[Any]:
    if used + needed <= len(array):
        return array
    larger = lined((used + needed + 2 * used, *array.shape[1:]), array.dtype)
    larger[:used] = array[:used]
    return larger
