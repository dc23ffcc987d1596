"""The objects of a window in the order of cells, in blocks by time: so any region over any range of rows is a few short runs.

Blocks are of several sizes, each a multiple of the one before. New objects are sorted into the open block of the
smallest size with every batch; when a block of a larger size is complete, its objects are sorted once more for it.
Smaller ones stay, so a range of rows is divided exactly. Words are small numbers, which are used again when no object
has them any more.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from operators.indexes.core.growth import grown
from operators.indexes.core.standing_queries import plain
from operators.indexes.core.words import Words
from operators.indexes.terms.candidate_kernels import AT, SEALED, SIDE, SIZE, sort_block
from streams.batches import ObjectBatch
from streams.errors import DeclarationError
from streams.geometry import Rect

__all__ = ["CellBlocks"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Slots = NDArray[np.int32]

#: Objects of a cell of a full block, about.
IN_A_CELL = 2


class CellBlocks:
    """Rows of objects by cell, and their words; layout in `candidate_kernels`.

    Attributes:
        base: the row that the arrays begin with.
        stop: one more than the last row.
    """

    def __init__(self, space: Rect, terms: Words, sizes: Sequence[int]) -> None:
        if not sizes or any(size % smaller for smaller, size in zip((1, *sizes), sizes, strict=False)) or sizes[0] < 1:
            raise DeclarationError(
                f"sizes of blocks are {list(sizes)}, expected numbers each of which divides the next"
            )
        self._terms = terms
        width, height = space.max_x - space.min_x, space.max_y - space.min_y
        self.scale: Floats = np.array([space.min_x, space.min_y, 1 / width, 1 / height])
        self.geometry: Ints = np.zeros((len(sizes), 4), np.int64)
        self.geometry[:, SIZE] = sizes
        self.geometry[:, SIDE] = [max(1, 1 << (max(size // IN_A_CELL, 1).bit_length() - 1) // 2) for size in sizes]
        levels = len(sizes)
        self.base = self.stop = 0
        self.points: Floats = np.empty((levels, 0, 3))
        self.starts: Slots = np.empty(0, np.int32)
        self.word_off: Ints = np.zeros(1, np.int64)
        self.words: Slots = np.empty(0, np.int32)
        self._spare: Floats = np.empty((0, 3))

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        rows = self.stop - self.base
        return int(24 * len(self.geometry) * rows + self.starts.nbytes + 8 * rows + 4 * self.word_off[rows])

    def append(self, objects: ObjectBatch) -> None:
        """Take in objects, as the next rows."""
        count, used = len(objects), self.stop - self.base
        numbers = self._terms.number(plain(objects.kw, np.int64))
        self._reserve(used + count, int(self.word_off[used]) + len(numbers))
        head = int(self.word_off[used])
        self.word_off[used + 1 : used + count + 1] = head + objects.kw_off[1:]
        self.words[head : head + len(numbers)] = numbers
        fresh = self.points[0, used : used + count]
        fresh[:, 0], fresh[:, 1], fresh[:, 2] = objects.x, objects.y, np.arange(used, used + count)
        self.stop += count
        self._sort(used, used + count)

    def _sort(self, first: int, stop: int) -> None:
        """Sort the blocks that have grown, and larger ones that are complete."""
        smallest = int(self.geometry[0, SIZE])
        for start in range(first // smallest * smallest, stop, smallest):
            self._sort_one(0, start, min(start + smallest, stop))
        self.geometry[0, SEALED] = stop
        for level in range(1, len(self.geometry)):
            size = int(self.geometry[level, SIZE])
            for start in range(int(self.geometry[level, SEALED]), stop // size * size, size):
                self._sort_one(level, start, start + size)
                self.geometry[level, SEALED] = start + size

    def _sort_one(self, level: int, start: int, stop: int) -> None:
        source = max(level - 1, 0)
        sort_block(level, start, stop, source, self.geometry, self.scale, self.points, self.starts, self._spare)

    def _reserve(self, rows: int, words: int) -> None:
        """Make room for so many rows and words."""
        if words > len(self.words):
            self.words = grown(self.words[: self.word_off[self.stop - self.base]], words + words // 2 + 64)
        if rows > self.points.shape[1]:
            self._lay_out(0, rows + rows // 2 + 64)

    def forget(self, first: int) -> None:
        """Drop rows before one, as soon as half of all rows are such, in multiples of the largest block."""
        largest = int(self.geometry[-1, SIZE])
        gone = (first - self.base) // largest * largest
        rows = self.stop - self.base
        if gone and 2 * gone >= rows:
            head = int(self.word_off[gone])
            self._terms.release(self.words[:head])
            self.words = self.words[head : self.word_off[rows]].copy()
            self.word_off = self.word_off[gone : rows + 1] - head
            self._lay_out(gone, rows - gone)
            self.base += gone

    def _lay_out(self, gone: int, room: int) -> None:
        """Write all levels anew without the first rows, with room for so many, rounded up to whole blocks."""
        rows, sizes, largest = self.stop - self.base, self.geometry[:, SIZE], int(self.geometry[-1, SIZE])
        room = max(-(-room // largest), 1) * largest
        cells = self.geometry[:, SIDE] ** 2 + 1
        at = np.concatenate([[0], np.cumsum(room // sizes * cells)])
        starts = np.empty(int(at[-1]), np.int32)
        for level, size in enumerate(sizes.tolist()):
            count = (-(-rows // size) - gone // size) * int(cells[level])
            source = int(self.geometry[level, AT]) + gone // size * int(cells[level])
            starts[at[level] : at[level] + count] = self.starts[source : source + count]
        self.starts, self.geometry[:, AT] = starts, at[:-1]
        points = np.empty((len(sizes), room, 3))
        points[:, : rows - gone] = self.points[:, gone:rows]
        points[:, : rows - gone, 2] -= gone
        self.points = points
        self.geometry[:, SEALED] = np.maximum(self.geometry[:, SEALED] - gone, 0)
        self.word_off = grown(self.word_off, room + 1)
        if not len(self._spare):
            self._spare = np.empty((largest, 3))
