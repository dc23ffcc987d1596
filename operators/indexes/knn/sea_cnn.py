"""SEA-CNN's grid, SSTD's index of continuous kNN queries: each cell lists the queries whose answer regions overlap it.

The region of a query is its ball. Keywords are not part of the structure: whoever is found in a cell is verified by them.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from operators.indexes.core.query_table import QueryTable
from operators.indexes.core.structure import Probe
from operators.indexes.core.wanted_words import wants
from operators.indexes.knn.ball_grid import BallGrid
from operators.indexes.knn.knn_index import Near
from operators.indexes.knn.nearest_lists import NearestLists
from streams.kernel import kernel
from streams.prefetch import prefetch

__all__ = ["SeaCnn"]

Int = Any  # a machine integer, numpy's or Python's
Ints = NDArray[np.int64]
Slots = NDArray[np.int32]
Bytes = NDArray[np.uint8]

_AHEAD = 16


@kernel
def _verify(
    off: Ints,
    slots: Slots,
    word_off: Ints,
    words: Slots,
    there: Bytes,
    traits: Bytes,
    kw: Slots,
    pool: Slots,
    new_off: Ints,
) -> Int:
    """Keep of each object's slots, in place, those whose keywords it has; return how many there are."""
    kept = 0
    for i in range(off.shape[0] - 1):
        new_off[i] = kept
        for j in range(word_off[i], word_off[i + 1]):
            there[words[j]] = 1
        for p in range(off[i], off[i + 1]):
            if p + _AHEAD < slots.shape[0]:
                prefetch(kw, 3 * np.int64(slots[p + _AHEAD]))
            slot = np.int64(slots[p])
            if wants(slot, there, traits, kw, pool):
                slots[kept] = slot
                kept += 1
        for j in range(word_off[i], word_off[i + 1]):
            there[words[j]] = 0
    new_off[off.shape[0] - 1] = kept
    return kept


class SeaCnn:
    """The structure of SEA-CNN.

    As in `GridInverted`, a ball that overlaps too many cells is in one list beside the grid, which every object reads.

    Options:
        side: cells on each side of the grid.
        most_cells: cells that hold a subscription, at most.
    """

    def __init__(self, table: QueryTable, lists: NearestLists, side: int = 64, most_cells: int = 64) -> None:
        self._table = table
        self._balls = BallGrid(table, lists, side, most_cells, by_word=False)
        self._there: Bytes = np.zeros(0, np.uint8)

    def add(self, slots: Slots) -> None:
        """File subscriptions in the cells that their balls overlap."""
        self._balls.add(slots)

    def discard(self, slots: Slots) -> Slots:
        """Remove subscriptions; long lists are cleaned later."""
        return self._balls.discard(slots)

    def shrink(self, slots: Slots, near: Near | None = None) -> None:
        """Let balls leave cells, or enter the grid."""
        self._balls.shrink(slots)

    def probe(self, objects: Probe, first: int, *, everything: bool = False) -> Near:
        """Read the list of each object's cell and that beside the grid; verify by keywords who is found."""
        near = self._balls.probe(objects, first, everything=everything)
        if everything:
            return near
        table = self._table
        if table.words.top > len(self._there):
            self._there = np.zeros(2 * table.words.top, np.uint8)
        off = np.empty(len(near.off), np.int64)
        kept = _verify(
            near.off, near.slots, objects.word_off[near.first : near.next + 1], objects.words, self._there,
            table.traits, table.kw, table.pool, off,
        )  # fmt: skip
        return replace(near, off=off, slots=near.slots[:kept])

    @property
    def nbytes(self) -> int:
        """Bytes in use, without table and lists."""
        return self._balls.nbytes + self._there.nbytes
