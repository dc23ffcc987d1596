"""The QT-tree (SSTD, Section 4): a quadtree in which a node may be divided by text instead of space.

An object reaches exactly one leaf: by its place, and in a textual node by the smallest workload increment. A query
reaches every leaf that it overlaps in space, whatever its keywords, so the two meet exactly once also where routers let
their keyword lists drift apart.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from partitioners.columns import (
    Csr,
    Floats,
    Ints,
    Offsets,
    Points,
    Regions,
    Workers,
    check_csr,
    check_range,
    own_columns,
)
from partitioners.costs.query_distribution import MAX_LENGTH
from partitioners.plans.broadcast import one_each
from partitioners.plans.plan import check_plan, plan_kind, successor
from partitioners.plans.qt_routing import leaf_of_points, leaves_of_regions
from partitioners.plans.units import moved_units
from streams.columns import sorted_rows
from streams.errors import InputError
from streams.geometry import Rect

__all__ = ["LEAF", "SPATIAL", "TEXTUAL", "QtTreePlan"]

#: Kinds of node.
LEAF, SPATIAL, TEXTUAL = 0, 1, 2


@plan_kind
@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class QtTreePlan:
    """A QT-tree with its leaves allocated to workers; the arrays are laid out as `partitioners.plans.qt_routing` says.

    The keyword list of a child in a textual node is the words with its bit. Of an object's keywords only those that SRQ
    or SKQ ask for can change H, so only these are listed.

    Attributes:
        leaf_worker: the worker of each leaf; rebalancing replaces this.
        leaf_cost: W(P) of each leaf by Equation 2.
        leaf_box: the region of each leaf.
    """

    kind: ClassVar[str] = "qt-tree"

    space: Rect
    workers: int
    split: NDArray[np.uint8]
    child: Workers
    middle: Floats
    leaf: Workers
    text: Workers
    word_off: Offsets
    word: Ints
    shares: Floats
    bits: NDArray[np.uint8]
    held: Floats
    objects: Floats
    weight: Floats
    lengths: Floats
    leaf_worker: Workers
    leaf_cost: Floats
    leaf_box: Floats
    version: int = 1

    def __post_init__(self) -> None:
        own_columns(self, split=(np.uint8, 1), child=(np.int32, 1), middle=(np.float64, 2), leaf=(np.int32, 1))
        own_columns(self, text=(np.int32, 1), word_off=(np.int32, 1), word=(np.int64, 1), shares=(np.float64, 2))
        own_columns(self, bits=(np.uint8, 1), held=(np.float64, 3), objects=(np.float64, 2), weight=(np.float64, 2))
        own_columns(
            self,
            lengths=(np.float64, 4),
            leaf_worker=(np.int32, 1),
            leaf_cost=(np.float64, 1),
            leaf_box=(np.float64, 2),
        )
        self.check()

    @property
    def leaves(self) -> int:
        """The number of leaves."""
        return len(self.leaf_worker)

    @property
    def meets_once(self) -> bool:
        """Always: an object has one leaf."""
        return True

    @property
    def reads_words(self) -> bool:
        """Whether some node is divided by text."""
        return len(self.word_off) > 1

    @property
    def single_home(self) -> bool:
        """Never: a query is at every leaf that it overlaps."""
        return False

    @property
    def unit_worker(self) -> Workers:
        """The worker of each leaf."""
        return self.leaf_worker

    def with_units(self, units: ArrayLike, workers: ArrayLike) -> "QtTreePlan":
        """Return the next plan, in which these units have these workers."""
        return successor(self, leaf_worker=moved_units(self.leaf_worker, units, workers, self.workers))

    def check(self) -> None:
        """Raise unless this is one tree whose leaves are numbered, allocated and described."""
        check_plan(self)
        nodes, leaves, tables = len(self.split), self.leaves, len(self.word_off) - 1
        inner, textual = self.split != LEAF, self.split == TEXTUAL
        check_range("split", self.split, 0, 3)
        check_range("leaf_worker", self.leaf_worker, 0, self.workers)
        if nodes == 0 or {len(self.child), len(self.middle), len(self.leaf), len(self.text)} != {nodes}:
            raise InputError("a QT-tree has no root, or columns of different lengths")
        expected = 1 + 4 * np.arange(int(inner.sum()))
        # Every node but the root is one of the four children of one inner node that stands before it: no cycles.
        if not np.array_equal(np.sort(self.child[inner]), expected) or nodes != 1 + 4 * len(expected):
            raise InputError("the nodes of a QT-tree do not form one tree")
        if (self.child[inner] <= np.flatnonzero(inner)).any() or self.middle.shape[1] != 2:
            raise InputError("the nodes of a QT-tree do not form one tree")
        if not np.array_equal(np.sort(self.leaf[~inner]), np.arange(leaves)):
            raise InputError(f"a QT-tree has {int((~inner).sum())} leaves, but workers for {leaves}")
        if not np.array_equal(np.sort(self.text[textual]), np.arange(tables)):
            raise InputError("a QT-tree has textual nodes without keyword lists")
        check_csr("word_off", self.word_off, len(self.word), tables)
        shapes = {
            "shares": (len(self.word), 2),
            "bits": (len(self.word),),
            "held": (tables, 4, 2),
            "objects": (tables, 4),
            "weight": (tables, 2),
            "lengths": (tables, 2, 2, MAX_LENGTH + 1),
            "leaf_cost": (leaves,),
            "leaf_box": (leaves, 4),
        }
        for name, shape in shapes.items():
            if getattr(self, name).shape != shape:
                raise InputError(f"'{name}' of a QT-tree has shape {getattr(self, name).shape}, expected {shape}")

    def leaves_of_points(self, points: Points) -> Workers:
        """Return the leaf of each object."""
        p = points
        scattered = (p.x.view(np.int64) ^ (p.y.view(np.int64) >> 7)) & np.int64(2**62 - 1)
        found: Workers = leaf_of_points(
            p.x, p.y, p.kw_off, p.kw, scattered // 4096, self.split, self.child, self.middle, self.leaf, self.text,
            self.word_off, self.word, self.shares, self.bits, self.held, self.objects, self.weight, self.lengths,
        )  # fmt: skip
        return found

    def leaves_of_regions(self, regions: Regions) -> Csr:
        """Return the leaves that the bounds of each query overlap."""
        found: Csr = leaves_of_regions(regions.bounds, self.split, self.child, self.middle, self.leaf)
        return found

    def route_points(self, points: Points) -> Csr:
        """Return the worker that each object goes to."""
        return one_each(self.leaf_worker[self.leaves_of_points(points)])

    def route_regions(self, regions: Regions) -> Csr:
        """Return the workers of all leaves that each query overlaps in space."""
        off, leaf = self.leaves_of_regions(regions)
        row = np.repeat(np.arange(len(regions)), np.diff(off))
        found, worker = sorted_rows(row, self.leaf_worker[leaf].astype(np.int64), len(regions))
        return found, worker.astype(np.int32)
