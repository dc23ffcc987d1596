"""The plain grid (Tornado, Section 5.2, "Grid"): cells know their partition and a range looks at all of its cells."""

from dataclasses import dataclass

from numpy.typing import ArrayLike

from partitioners.columns import Csr, Floats, Workers
from partitioners.grids.fine_grid import FineGrid
from partitioners.grids.range_routing import grid_edges, point_columns, routed
from partitioners.grids.range_routing_kernels import owned_points, scanned_ranges
from partitioners.grids.tiling import Owner, painted, tiling_boxes

__all__ = ["PlainGrid"]


@dataclass(frozen=True, slots=True, eq=False)
class PlainGrid:
    """Routes points in O(1) and a range of m x n cells in O(m n)."""

    grid: FineGrid
    partitions: int
    owner: Owner
    edges: Floats

    @classmethod
    def of_boxes(cls, grid: FineGrid, boxes: ArrayLike) -> "PlainGrid":
        """Paint partitions into the cells of a grid."""
        checked = tiling_boxes(grid, boxes)
        return cls(grid, len(checked), painted(grid, checked), grid_edges(grid))

    def route_points(self, x: Floats, y: Floats) -> Workers:
        """Return the partition of each point."""
        shape = (self.grid.columns, self.grid.rows)
        found: Workers = owned_points(*point_columns(x, y), self.edges, shape, self.owner)
        return found

    def route_ranges(self, min_x: Floats, min_y: Floats, max_x: Floats, max_y: Floats) -> Csr:
        """Return the partitions that overlap each closed range, ascending."""
        return routed(
            self.grid,
            self.edges,
            (min_x, min_y, max_x, max_y),
            lambda boxes, limit: scanned_ranges(boxes, self.grid.columns, self.owner, self.partitions, limit),
        )
