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

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from partitioners.columns import Csr, Floats, Workers, check_csr, check_range, column
from partitioners.grids.adjacency import Neighbour, neighbours_of
from partitioners.grids.fine_grid import FineGrid
from partitioners.grids.range_routing import grid_edges, point_columns, routed
from partitioners.grids.range_routing_kernels import (
    FAR,
    middles,
    neighbour_ranges,
    owned_points,
    partition_map,
    workers_of_rows,
)
from partitioners.grids.tiling import Boxes, Owner, painted, repainted, tiling_boxes
from partitioners.plans.grid_plan import GridPlan
from partitioners.plans.plan import MAX_WORKERS
from streams.errors import DeclarationError, InputError

__all__ = ["AGrid"]

#: Blocks of the guide in a row or a column, at most: all of them are in a core's cache.
_BLOCKS = 256


@dataclass(frozen=True, slots=True, eq=False)
class AGrid:
    """An immutable A-Grid; a rebalancing makes the next one with `with_boxes`.

    Attributes:
        grid: the fine grid FG.
        boxes: first column, first row, last column, last row of each partition.
        workers: the evaluator of each partition.
        owner: the partition of each cell, row after row.
        table, beside: the partition map with its shortcuts, as `partitioners.grids.range_routing_kernels` lays it out.
        guide: the partition in the middle of each block of cells.
        shifts: columns and rows of a block, as powers of two.
    """

    grid: FineGrid
    boxes: Boxes
    workers: Workers
    owner: Owner
    table: NDArray[np.uint16]
    beside: NDArray[np.uint16]
    guide: Owner
    shifts: tuple[int, int]
    edges: Floats

    @classmethod
    def of_boxes(cls, grid: FineGrid, boxes: ArrayLike, workers: ArrayLike) -> "AGrid":
        """Lay partitions over a fine grid; `workers` are their evaluators."""
        checked = tiling_boxes(grid, boxes)
        return cls._of(grid, checked, _checked_workers(workers, len(checked)), painted(grid, checked))

    @classmethod
    def of_plan(cls, plan: GridPlan) -> "AGrid":
        """Make the router's structure of a plan that has one worker for each box."""
        if plan.anchored or not plan.meets_once:
            why = "keeps queries at their place and sends objects everywhere" if plan.anchored else "divides keywords"
            raise DeclarationError(
                f"A-Grid needs one worker for each box, but this grid plan {why}; "
                "build it with the partitioner 'kd' or 'uniform', or route with the plan itself"
            )
        return cls.of_boxes(plan.grid, plan.boxes, plan.part_worker)

    @classmethod
    def _of(cls, grid: FineGrid, boxes: Boxes, workers: Workers, owner: Owner) -> "AGrid":
        if max(grid.columns, grid.rows) > FAR:
            raise DeclarationError(
                f"A-Grid on a fine grid of {grid.columns} x {grid.rows} cells; expected at most {FAR:,} columns and rows"
            )
        table, beside = (column(part, np.uint16, 2) for part in partition_map(boxes, owner, grid.columns, grid.rows))
        shifts = _shift(grid.columns), _shift(grid.rows)
        guide = column(middles(owner, grid.columns, grid.rows, shifts), np.uint16)
        return cls(grid, boxes, workers, owner, table, beside, guide, shifts, grid_edges(grid))

    @property
    def partitions(self) -> int:
        """How many partitions there are (N_e)."""
        return len(self.boxes)

    def with_boxes(self, boxes: ArrayLike, workers: ArrayLike) -> "AGrid":
        """Return the A-Grid after a rebalancing; partitions may move, come and go, and keep their numbers otherwise.

        Only cells of partitions that changed are repainted, in a copy of the cells; where no border moves, everything but
        the workers is shared. Raises unless the new boxes cover the space exactly once.
        """
        checked = tiling_boxes(self.grid, boxes)
        given = _checked_workers(workers, len(checked))
        owner = repainted(self.grid, self.owner, self.boxes, checked)
        return replace(self, workers=given) if owner is self.owner else self._of(self.grid, checked, given, owner)

    def neighbours(self, partition: int) -> tuple[Neighbour, ...]:
        """Return the partitions that share a border with one, and what can move across it."""
        return neighbours_of(self.boxes, partition)

    def route_points(self, x: Floats, y: Floats) -> Workers:
        """Return the partition of each point."""
        shape = (self.grid.columns, self.grid.rows)
        found: Workers = owned_points(*point_columns(x, y), self.edges, shape, self.owner)
        return found

    def route_ranges(self, min_x: Floats, min_y: Floats, max_x: Floats, max_y: Floats) -> Csr:
        """Return the partitions that overlap each closed range, ascending (Algorithm 1)."""
        return routed(
            self.grid,
            self.edges,
            (min_x, min_y, max_x, max_y),
            lambda boxes, limit: neighbour_ranges(
                boxes, self.grid.columns, self.owner, self.table, self.beside, self.guide, self.shifts, limit
            ),
        )

    def workers_of(self, partitions: Csr) -> Csr:
        """Return the workers of rows of partitions, ascending and distinct, as plans name them."""
        off, partition = column(partitions[0], np.int32), column(partitions[1], np.int32)
        check_csr("partitions", off, len(partition))
        check_range("partitions", partition, 0, self.partitions)
        found: Csr = workers_of_rows(off, partition, self.workers, int(self.workers.max()) + 1)
        return found


def _checked_workers(workers: ArrayLike, partitions: int) -> Workers:
    given = np.asarray(workers)
    if given.shape != (partitions,) or not np.issubdtype(given.dtype, np.integer):
        raise InputError(
            f"workers are {given.dtype} of shape {given.shape}; expected a whole number for each of {partitions} partitions"
        )
    check_range("workers", given, 0, MAX_WORKERS)
    own: Workers = column(np.array(given, np.int32), np.int32)
    return own


def _shift(cells: int) -> int:
    """Return the power of two of the side of a block."""
    return max((cells - 1).bit_length() - (_BLOCKS - 1).bit_length(), 0)
