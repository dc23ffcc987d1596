"""The search for the best objects of `topk` queries: columns of queries, and the kernel over the keyword grids."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from operators.indexes.dynamic.dynamic_index import Floats, Lot, Slots
from operators.indexes.dynamic.keyword_grids import KeywordGrids
from operators.indexes.dynamic.object_table import ObjectTable
from operators.indexes.dynamic.refill_search import likeness, search
from operators.indexes.dynamic.search_lots import search_lots
from operators.indexes.topk.frame import frame_of
from operators.indexes.topk.globe_answers import GLOBE_ERROR
from operators.indexes.topk.scored_table import ALPHA, NORM
from operators.indexes.topk.subscriptions import ScoredSubscriptions
from streams.columns import Ints
from streams.geometry import EARTH_RADIUS_M, distance

__all__ = ["ScoredSearch"]


class ScoredSearch:
    """Keyword grids over objects, for queries by score."""

    def __init__(self, objects: ObjectTable, queries: ScoredSubscriptions) -> None:
        self._objects, self._queries = objects, queries
        table = queries.table
        self._frame = frame_of(table.space, table.metric)
        self._globe = table.metric != "euclidean"
        self._grids = KeywordGrids(objects, self._frame)
        self._position: Slots = np.zeros(0, np.int32)
        self._work: Ints = np.zeros(1, np.int64)
        self.add, self.discard = self._grids.add, self._grids.discard
        #: What scores by the kernel may differ from the definition's.
        self.error = GLOBE_ERROR * max(1.0, EARTH_RADIUS_M / table.max_distance) if self._globe else 0.0

    @property
    def examined(self) -> int:
        """Cells and objects that were looked at."""
        return int(self._work[0])

    @property
    def nbytes(self) -> int:
        """Bytes of the grids."""
        return self._grids.nbytes

    def near(self, slots: Slots) -> Slots:
        """Return queries along rows of a coarse grid: neighbours look at the same cells."""
        lines = self._queries.table.lines
        return slots[np.argsort(self._frame.coarse(lines[slots, 0], lines[slots, 1]))]

    def _words_of(self, slots: Slots) -> tuple[Slots, Slots]:
        """Return the words of queries as the objects have them, -1 where none has one."""
        off, own = self._queries.table.words_of(slots)
        return off, self._objects.words.find(self._queries.table.words.raw[own])

    def found(self, slots: Slots, wanted: Ints, floors: Floats, limits: Floats, cuts: Ints) -> Iterator[Lot]:
        """Yield what was found for some queries after the others."""
        table, objects, grids = self._queries.table, self._objects, self._grids
        if objects.words.top > len(self._position):
            self._position = np.zeros(2 * objects.words.top, np.int32)
        places = np.ascontiguousarray(table.lines[slots, :2])
        alpha, norm = table.lines[slots, ALPHA], table.lines[slots, NORM]
        columns = (
            floors, places, self._frame.spots(places[:, 0], places[:, 1]), alpha, norm, *self._words_of(slots), limits, cuts,
            wanted,
        )  # fmt: skip
        states = (
            objects.lines, objects.parts, objects.long, objects.idf, objects.first_seen, grids.words, grids.heads,
            grids.peaks, grids.records, grids.records.view(np.int32), self._position, table.max_distance,
            self._frame.diagonal, self._globe,
        )  # fmt: skip
        kernel: Any = search
        yield from search_lots(wanted, lambda first, *out: kernel(first, *columns, *states, *out, self._work))

    def exact(self, slots: Slots, ends: Ints, found: Slots, row: Ints) -> Floats:
        """Return the scores of objects that were found, by the definition."""
        table, objects = self._queries.table, self._objects
        alike = np.empty(len(found))
        likeness(
            table.lines[slots, NORM], *self._words_of(slots), objects.lines, objects.parts, objects.long, objects.idf,
            self._grids.words, self._position, ends, found, alike,
        )  # fmt: skip
        at, lines = objects.lines[found], table.lines[slots][row]
        far = distance(at[:, 0], at[:, 1], lines[:, 0], lines[:, 1], table.metric)
        return lines[:, ALPHA] * (1.0 - far / table.max_distance) + (1.0 - lines[:, ALPHA]) * alike
