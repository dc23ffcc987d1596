"""A-Grid, the augmented grid of the routers (Tornado, Section 3.1).

A fine grid whose cells name their partition, and the partition map PM with the bounds of each. A point is routed by its
cell. A range is routed by Algorithm 1: from the partition at the first corner of the range on, follow two pointers of
each partition, in O(N_p) for N_p partitions found, however fine the grid is (Lemma 1).

**The pointers.** The dominant cell of partition A in range R is the cell of both with the smallest column and row. (The
paper calls it top left and counts rows downwards; here rows grow with y. The mirror image changes nothing.) With
(c, r) the dominant cell of A, its right pointer leads to the partition at the first column beyond A in row r, its bottom
pointer to the partition at the first row beyond A in column c; a pointer out of R leads nowhere.

**No partition is missed**, whatever the tiling; it need not come from a k-d decomposition. Cut all partitions off at
the border of R: what is left tiles R with rectangles, and dominant cells are their first corners. Let B be one of them,
with the first corner (c, r), and not the one at the first corner of R. We show that a pointer leads to B from some A whose
first corner is smaller in column + row; by induction over column + row, B is found.

- c is the first column of R. Then r is not its first row. Let A own (c, r - 1). A ends in row r - 1, as it does not own
  (c, r), and its first column is c: its bottom pointer leads to (c, r), which is B.
- c is not the first column. Let A own (c - 1, r); it ends in column c - 1. If its first row is r (always so where r is the
  first row of R), its right pointer leads to (c, r): B. Otherwise A also owns (c - 1, r - 1). Let U own (c, r - 1): it ends in
  row r - 1, and cannot reach to the left of c, where A is. So its first corner is in column c, and its bottom pointer leads
  to (c, r): B.

**Nothing foreign is found**, since pointers are followed within R only, and **it ends** after N_p partitions and 2 N_p
pointers if each partition is marked when it is found. The order of the work does not matter to the proof.

**Shortcuts instead of marks.** The proof names one pointer to each B. Where B begins in the first row or column of R, it is
the pointer from the partition before it in that row or column: both lines are walked, reading one cell for each partition.
Elsewhere r is not R's first row, so "A's first row in R is r" means "A's first row is r", and U's first column is c with or
without R: the pointer is the same for every R. These pointers make a forest (each partition has at most one right child
and one bottom child) that is kept in the partition map. Following it within R finds every such B exactly once: nothing
has to be marked, and beyond two border lines of the range no cell is asked for its partition.

**The guide.** Lemma 1 counts steps; a step into a large grid that is in no cache takes as long as ten others. A guide of at
most 256 x 256 blocks names the partition of the middle of each block. Where the partition map says that the cell in
question is in it too, as it mostly is, the fine grid is not touched, so that its size does not show in the time either.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from partitioners.columns import Csr, Floats, Workers, column
from partitioners.grids.adjacency import Neighbour, neighbours_of
from partitioners.grids.fine_grid import FineGrid
from partitioners.grids.range_routing import grid_edges, point_columns, routed
from partitioners.grids.range_routing_kernels import (
    FAR,
    middles,
    neighbour_ranges,
    owned_points,
    partition_map,
)
from partitioners.grids.tiling import Boxes, Owner, painted, repainted, tiling_boxes
from streams.errors import DeclarationError

__all__ = ["AGrid"]

#: Blocks of the guide in a row or a column, at most: all of them are in a core's cache.
_BLOCKS = 256


@dataclass(frozen=True, slots=True, eq=False)
class AGrid:
    """An immutable A-Grid; a rebalancing makes the next one with `with_boxes`.

    Attributes:
        grid: the fine grid FG.
        boxes: first column, first row, last column, last row of each partition.
        owner: the partition of each cell, row after row.
        table, beside: the partition map with its shortcuts, as `partitioners.grids.range_routing_kernels` lays it out.
        guide: the partition in the middle of each block of cells.
        shifts: columns and rows of a block, as powers of two.
    """

    grid: FineGrid
    boxes: Boxes
    owner: Owner
    table: NDArray[np.uint16]
    beside: NDArray[np.uint16]
    guide: Owner
    shifts: tuple[int, int]
    edges: Floats

    @classmethod
    def of_boxes(cls, grid: FineGrid, boxes: ArrayLike) -> "AGrid":
        """Lay partitions over a fine grid; raise unless they cover it exactly once."""
        checked = tiling_boxes(grid, boxes)
        return cls._of(grid, checked, painted(grid, checked))

    @classmethod
    def _of(cls, grid: FineGrid, boxes: Boxes, owner: Owner) -> "AGrid":
        if max(grid.columns, grid.rows) > FAR:
            raise DeclarationError(
                f"A-Grid on a fine grid of {grid.columns} x {grid.rows} cells; expected at most {FAR:,} columns and rows"
            )
        table, beside = (column(part, np.uint16, 2) for part in partition_map(boxes, owner, grid.columns, grid.rows))
        shifts = _shift(grid.columns), _shift(grid.rows)
        guide = column(middles(owner, grid.columns, grid.rows, shifts), np.uint16)
        return cls(grid, boxes, owner, table, beside, guide, shifts, grid_edges(grid))

    @property
    def partitions(self) -> int:
        """How many partitions there are (N_e)."""
        return len(self.boxes)

    def with_boxes(self, boxes: ArrayLike) -> "AGrid":
        """Return the A-Grid after a rebalancing; partitions may move, come and go, and keep their numbers otherwise.

        Only cells of partitions that changed are repainted, in a copy of the cells; where no border moves, it is this
        A-Grid. Raises unless the new boxes cover the space exactly once.
        """
        checked = tiling_boxes(self.grid, boxes)
        owner = repainted(self.grid, self.owner, self.boxes, checked)
        return self if owner is self.owner else self._of(self.grid, checked, owner)

    def neighbours(self, partition: int) -> tuple[Neighbour, ...]:
        """Return the partitions that share a border with one, and what can move across it."""
        return neighbours_of(self.boxes, partition)

    def route_points(self, x: Floats, y: Floats) -> Workers:
        """Return the partition of each point."""
        shape = (self.grid.columns, self.grid.rows)
        found: Workers = owned_points(*point_columns(x, y), self.edges, shape, self.owner)
        return found

    def route_ranges(self, min_x: Floats, min_y: Floats, max_x: Floats, max_y: Floats, *, nearest: bool = False) -> Csr:
        """Return the partitions that overlap each closed range, ascending (Algorithm 1).

        With `nearest`, what is outside of the space belongs to the nearest cells, as it does for points: then a range
        without a point in the space has partitions as well, unless it ends before it begins.
        """
        return routed(
            self.grid,
            self.edges,
            (min_x, min_y, max_x, max_y),
            lambda boxes, limit: neighbour_ranges(
                boxes, self.grid.columns, self.owner, self.table, self.beside, self.guide, self.shifts, limit
            ),
            nearest,
        )


def _shift(cells: int) -> int:
    """Return the power of two of the side of a block."""
    return max((cells - 1).bit_length() - (_BLOCKS - 1).bit_length(), 0)
