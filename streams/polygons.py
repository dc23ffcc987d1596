"""Polygons as regions: rings in columns, and what makes a large one cheap to ask."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from streams.polygon_kernels import OUTER, inside_slabs, slab_entries, write_slabs

__all__ = ["NO_RINGS", "Region", "Rings", "Slabs"]

Floats = NDArray[np.float64]
Marks = NDArray[np.uint8]

#: A slab has about so many edges, and all slabs together list so many times the edges there are, at most.
_EDGES_A_SLAB, _LISTED = 4, 4
_MOST_SLABS = 4096


@dataclass(frozen=True, slots=True, eq=False)
class Rings:
    """A region as `streams.polygon_kernels` wants it."""

    x: Floats
    y: Floats
    mark: Marks

    def box(self) -> tuple[float, float, float, float]:
        """Return the smallest rectangle that has all points of the region: that of the exterior rings."""
        owner = np.maximum.accumulate(np.where(self.mark > 0, np.arange(len(self.mark)), 0))
        outer = self.mark[owner] == OUTER
        x, y = self.x[outer], self.y[outer]
        return float(x.min()), float(y.min()), float(x.max()), float(y.max())


NO_RINGS = Rings(np.empty(0), np.empty(0), np.empty(0, np.uint8))


@dataclass(frozen=True, slots=True, eq=False)
class Slabs:
    """The edges of a region by horizontal slabs: a point is compared with those of its own slab.

    Attributes:
        low, per_unit, count: the slab of a y is ``slab_of(y, low, per_unit, count)``.
        lists: ``count + 1`` offsets into what comes behind them, the lists of `write_slabs`.
    """

    low: float
    per_unit: float
    count: int
    lists: NDArray[np.int32]

    @classmethod
    def of(cls, y: Floats, mark: Marks) -> "Slabs":
        """Choose slabs so that there are few edges in each, and all lists together grow with the edges alone."""
        low, edges = float(y.min()), len(y)
        high = float(y.max()) - low
        count = min(max(edges // _EDGES_A_SLAB, 1), _MOST_SLABS) if high > 0 else 1
        while count > 1 and slab_entries(y, mark, low, count / high, count) > _LISTED * edges:
            count //= 2
        per_unit = count / high if count > 1 else 0.0
        off = np.zeros(count + 1, np.int64)
        entries = np.empty(write_slabs(y, mark, low, per_unit, count, off, np.empty(0, np.int32)), np.int32)
        write_slabs(y, mark, low, per_unit, count, off, entries)
        return cls(low, per_unit, count, np.concatenate([off.astype(np.int32), entries]))


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """A region that many points are held against."""

    rings: Rings
    slabs: Slabs

    @classmethod
    def of(cls, rings: Rings) -> "Region":
        """Prepare rings, as arrays of the one type that kernels are compiled for: those in a message cannot be written to."""
        x, y = (np.require(column, np.float64, ["C", "W"]) for column in (rings.x, rings.y))
        mark = np.require(rings.mark, np.uint8, ["C", "W"])
        return cls(Rings(x, y, mark), Slabs.of(y, mark))

    def contains(self, x: Floats, y: Floats) -> NDArray[np.bool_]:
        """Tell of each point whether it is inside."""
        found, slabs = np.empty(len(x), np.bool_), self.slabs
        inside_slabs(x, y, self.rings.x, self.rings.y, slabs.low, slabs.per_unit, slabs.count, slabs.lists, found)
        return found
