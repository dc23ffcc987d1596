"""The grid-based index of objects (Section IV): n x n cells, each with its objects, maxwts and minwts.

The paper does not say what becomes of maxwts and minwts when the object that has them leaves; here they are found anew from the
objects of the cell, so they are exact at all times.

Costs: a move takes an object out of one list and puts it into another, and looks up the weights of its words in both cells; a
word that loses its extreme costs a look at all objects of the cell.
"""

import numpy as np

from operators.indexes.core.growth import grown
from operators.indexes.dynamic import object_grid_kernels as kernels
from operators.indexes.dynamic.dynamic_index import Floats, Slots
from operators.indexes.dynamic.object_grid_kernels import Cells, Objects
from operators.indexes.dynamic.object_rows import COUNT, X, Y
from operators.indexes.dynamic.object_table import ObjectTable
from operators.indexes.topk.buffer_blocks import BLOCK_CLASSES, NEED, TOP
from operators.indexes.topk.frame import Frame

__all__ = ["ObjectGrid", "cells_of"]


def cells_of(spots: Floats, n: int) -> Slots:
    """Return the cells of places in the unit square, row by row."""
    at = np.clip((spots * n).astype(np.int32), 0, n - 1)
    return np.asarray(at[:, 1] * n + at[:, 0], np.int32)


class ObjectGrid:
    """Objects by cell.

    Attributes:
        n: cells to a side.
        cell_of: the cell of each object, by slot; -1 for none.
    """

    def __init__(self, objects: ObjectTable, frame: Frame, n: int) -> None:
        self.n = n
        self._objects, self._frame = objects, frame
        self._heads = np.zeros((n * n, 3), np.int64)
        self._rows: Slots = np.empty(64, np.int32)
        self._entries = np.full((64, 4), -1, np.int64)
        self._free, self._blocks = np.full(BLOCK_CLASSES, -1, np.int64), np.zeros(3, np.int64)
        self._used = np.zeros(1, np.int64)
        self.cell_of: Slots = np.empty(0, np.int32)
        self._place: Slots = np.empty(0, np.int32)

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        lists = self._heads.nbytes + 4 * int(self._blocks[TOP]) + 8 * self._objects.top
        return lists + self._entries.nbytes

    def columns(self) -> Objects:
        """Return the columns of objects for kernels, as they are now."""
        table = self._objects
        return Objects(table.lines, table.parts, table.long, table.idf, table.first_seen)

    def cells(self) -> Cells:
        """Return the columns of cells for kernels, as they are now."""
        return Cells(self._heads, self._rows, self._entries, self._entries.view(np.float64))

    def leave(self, objects: Slots) -> None:
        """Take objects out, whose states are those that they came with."""
        kernels.leave(
            objects, self.columns(), self.cells(), self.cell_of, self._place, self._free, self._blocks, self._used
        )

    def enter(self, objects: Slots) -> None:
        """Put objects into their cells."""
        table = self._objects
        if table.top > len(self.cell_of):
            had = len(self.cell_of)
            self.cell_of, self._place = grown(self.cell_of, 2 * table.top), grown(self._place, 2 * table.top)
            self.cell_of[had:] = -1
        lines = table.lines
        where = cells_of(self._frame.spots(lines[objects, X], lines[objects, Y]), self.n)
        longest, done = int(table.parts[objects, COUNT].max(initial=0)), 0
        while True:
            done = int(kernels.enter(
                done, objects, where, self.columns(), self.cells(), self.cell_of, self._place, self._free, self._blocks,
                self._used,
            ))  # fmt: skip
            if done == len(objects):
                return
            self._grow(longest)

    def _grow(self, words: int) -> None:
        if self._blocks[NEED] > 0:
            self._rows = grown(self._rows, 2 * len(self._rows) + int(self._blocks[NEED]))
            self._blocks[NEED] = 0
        if (int(self._used[0]) + words) * 10 > len(self._entries) * kernels.FULLEST:
            larger = np.full((2 * (len(self._entries) + words), 4), -1, np.int64)
            kernels.rehash(self._entries, larger)
            self._entries = larger
