"""Keyword grids over objects: where a list that has run short looks for more.

An object is filed under each of its keywords, in a grid of that keyword's own, which grows finer with the objects it has.

Costs: 16 bytes an object and keyword, with a third of room to spare, and a cell of 12 bytes for twelve of them.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from operators.indexes.core.growth import grown
from operators.indexes.core.words import EVERY_OBJECT
from operators.indexes.dynamic import keyword_cells as cells
from operators.indexes.dynamic.dynamic_index import Slots
from operators.indexes.dynamic.object_rows import NORM, X, Y
from operators.indexes.dynamic.object_table import ObjectTable
from operators.indexes.topk.frame import Frame
from streams.columns import Ints

__all__ = ["KeywordGrids"]


class KeywordGrids:
    """The states of a table by keyword and place.

    Args:
        objects: the table.
        frame: the unit square that places are mapped to.
        all_objects: whether there is a grid of all objects besides, those without keywords included: that of `EVERY_OBJECT`.
    """

    def __init__(self, objects: ObjectTable, frame: Frame, *, all_objects: bool = False) -> None:
        self._objects, self._frame, self._all_objects = objects, frame, all_objects
        self.words: Ints = np.zeros((0, 3), np.int64)
        self.heads: Ints = np.zeros(0, np.int64)
        self.peaks: NDArray[np.float32] = np.zeros(0, np.float32)
        self.records: NDArray[np.float32] = np.zeros((0, 4), np.float32)
        self._pool: Ints = np.full(1 + cells.CLASSES, -1, np.int64)
        self._space: Ints = np.full(1 + cells.LEVELS, -1, np.int64)
        self._pool[0] = self._space[0] = 0

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        return int(16 * self._pool[0] + 12 * self._space[0] + 24 * self._objects.words.top)

    @property
    def _arrays(self) -> tuple[Any, ...]:
        return self.words, self.heads, self.peaks, self.records, self.records.view(np.int32), self._pool

    def _postings(self, slots: Slots) -> tuple[Slots, Slots, Any]:
        """Return words and rows of postings, by word, so that one grid is looked at at a time, and the places of rows."""
        off, words = self._objects.words_of(slots)
        rows = np.repeat(np.arange(len(slots), dtype=np.int32), np.diff(off))
        if self._all_objects:
            words = np.concatenate([np.full(len(slots), EVERY_OBJECT, np.int32), words])
            rows = np.concatenate([np.arange(len(slots), dtype=np.int32), rows])
        lines = self._objects.lines
        spots = self._frame.spots(lines[slots, X], lines[slots, Y]).astype(np.float32)
        return words, rows, spots

    def add(self, slots: Slots) -> None:
        """File objects."""
        words, rows, spots = self._postings(slots)
        self._reserve(words)
        norm = self._objects.lines[slots, NORM]
        inverse = np.divide(1.0, norm, out=np.zeros(len(norm)), where=norm > 0.0).astype(np.float32)
        done = 0
        while (done := cells.add(done, slots, words, rows, spots, inverse, *self._arrays)) < len(words):
            self._more_records(len(words) - done)

    def discard(self, slots: Slots) -> None:
        """Take objects out, whose states are in the table still."""
        words, rows, spots = self._postings(slots)
        lost = cells.discard(slots, words, rows, spots, *self._arrays)
        assert not lost, f"{lost} postings of objects are not where they were filed"

    def _reserve(self, words: Slots) -> None:
        """Give words grids that will do."""
        top = self._objects.words.top
        if top > len(self.words):  # `EVERY_OBJECT` is below the top of any table
            had = len(self.words)
            self.words = grown(self.words, 2 * top + 16)
            self.words[had:] = -1, 0, 0
        coming, more = np.unique(words, return_counts=True)
        done = 0
        while (done := cells.finer(done, coming, more, *(*self._arrays, self._space))) < len(coming):
            need = 4 * int(self.words[coming[done], cells.HELD] + more[done])
            if self._space[0] + need + 64 > len(self.heads):
                room = int(2 * self._space[0] + need + 1024)
                self.heads, self.peaks = grown(self.heads, room), grown(self.peaks, room)
            self._more_records(need + 64)

    def _more_records(self, need: int) -> None:
        if self._pool[0] + 4 * need > len(self.records):
            self.records = grown(self.records, int(3 * self._pool[0] // 2) + 8 * need + 1024)
