"""The search for the nearest objects of `knn` queries: columns of queries, and the kernel over the keyword grids."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from operators.indexes.core.query_table import SAID_ANY
from operators.indexes.dynamic.dynamic_index import Floats, Lot, Slots
from operators.indexes.dynamic.keyword_grids import KeywordGrids
from operators.indexes.dynamic.nearest_queries import NearestQueries
from operators.indexes.dynamic.nearest_search_kernels import search_nearest
from operators.indexes.dynamic.object_table import ObjectTable
from operators.indexes.dynamic.search_lots import search_lots
from operators.indexes.topk.frame import frame_of
from operators.indexes.topk.globe_answers import GLOBE_ERROR
from streams.columns import Ints
from streams.geometry import EARTH_RADIUS_M, distance

__all__ = ["NearestSearch"]


class NearestSearch:
    """Keyword grids over objects, and a grid of all of them, for queries by distance."""

    def __init__(self, objects: ObjectTable, queries: NearestQueries) -> None:
        self._objects, self._queries = objects, queries
        table = queries.table
        self._globe = table.metric != "euclidean"
        self._frame = frame_of(table.space, table.metric)
        self._grids = KeywordGrids(objects, self._frame, all_objects=True)
        self._unit = self._frame.scale * (EARTH_RADIUS_M if self._globe else 1.0)
        self._position: Slots = np.zeros(0, np.int32)
        self._work: Ints = np.zeros(1, np.int64)
        self.add, self.discard = self._grids.add, self._grids.discard
        #: What distances by the kernel may differ from the definition's.
        self.error = GLOBE_ERROR * EARTH_RADIUS_M if self._globe else 0.0

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
        shape = self._queries.table.shape
        return slots[np.argsort(self._frame.coarse(shape[slots, 0], shape[slots, 1]))]

    def found(self, slots: Slots, wanted: Ints, _floors: Floats, limits: Floats, cuts: Ints) -> Iterator[Lot]:
        """Yield what was found for some queries after the others; rings begin at the query, so no floor is needed."""
        table, objects, grids = self._queries.table, self._objects, self._grids
        if objects.words.top > len(self._position):
            self._position = np.zeros(2 * objects.words.top, np.int32)
        places = np.ascontiguousarray(table.shape[slots])
        off, own = table.words_of(slots)
        none_off, none = table.residuals.none_of(slots)
        columns = (
            places, self._frame.spots(places[:, 0], places[:, 1]), off, objects.words.find(table.words.raw[own]),
            table.traits[slots] & SAID_ANY == 0, none_off, objects.words.find(none), limits, cuts, wanted,
        )  # fmt: skip
        states = (
            objects.lines, objects.parts, objects.long, objects.first_seen, grids.words, grids.heads, grids.records,
            grids.records.view(np.int32), self._position, self._unit, self._globe,
        )  # fmt: skip
        kernel: Any = search_nearest
        yield from search_lots(wanted, lambda first, *out: kernel(first, *columns, *states, *out, self._work))

    def exact(self, slots: Slots, _ends: Ints, found: Slots, row: Ints) -> Floats:
        """Return the negative distances of objects that were found, by the definition."""
        at, place = self._objects.lines[found], self._queries.table.shape[slots][row]
        return -distance(at[:, 0], at[:, 1], place[:, 0], place[:, 1], self._queries.table.metric)
