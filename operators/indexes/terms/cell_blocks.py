"""The objects of a window in the order of cells, in blocks by time: so any region over any range of rows is a few short runs.

Blocks are of several sizes, each a multiple of the one before. New objects are sorted into the open block of the
smallest size with every batch; when a block of a larger size is complete, its objects are sorted once more for it.
Smaller ones stay, so a range of rows is divided exactly. Words are small numbers, which are used again when no object
has them any more.
"""

from collections.abc import Sequence
from typing import Any

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
        self.x: Floats = np.empty((levels, 0))
        self.y: Floats = np.empty((levels, 0))
        self.row: Slots = np.empty((levels, 0), np.int32)
        self.starts: Slots = np.empty(0, np.int32)
        self.word_off: Ints = np.zeros(1, np.int64)
        self.words: Slots = np.empty(0, np.int32)
        self._spare: tuple[Any, ...] = ()

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        rows = self.stop - self.base
        return int(20 * len(self.geometry) * rows + self.starts.nbytes + 8 * rows + 4 * self.word_off[rows])

    def append(self, objects: ObjectBatch) -> None:
        """Take in objects, as the next rows."""
        count, used = len(objects), self.stop - self.base
        numbers = self._terms.number(plain(objects.kw, np.int64))
        self._reserve(used + count, int(self.word_off[used]) + len(numbers))
        head = int(self.word_off[used])
        self.word_off[used + 1 : used + count + 1] = head + objects.kw_off[1:]
        self.words[head : head + len(numbers)] = numbers
        self.x[0, used : used + count], self.y[0, used : used + count] = objects.x, objects.y
        self.row[0, used : used + count] = np.arange(used, used + count)
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
        sort_block(
            level, start, stop, max(level - 1, 0), self.geometry, self.scale, self.x, self.y, self.row, self.starts,
            *self._spare,
        )  # fmt: skip

    def _reserve(self, rows: int, words: int) -> None:
        """Make room for so many rows and words."""
        if words > len(self.words):
            self.words = grown(self.words[: self.word_off[self.stop - self.base]], words + words // 2 + 64)
        if rows > self.x.shape[1]:
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
        self.x, self.y, self.row = (_cut(array, gone, rows, room) for array in (self.x, self.y, self.row))
        self.row[:, : rows - gone] -= np.int32(gone)
        self.geometry[:, SEALED] = np.maximum(self.geometry[:, SEALED] - gone, 0)
        self.word_off = grown(self.word_off, room + 1)
        if not self._spare:
            self._spare = (np.empty(largest), np.empty(largest), np.empty(largest, np.int32))


def _cut(array: NDArray[Any], first: int, stop: int, room: int) -> NDArray[Any]:
    """Return some columns of an array, with room for more."""
    cut = np.empty((len(array), room), array.dtype)
    cut[:, : stop - first] = array[:, first:stop]
    return cut
