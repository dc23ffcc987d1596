"""The paper's index of kept objects: R-trees by time, with inverted lists and tables of terms (SSTD, Section 6.1).

The paper builds a tree for each interval of time, and keeps the frequency of every term in every node. Trees are packed here
(sort-tile-recursive), which makes them better than by insertion: a full chunk becomes a small tree, and trees of one size are
packed anew as one, as often as the segments of the default index are merged. That is done in one go: it is a pause.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from operators.indexes.objects import r_tree_kernels as kernels
from operators.indexes.objects.object_index import Kept
from operators.indexes.objects.object_log import Chunk, ObjectLog
from operators.indexes.objects.word_scratch import WordScratch
from streams.columns import Ints, csr_concat, csr_take
from streams.errors import DeclarationError

__all__ = ["RTree"]

Floats = NDArray[np.float64]
Slots = NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """A packed tree over consecutive objects; see `r_tree_kernels`."""

    first: int
    stop: int
    x: Floats
    y: Floats
    order: Slots
    boxes: Floats
    levels: Ints
    table: Slots
    terms: Slots
    counts: Slots
    begins: Slots
    lists: NDArray[np.uint8]

    def row(self) -> Ints:
        """Return its row in the table that kernels read."""
        at = [array.ctypes.data for array in self._arrays()]
        x, y, order, boxes, levels, table, terms, counts, begins, lists = at
        return np.array([
            self.first, self.stop, x, y, len(self.x), order, boxes, len(self.boxes), levels, len(self.levels) - 1, table, terms,
            len(self.terms), counts, begins, len(self.begins), lists, len(self.lists),
        ])  # fmt: skip

    def _arrays(self) -> tuple[NDArray[Any], ...]:
        lists = self.terms, self.counts, self.begins, self.lists
        return self.x, self.y, self.order, self.boxes, self.levels, self.table, *lists

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        return sum(array.nbytes for array in self._arrays())


def packed(chunks: list[Chunk], scratch: WordScratch) -> Tree:
    """Pack the objects of chunks into a tree: slices by x, in each of them leaves by y."""
    x, y = np.concatenate([chunk.x for chunk in chunks]), np.concatenate([chunk.y for chunk in chunks])
    off, words = csr_concat([(chunk.off, chunk.words) for chunk in chunks])
    leaves = -(-len(x) // kernels.LEAF)
    slice_of = np.empty(len(x), np.int64)
    slice_of[np.argsort(x, kind="stable")] = np.arange(len(x)) // (int(np.ceil(np.sqrt(leaves))) * kernels.LEAF)
    order = np.lexsort((y, slice_of))
    sizes = [leaves]
    while sizes[-1] > 1:
        sizes.append(-(-sizes[-1] // kernels.FAN))
    levels = np.concatenate([[0], np.cumsum(sizes)])
    x, y, boxes = x[order], y[order], np.empty((int(levels[-1]), 4))
    kernels.bound(x, y, levels, boxes)
    off, words = csr_take(off, words, order)
    # What is never written is address space, not memory.
    room = len(words) * len(sizes)
    table, terms, counts = np.empty(len(boxes) + 1, np.int32), np.empty(room, np.int32), np.empty(room, np.int32)
    begins, lists = np.empty(len(words) + 1, np.int32), np.empty(len(words), np.uint8)
    low = kernels.leaf_tables(off, words, scratch.counted, scratch.place, table, terms, counts, begins, lists)
    top = kernels.upper_tables(levels, scratch.counted, table, terms, counts, low)
    first = chunks[0].first
    return Tree(
        first, first + len(x), x, y, order.astype(np.int32), boxes, levels, table, terms[:top].copy(), counts[:top].copy(),
        begins[: low + 1].copy(), lists,
    )  # fmt: skip


class RTree:
    """R-trees of growing size over a log."""

    def __init__(self, chunk: int, middle: int, large: int) -> None:
        if min(middle, large) < 2:
            raise DeclarationError(f"trees are packed by {middle} and {large}, expected numbers from 2 on")
        self._fan = middle, large
        self.log, self.scratch = ObjectLog(chunk), WordScratch()
        self._trees: list[list[Tree]] = [[], [], []]
        self._store: Any = None

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        return sum(tree.nbytes for trees in self._trees for tree in trees)

    def append(self, objects: Kept) -> None:
        """Take in objects; chunks that they fill become trees."""
        for chunk in self.log.append(objects):
            self.scratch.ready(self.log.words.top)
            self._trees[0].append(packed([chunk], self.scratch))
            for size, fan in enumerate(self._fan):
                if len(self._trees[size]) >= fan:
                    oldest = (max(self._trees[size][0].first, self.log.oldest) - self.log.oldest) // self.log.size
                    stop = (self._trees[size][-1].stop - self.log.oldest) // self.log.size
                    self._trees[size + 1].append(packed(self.log.chunks[oldest:stop], self.scratch))
                    self._trees[size] = []
        self._store = None

    def drop(self, oldest: int) -> None:
        """Forget trees that hold only ranks below `oldest`."""
        self._trees = [[tree for tree in trees if tree.stop > oldest] for trees in self._trees]
        self._store = None

    def step(self) -> int:
        """Do nothing: trees are packed at once."""
        return 0

    def _tables(self) -> Any:
        if self._store is None:
            log = self.log
            rows = [tree.row() for trees in reversed(self._trees) for tree in trees]
            trees = np.array(rows, np.int64).reshape(-1, kernels.FIELDS)
            self._store = trees, log.table, log.shift, log.oldest, log.chains, log.newest
        return self._store

    def srq(self, begin: int, asks: Any, off: Ints, out: Ints, info: Ints) -> int:
        """Write the ranks inside of regions."""
        return int(kernels.srq(begin, asks, self._tables(), self.log.words.uses, off, out, info))

    def skq(self, asks: Any, k: Any, reach: Floats, off: Ints, out: Ints, distances: Floats, info: Ints) -> None:
        """Write the ranks of the k nearest, and their distances."""
        kernels.skq(asks, k, reach, self._tables(), self.log.words.uses, off, out, distances, info)

    def stq(self, begin: int, asks: Any, k: Any, off: Ints, terms: Ints, counts: Ints, rest: Ints, info: Ints) -> int:
        """Write words and counts."""
        scratch = self.scratch.ready(self.log.words.top)
        return int(kernels.stq(begin, asks, k, self._tables(), scratch, off, terms, counts, rest, info))
