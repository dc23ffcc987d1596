"""The quadtree J below the leaves of one worker: objects and queries of six types by quarter, and quarters of quarters.

J is asked for when leaves are to be split, and made then from the queries that live, the latest snapshot queries and the latest
objects, all of which the worker keeps bounded samples of. The cell with the most work is quartered next, so where there is
much to know, there are small cells; and there are never more than so many.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from operators.balancing.sstd.leaf_counts import LeafCounts
from partitioners.columns import Floats, Ints
from partitioners.costs.query_distribution import MAX_LENGTH, RegionStatistics
from partitioners.plans.qt_adjustment import AskedWords, Box, quartered, quarters

__all__ = ["Cells", "Located", "Quadtree", "quadtree"]

#: So many words of a leaf are named at most: those that are asked for most.
_WORDS = 512


@dataclass(frozen=True, slots=True, eq=False)
class Located:
    """What is at the leaves of a worker.

    Attributes:
        x, y, leaf: places of objects, and the row of the leaf that each is in.
        pairs: how many continuous queries each has to be held against.
        bounds, code: bounds of queries (n x 4), and their type of the six.
        weight: how many queries each stands for.
    """

    x: Floats
    y: Floats
    leaf: Ints
    pairs: Floats
    bounds: Floats
    code: Ints
    weight: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """J, cell by cell; the first cells are the leaves of a worker, quarters come after what they are quarters of.

    Attributes:
        leaf: the leaf that a cell is, or is a part of.
        parent: the cell that it is a quarter of, -1 for a leaf; the four quarters follow each other, in the order of children.
        objects: the share of its leaf's objects that is in it.
        queries: of the six types that overlap it (cells x 6).
        pairs: the continuous queries that an object in it has to be held against, on average.
        totals: of the six types, all that the worker has.
        word_off, word, shares, weight, lengths: what is asked for at each leaf, as `AskedWords`.
    """

    leaf: Ints
    parent: Ints
    objects: Floats
    queries: Floats
    pairs: Floats
    totals: Floats
    word_off: Ints
    word: Ints
    shares: Floats
    weight: Floats
    lengths: Floats

    def answer(self) -> list[Any]:
        """Return it as an evaluator answers it: plain values travel between processes, arrays do not."""
        columns = [np.asarray(getattr(self, f.name)) for f in fields(self)]
        return [[column.dtype.str, list(column.shape), column.ravel().tolist()] for column in columns]

    @classmethod
    def of(cls, answer: Sequence[Any]) -> "Cells":
        """Read an answer."""
        return cls(*(np.array(values, dtype).reshape(shape) for dtype, shape, values in answer))

    def asked(self, row: int) -> AskedWords:
        """Return what is asked for at the leaf of this row."""
        part = slice(int(self.word_off[row]), int(self.word_off[row + 1]))
        return AskedWords(self.word[part], self.shares[part], self.weight[row], self.lengths[row])


@dataclass(frozen=True, slots=True, eq=False)
class Quadtree:
    """J below the leaves of all workers, as they answered.

    Attributes:
        parent: the cell that a cell is a quarter of, -1 for a leaf.
        below: the first of the four quarters of a cell, -1 where J has none.
        objects, queries, pairs: of each cell, as in `Cells`.
        totals: queries of the six types, all that workers have.
        asked: what is asked for at the leaf that a cell is a part of.
    """

    parent: Ints
    below: Ints
    objects: Floats
    queries: Floats
    pairs: Floats
    totals: Floats
    asked: Sequence[AskedWords]

    @classmethod
    def of(cls, answers: Sequence[Cells], leaves: int) -> tuple["Quadtree", Ints]:
        """Put answers together; return also the cell of each leaf, -1 where nobody answered for it."""
        first = np.cumsum([0] + [len(one.leaf) for one in answers])
        parent, below, cell = np.full(first[-1], -1), np.full(first[-1], -1), np.full(leaves, -1)
        asked: list[AskedWords] = []
        for one, start in zip(answers, first.tolist(), strict=False):
            roots, quarter = np.flatnonzero(one.parent < 0), np.flatnonzero(one.parent >= 0)
            cell[one.leaf[roots]] = start + roots
            parent[start + quarter] = start + one.parent[quarter]
            below[parent[start + quarter[::4]]] = start + quarter[::4]
            words = [one.asked(row) for row in range(len(roots))]
            asked += [words[row] for row in np.searchsorted(one.leaf[roots], one.leaf).tolist()]
        objects = np.concatenate([np.empty(0), *(one.objects for one in answers)])
        queries = np.concatenate([np.empty((0, 6)), *(one.queries for one in answers)])
        pairs = np.concatenate([np.empty(0), *(one.pairs for one in answers)])
        totals = np.sum([np.zeros(6), *(one.totals for one in answers)], axis=0)
        return cls(parent, below, objects, queries, pairs, totals, asked), cell


def quadtree(
    leaves: Ints, boxes: Floats, space: Box, counts: LeafCounts, located: Located, regions: Sequence[RegionStatistics],
    most: int,
) -> Cells:  # fmt: skip
    """Make J below some leaves, of at most so many cells.

    Args:
        leaves: their numbers.
        boxes: their regions.
        space: of the whole tree.
        counts: what is known of them.
        located: objects and queries.
        regions: what is asked for at each leaf.
        most: cells at most; each leaf is one anyhow.
    """
    tree = _Tree(located, counts, [], [], [], [])
    everything = np.arange(len(located.code))
    for row, box in enumerate(boxes.tolist()):
        tree.add(row, -1, tuple(box), np.flatnonzero(located.leaf == row), everything)
    heap = [(-tree.work(cell), cell) for cell in range(len(leaves))]
    heapq.heapify(heap)
    while heap and len(tree.parent) + 4 <= most:
        work, cell = heapq.heappop(heap)
        middle = quartered(tree.box[cell], space)
        if work == 0 or middle is None or len(tree.rows[cell][0]) < 2:
            continue
        objects, queries = tree.rows[cell]
        place = (located.x[objects] >= middle[0]) + 2 * (located.y[objects] >= middle[1])
        for quarter, box in enumerate(quarters(tree.box[cell], middle)):
            tree.add(tree.leaf[cell], cell, box, objects[place == quarter], queries)
            heapq.heappush(heap, (-tree.work(len(tree.parent) - 1), len(tree.parent) - 1))
    leaf = np.array(tree.leaf, np.int64)
    words = [_most_asked(region, tree.overlapping(row)) for row, region in enumerate(regions)]
    return Cells(
        leaf=leaves[leaf],
        parent=np.array(tree.parent, np.int64),
        objects=np.array([tree.share(cell) for cell in range(len(leaf))]),
        queries=np.array([tree.overlapping(cell) for cell in range(len(leaf))]).reshape(-1, 6),
        pairs=np.array([tree.pairs(cell) for cell in range(len(leaf))]),
        totals=np.bincount(located.code, located.weight, minlength=6).astype(np.float64),
        word_off=np.cumsum([0] + [len(asked.words) for asked in words]),
        word=np.concatenate([np.empty(0, np.int64)] + [asked.words for asked in words]),
        shares=np.concatenate([np.empty((0, 2))] + [asked.shares for asked in words]),
        weight=np.array([asked.weight for asked in words]).reshape(-1, 2),
        lengths=np.array([asked.lengths for asked in words]).reshape(-1, 2, 2, MAX_LENGTH + 1),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Tree:
    """J under construction."""

    located: Located
    counts: LeafCounts
    leaf: list[int]
    parent: list[int]
    box: list[Box]
    rows: list[tuple[Ints, Ints]]

    def add(self, leaf: int, parent: int, box: Box, objects: Ints, among: Ints) -> None:
        """Add a cell with these objects, and the queries, among these, that overlap it."""
        low_x, low_y, high_x, high_y = box
        bounds = self.located.bounds[among]
        hit = (bounds[:, 0] <= high_x) & (bounds[:, 2] >= low_x) & (bounds[:, 1] <= high_y) & (bounds[:, 3] >= low_y)
        self.leaf.append(leaf)
        self.parent.append(parent)
        self.box.append(box)
        self.rows.append((objects, among[hit]))

    def overlapping(self, cell: int) -> Floats:
        """Return the queries of a cell by type."""
        rows = self.rows[cell][1]
        return np.bincount(self.located.code[rows], self.located.weight[rows], minlength=6).astype(np.float64)

    def share(self, cell: int) -> float:
        """Return the share of its leaf's objects that a cell has; all of it where none is known."""
        root = self.rows[self.leaf[cell]][0]
        return len(self.rows[cell][0]) / len(root) if len(root) else float(self.parent[cell] < 0)

    def pairs(self, cell: int) -> float:
        """Return what an object of a cell has to be held against, on average."""
        rows = self.rows[cell][0]
        return float(self.located.pairs[rows].mean()) if len(rows) else 0.0

    def work(self, cell: int) -> float:
        """Return the load of a cell, by Equation 2."""
        one = self.counts.take(np.array([self.leaf[cell]])).scaled(np.array([self.share(cell)]))
        return float(replace(one, queries=self.overlapping(cell)[None]).by_equation().load[0])


def _most_asked(region: RegionStatistics, queries: Floats) -> AskedWords:
    """Return what SRQ and SKQ ask for in a region, of many words those that are asked for most."""
    chosen = np.sort(np.argsort(-region.shares.sum(0), kind="stable")[:_WORDS])
    weight = queries[:2] / max(float(queries.sum()), 1.0)
    return AskedWords(region.words[chosen], region.shares[:, chosen].T, weight, region.lengths)
