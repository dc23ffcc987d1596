"""`RangeRouter`: the routing problem (Tornado, Definition 1), whatever structure solves it.

Given rectangular partitions that cover the space without overlap, find the partition of a point and the partitions that
overlap a range. A-Grid, a plain grid and an R-tree do it behind this seam and must not differ in a single row.
"""

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from partitioners.columns import Csr, Floats, Offsets, Workers, column
from partitioners.grids.fine_grid import FineGrid
from partitioners.grids.range_routing_kernels import cell_boxes
from streams.errors import InputError

__all__ = ["MAX_ROUTED", "RangeRouter", "grid_edges", "point_columns", "routed"]

#: The most partitions that the answer for one batch of ranges may hold (a gigabyte).
MAX_ROUTED = 1 << 28


class RangeRouter(Protocol):
    """Finds the partitions of points and of ranges."""

    @property
    def partitions(self) -> int:
        """How many partitions there are, numbered from 0."""
        ...

    def route_points(self, x: Floats, y: Floats) -> Workers:
        """Return the partition of each point; a point outside of the space belongs to the nearest cell."""
        ...

    def route_ranges(self, min_x: Floats, min_y: Floats, max_x: Floats, max_y: Floats) -> Csr:
        """Return the partitions that overlap each closed range, ascending.

        Exactly those that own a point of the range: cells are half-open, so a range that begins on the upper border of a
        partition does not overlap it. Ranges are clipped to the space; one without a point in it has an empty row.
        """
        ...


def grid_edges(grid: FineGrid) -> Floats:
    """Return what kernels need to find cells and the edge of the space."""
    return np.array([*grid.scale(), grid.space.max_x, grid.space.max_y])


def point_columns(x: ArrayLike, y: ArrayLike) -> tuple[Floats, Floats]:
    """Return coordinates ready for a kernel."""
    columns = column(x, np.float64), column(y, np.float64)
    if len(columns[0]) != len(columns[1]):
        raise InputError(f"column 'y' of points has {len(columns[1])} rows, expected {len(columns[0])}")
    return columns


def routed(
    grid: FineGrid,
    edges: Floats,
    bounds: tuple[ArrayLike, ArrayLike, ArrayLike, ArrayLike],
    search: Callable[[NDArray[np.int32], int], tuple[Offsets, Workers, bool]],
    nearest: bool = False,
) -> Csr:
    """Turn ranges into boxes of cells, search for those, and refuse an answer larger than `MAX_ROUTED`.

    With `nearest`, a range outside of the space has the cells next to it.
    """
    low_x, low_y, high_x, high_y = (column(edge, np.float64) for edge in bounds)
    for name, values in (("min_y", low_y), ("max_x", high_x), ("max_y", high_y)):
        if len(values) != len(low_x):
            raise InputError(f"column '{name}' of ranges has {len(values)} rows, expected {len(low_x)}")
    boxes = cell_boxes(low_x, low_y, high_x, high_y, edges, grid.columns, grid.rows, nearest)
    off, partition, complete = search(boxes, MAX_ROUTED)
    if not complete:
        raise InputError(
            f"{len(low_x):,} ranges overlap more than {MAX_ROUTED:,} partitions in all; route fewer ranges at a time"
        )
    return off, partition
