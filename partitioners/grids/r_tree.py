"""The R-tree over partitions (Tornado, Section 5.2), bulk-loaded by sort-tile-recursive packing into flat arrays.

`boxes` holds the partitions first, in the order of the leaves, then the nodes level by level, the root last;
`number[e]` is the partition of entry e, and `child[n]` the first and the last (exclusive) entry below node n, which is
entry `partitions + n`. Bounds are in cells of the fine grid, so that its borders are those of all other routers.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from partitioners.columns import Csr, Floats, Workers, column
from partitioners.grids.fine_grid import FineGrid
from partitioners.grids.range_routing import grid_edges, point_columns, routed
from partitioners.grids.range_routing_kernels import tree_points, tree_ranges
from partitioners.grids.tiling import Boxes, painted, tiling_boxes
from streams.errors import DeclarationError

__all__ = ["DEFAULT_FANOUT", "RTree"]

#: Entries of a node: of 4, 8, 16 and 32 the fastest for wide ranges, and as fast as any for narrow ones.
DEFAULT_FANOUT = 16


@dataclass(frozen=True, slots=True, eq=False)
class RTree:
    """Routes points in O(log N_e) and a range in O(log N_e + N_p), as long as sibling nodes overlap little."""

    grid: FineGrid
    boxes: Boxes
    child: NDArray[np.int32]
    number: Workers
    edges: Floats

    @classmethod
    def of_boxes(cls, grid: FineGrid, boxes: ArrayLike, fanout: int = DEFAULT_FANOUT) -> "RTree":
        """Pack partitions into a tree with nodes of `fanout` entries."""
        if fanout < 2:
            raise DeclarationError(f"an R-tree with nodes of {fanout} entries; expected at least 2")
        level = tiling_boxes(grid, boxes)
        painted(grid, level)  # raises unless the boxes are a tiling, on which `route_points` relies
        number = _tiles(level, fanout)
        level = level[number]
        entries, children, base = [level], [], 0
        while True:
            starts = np.arange(0, len(level), fanout)
            ends = np.minimum(starts + fanout, len(level))
            low = np.minimum.reduceat(level[:, :2], starts)
            high = np.maximum.reduceat(level[:, 2:], starts)
            above = np.concatenate([low, high], axis=1)
            order = _tiles(above, fanout)
            children.append(base + np.stack([starts, ends], axis=1)[order])
            base += len(level)
            level = above[order]
            entries.append(level)
            if len(level) == 1:
                break
        return cls(
            grid,
            column(np.concatenate(entries), np.int32, 2),
            column(np.concatenate(children), np.int32, 2),
            column(number, np.int32),
            grid_edges(grid),
        )

    @property
    def partitions(self) -> int:
        """How many partitions there are."""
        return len(self.number)

    def route_points(self, x: Floats, y: Floats) -> Workers:
        """Return the partition of each point."""
        shape = (self.grid.columns, self.grid.rows)
        found: Workers = tree_points(*point_columns(x, y), self.edges, shape, self.boxes, self.child, self.number)
        return found

    def route_ranges(self, min_x: Floats, min_y: Floats, max_x: Floats, max_y: Floats) -> Csr:
        """Return the partitions that overlap each closed range, ascending."""
        return routed(
            self.grid,
            self.edges,
            (min_x, min_y, max_x, max_y),
            lambda boxes, limit: tree_ranges(boxes, self.boxes, self.child, self.number, limit),
        )


def _tiles(boxes: Boxes, fanout: int) -> NDArray[np.int64]:
    """Return the order of boxes in which each run of `fanout` makes a node: upright slices, then upwards in a slice."""
    x, y = boxes[:, 0] + boxes[:, 2], boxes[:, 1] + boxes[:, 3]
    nodes = math.ceil(len(boxes) / fanout)
    a_slice = math.ceil(math.sqrt(nodes)) * fanout
    by_x = np.lexsort((y, x))
    slice_of = np.empty(len(boxes), np.int64)
    slice_of[by_x] = np.arange(len(boxes)) // a_slice
    return np.lexsort((x, y, slice_of))
