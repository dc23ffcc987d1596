"""A uniform grid whose cells list the subscriptions whose balls overlap them, for as long as they do.

A ball overlaps what the box around it does. As it shrinks it leaves cells. One that overlaps many of them would be copied
into all, and while a list is not full its ball has no end: such a ball stands in one place instead, a cell beside the grid
that every object reads, until it fits.
"""

import numpy as np
from numpy.typing import NDArray

from operators.indexes.core.query_table import QueryTable
from operators.indexes.core.structure import Probe
from operators.indexes.knn.ball_lists import OBJECTS, BallLists, Boxes
from operators.indexes.knn.knn_index import Near
from operators.indexes.knn.nearest_lists import NearestLists
from partitioners.grids.fine_grid import FineGrid
from streams.columns import distinct
from streams.errors import DeclarationError
from streams.geometry import REGION_CIRCLE, region_bounds

__all__ = ["BallGrid", "ball_boxes"]

Floats = NDArray[np.float64]
Slots = NDArray[np.int32]


def ball_boxes(slots: Slots, table: QueryTable, lists: NearestLists) -> Floats:
    """Return rows of min x, min y, max x, max y that enclose the balls of slots."""
    circle = np.column_stack([table.shape[slots, :2], lists.radius[slots], np.zeros(len(slots))])
    kind = np.full(len(slots), REGION_CIRCLE, np.uint8)
    return np.column_stack(region_bounds(kind, circle, table.space, table.metric))


class BallGrid:
    """Balls by cell, and by word where that is wanted.

    Args:
        table: the rows of slots.
        lists: their radii.
        side: cells on each side of the grid.
        most_cells: a ball whose box overlaps more is kept beside the grid.
        by_word: whether a cell has a list for each word, or one.
    """

    def __init__(self, table: QueryTable, lists: NearestLists, side: int, most_cells: int, *, by_word: bool) -> None:
        if not 1 <= side <= 4096:
            raise DeclarationError(f"side = {side}, expected a whole number from 1 to 4096")
        if not 1 <= most_cells <= 1 << 20:
            raise DeclarationError(f"most_cells = {most_cells}, expected a whole number from 1 to {1 << 20}")
        self._table, self._radii = table, lists
        self._grid = FineGrid(table.space, side, side)
        self._most_cells = most_cells
        self.lists = BallLists(table, lists, side, by_word=by_word, moving=True)

    @property
    def beside(self) -> int:
        """The cell beside the grid: the first of a row that the grid has not."""
        return self._grid.cells

    def boxes(self, slots: Slots) -> Boxes:
        """Return the cells that the balls of slots overlap."""
        side = self._grid.columns
        bounds = ball_boxes(slots, self._table, self._radii)
        low, high = self._grid.cells_of(bounds[:, 0], bounds[:, 1]), self._grid.cells_of(bounds[:, 2], bounds[:, 3])
        boxes = np.column_stack([low % side, low // side, high % side, high // side]).astype(np.int16)
        many = (high % side - low % side + 1) * (high // side - low // side + 1) > self._most_cells
        boxes[many] = (0, side, 0, side)
        return boxes

    def add(self, slots: Slots) -> None:
        """File subscriptions in the cells that their balls overlap."""
        self.lists.add(slots, self.boxes(slots))

    def discard(self, slots: Slots) -> Slots:
        """Remove subscriptions; long lists are cleaned later."""
        return self.lists.discard(slots, self.lists.span[slots])

    def shrink(self, slots: Slots) -> None:
        """Let balls leave cells, or enter the grid."""
        slots = distinct(slots)
        self.lists.note(slots)
        old, new = self.lists.span[slots], self.boxes(slots)
        moved = np.flatnonzero((old != new).any(1))
        if len(moved):
            self.lists.move(slots[moved], old[moved], new[moved])

    def probe(self, objects: Probe, first: int, *, everything: bool = False) -> Near:
        """Read the lists of each object's cell, and those beside the grid."""
        stop = min(len(objects.x), first + OBJECTS)
        cells = np.full((stop - first, 2), self.beside, np.int64)
        cells[:, 0] = self._grid.cells_of(objects.x[first:stop], objects.y[first:stop])
        off = np.arange(0, cells.size + 1, 2)
        return self.lists.read(objects, first, off, cells.ravel(), everything=everything)

    @property
    def nbytes(self) -> int:
        """Bytes in use, without table and lists."""
        return self.lists.nbytes
