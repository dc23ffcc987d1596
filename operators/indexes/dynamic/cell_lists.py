"""Cell lists of queries: all cells by maxscore (CL), or those that may have the next best objects (PCL); Section VI.

What makes a partial list exact, and where the paper's rules are not enough:

- *Invariant.* Every cell with an object that shares a keyword, is not in the query's list, and scores at least PCL.low is
  listed.
- An object that is found below PCL.low refills nothing: its cell may be listed still because of an object that has left, and a
  cell that is not listed may have a better one. Then all cells are searched, and the cell list is made anew.
- PCL.low comes from cells with a keyword of the query; comparisons are not strict, so ties are not lost.
- A query with fewer than k objects has all there are, and no cell list.
"""

from collections.abc import Sequence

import numpy as np

from operators.indexes.core.growth import grown
from operators.indexes.dynamic import cell_list_kernels as kernels
from operators.indexes.dynamic.cell_bounds import Asked, Plane
from operators.indexes.dynamic.cell_list_kernels import CLASS, LENGTH, START, Batch
from operators.indexes.dynamic.dynamic_index import Floats, Slots
from operators.indexes.dynamic.object_grid_kernels import Cells, Objects
from operators.indexes.dynamic.ranked_lists import RankedLists
from operators.indexes.topk.buffer_blocks import BLOCK_CLASSES, TOP, USED, give_block
from operators.indexes.topk.scored_pairs import KnownMessages
from streams.columns import Ints

__all__ = ["CellLists", "Scratch", "batch_of"]


class Scratch:
    """What searches write into: words of a query, bounds by cell, what was found, and marks by object."""

    def __init__(self) -> None:
        self.words: Slots = np.empty(0, np.int32)
        self.weights: Floats = np.empty(0)
        self.upper: Floats = np.empty(0)
        self.lower: Floats = np.empty(0)
        self.found: Slots = np.empty(0, np.int32)
        self.scores: Floats = np.empty(0)
        self.marks: Ints = np.zeros(0, np.int64)
        self.serial = 1
        self.tally = np.zeros(3, np.int64)

    def fit(self, words: int, cells: int, results: int, objects: int) -> None:
        """Have room for this many of each."""
        if words > len(self.words):
            self.words, self.weights = np.empty(2 * words, np.int32), np.empty(2 * words)
        if cells != len(self.upper):
            self.upper, self.lower = np.empty(cells), np.empty(cells)
        if results > len(self.found):
            self.found, self.scores = np.empty(2 * results, np.int32), np.empty(2 * results)
        if objects > len(self.marks):
            self.marks, self.serial = np.zeros(2 * objects, np.int64), 1

    def serials(self, count: int) -> int:
        """Return the first of so many serials that no mark has."""
        first, self.serial = self.serial, self.serial + count
        return first


def batch_of(parts: Sequence[KnownMessages], cell: Slots, other: Slots, words: int) -> Batch:
    """Return states, with their cells, by the words of queries that they have."""
    off = np.concatenate([[0], np.cumsum(np.concatenate([np.diff(part.off) for part in parts]))]).astype(np.int64)
    of = np.concatenate([part.words for part in parts])
    rows = np.repeat(np.arange(len(off) - 1), np.diff(off))[np.argsort(of, kind="stable")]
    begins = np.concatenate([[0], np.cumsum(np.bincount(of, minlength=words))]).astype(np.int64)
    x, y = (np.concatenate([getattr(part, name) for part in parts]) for name in ("x", "y"))
    return Batch(x, y, off, of, np.concatenate([part.weights for part in parts]), cell, other, begins, rows)


class CellLists:
    """Cell lists by slot.

    Args:
        partial: whether they are PCLs.
    """

    def __init__(self, partial: bool) -> None:
        self.partial = partial
        self._heads = np.zeros((0, 3), np.int64)
        self._low: Floats = np.empty(0)
        self._which: Slots = np.empty(64, np.int32)
        self._most: Floats = np.empty(64)
        self._free, self._blocks = np.full(BLOCK_CLASSES, -1, np.int64), np.zeros(3, np.int64)

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        return 32 * len(self._low) + 12 * int(self._blocks[TOP])

    @property
    def cells(self) -> int:
        """Room for cells in the lists, all together."""
        return int(self._blocks[USED])

    def reserve(self, top: int) -> None:
        """Have room for slots below `top`."""
        had = len(self._low)
        if top > had:
            self._heads, self._low = grown(self._heads, 2 * top), grown(self._low, 2 * top)
            self._heads[had:], self._low[had:] = 0, np.inf

    def drop(self, slots: Slots) -> None:
        """Forget cell lists."""
        for start, block in self._heads[slots[self._heads[slots, CLASS] > 0]][:, [START, CLASS]].tolist():
            give_block(start, block, self._which, self._free, self._blocks)
        self._heads[slots], self._low[slots] = 0, np.inf

    def clear(self) -> None:
        """Forget all cell lists."""
        self._heads[:], self._low[:] = 0, np.inf
        self._free[:], self._blocks[:] = -1, 0

    def missing(self, slots: Slots) -> Slots:
        """Return those that have no cell list, or an empty one that leaves out cells."""
        low = self._low[slots]
        none = (low == np.inf) | (self.partial & (low > -np.inf) & (self._heads[slots, LENGTH] == 0))
        return np.asarray(slots[none], np.int32)

    def maintain(
        self, slots: Slots, batch: Batch, lists: RankedLists, asked: Asked, plane: Plane, cells: Cells, scratch: Scratch
    ) -> None:
        """Keep the lists of these queries right after a batch of states."""
        seen = np.full(len(scratch.upper), -1, np.int64)
        self._which, self._most = kernels.maintain(
            slots, self.partial, batch, lists.columns, asked, plane, cells, self._heads, self._low, self._which,
            self._most, self._free, self._blocks, scratch.words, scratch.weights, seen, scratch.upper, scratch.lower,
            scratch.tally,
        )  # fmt: skip

    def check(
        self, slots: Slots, at: Slots, lists: RankedLists, asked: Asked, plane: Plane, cells: Cells, scratch: Scratch
    ) -> None:
        """Check a cell of each of these queries."""
        self._which, self._most = kernels.check_pairs(
            slots, at, self.partial, lists.columns, asked, plane, cells, self._heads, self._low, self._which, self._most,
            self._free, self._blocks, scratch.words, scratch.weights, scratch.tally,
        )  # fmt: skip

    def make(
        self, slots: Slots, lists: RankedLists, asked: Asked, plane: Plane, cells: Cells, scratch: Scratch
    ) -> None:
        """Make cell lists anew, for queries whose lists are full."""
        self._which, self._most = kernels.list_cells(
            slots, self.partial, lists.columns, asked, plane, cells, self._heads, self._low, self._which, self._most,
            self._free, self._blocks, scratch.words, scratch.weights, scratch.upper, scratch.lower, scratch.tally,
        )  # fmt: skip

    def top_up(
        self, slots: Slots, wanted: Slots, lists: RankedLists, asked: Asked, plane: Plane, objects: Objects, cells: Cells,
        scratch: Scratch,
    ) -> Slots:  # fmt: skip
        """Search the listed cells for so many more objects; return the queries for which that was not enough."""
        missed = np.empty(len(slots), np.int32)
        lists.pool, count = kernels.top_up(
            slots, wanted, lists.columns, asked, plane, objects, cells, scratch.marks, scratch.serials(len(slots)),
            scratch.words, scratch.weights, scratch.found, scratch.scores, lists.backs, lists.pool, lists.free,
            lists.blocks, self.partial, self._heads, self._low, self._which, self._most, missed, scratch.tally,
        )  # fmt: skip
        return missed[:count]

    def renumber(self, old: Slots) -> None:
        """Follow slots that have changed: what was at ``old[i]`` is at i."""
        heads, low = np.zeros_like(self._heads), np.full(len(self._low), np.inf)
        at = np.flatnonzero(old < len(low))
        heads[at], low[at] = self._heads[old[at]], self._low[old[at]]
        self._heads, self._low = heads, low
