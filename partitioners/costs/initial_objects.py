"""O_init: the objects at hand when subscriptions are divided, and what DkM-SKS asks of them.

Three questions are answered exactly: |O_lambda| (Section 3.1), |O_{R,lambda}| and |O_R| (Sections 3.2 and 4.1), and the
radius of the ball B(s), the distance of a subscription to its kth nearest object of O_init.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partitioners.columns import Floats, Ints, Offsets, Points, Regions, check_range, column
from partitioners.costs import object_kernels as kernels
from streams.errors import InputError

__all__ = ["MAX_INITIAL_OBJECTS", "InitialObjects"]

#: The paper uses a million objects; a bound on the memory of a main server.
MAX_INITIAL_OBJECTS = 4_000_000

#: Objects a cell on average, and lists so short that they need no cells: short runs to scan, few cells to visit.
_CELL_OBJECTS = 4
_PLAIN_LIST = 16


@dataclass(frozen=True, slots=True, eq=False)
class InitialObjects:
    """Objects by keyword, each keyword with a grid of its own.

    `words` are the keywords that occur, ascending; list i is that of words[i], the last one, without a word, is of all
    objects. `partitioners.costs.object_kernels` has the layout of the rest.
    """

    kw_off: Offsets
    kw: Ints
    words: Ints
    list_off: Ints
    box: Floats
    side: Ints
    first_cell: Ints
    start: Ints
    row: NDArray[np.int32]
    x: Floats
    y: Floats

    @classmethod
    def of(cls, x: Floats, y: Floats, kw_off: Offsets, kw: Ints) -> "InitialObjects":
        """Sort objects into lists and cells."""
        p = Points.of(x, y, kw_off, kw)
        if len(p.x) > MAX_INITIAL_OBJECTS:
            raise InputError(f"O_init has {len(p.x):,} objects, at most {MAX_INITIAL_OBJECTS:,}; draw a sample")
        words, place = np.unique(p.kw, return_inverse=True)
        row = np.repeat(np.arange(len(p.x)), np.diff(p.kw_off))
        rows = np.concatenate([row, np.arange(len(p.x))])
        lists = np.concatenate([place, np.full(len(p.x), len(words))])
        size = np.bincount(lists, minlength=len(words) + 1)
        list_off = np.concatenate([[0], np.cumsum(size)])
        order = np.argsort(lists, kind="stable")
        box = _boxes(p.x[rows[order]], p.y[rows[order]], list_off)
        side = np.where(size <= _PLAIN_LIST, 1, np.sqrt(size / _CELL_OBJECTS).astype(np.int64))
        first_cell = np.concatenate([[0], np.cumsum(side * side)])
        cell = first_cell[lists] + kernels.list_cells(
            column(lists, np.int64), column(p.x[rows], np.float64), column(p.y[rows], np.float64),
            column(box, np.float64, 2), column(side, np.int64),
        )  # fmt: skip
        rows = rows[np.argsort(cell, kind="stable")]
        start = np.concatenate([[0], np.cumsum(np.bincount(cell, minlength=int(first_cell[-1])))])
        return cls(
            p.kw_off, p.kw, column(words, np.int64), column(list_off, np.int64), column(box, np.float64, 2),
            column(side, np.int64), column(first_cell, np.int64), column(start, np.int64), column(rows, np.int32),
            column(p.x[rows], np.float64), column(p.y[rows], np.float64),
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self.kw_off) - 1

    @property
    def grids(self) -> tuple[Ints, Floats, Ints, Ints, Ints]:
        """The columns that say where the objects of a list are, in the order in which kernels take them."""
        return self.list_off, self.box, self.side, self.first_cell, self.start

    def frequencies(self, kw: Ints) -> Floats:
        """Return P(lambda) = |O_lambda| / |O_init| of each keyword (Section 3.1); 0 where there are no objects."""
        lists = self.lists_of(kw)
        found = np.where(lists >= 0, self.list_off[lists + 1] - self.list_off[lists], 0)
        return np.asarray(found / max(len(self), 1))

    def lists_of(self, kw: Ints) -> Ints:
        """Return the list of each keyword, -1 where no object has it."""
        if not len(self.words):
            return np.full(len(kw), -1, np.int64)
        place = np.minimum(np.searchsorted(self.words, kw), len(self.words) - 1)
        return np.where(self.words[place] == kw, place, -1).astype(np.int64)

    def counts_within(self, rects: Floats, rect_of: Ints, kw: Ints | None) -> Ints:
        """Return |O_{R,lambda}| for pairs of a rectangle (a row of `rects`) and a keyword, |O_R| without keywords."""
        check_range("rect_of", rect_of, 0, len(rects))
        lists = np.full(len(rect_of), len(self.words)) if kw is None else self.lists_of(kw)
        found: Ints = kernels.counts_within(
            column(rects, np.float64, 2),
            column(rect_of, np.int64),
            column(lists, np.int64),
            *self.grids,
            self.x,
            self.y,
        )
        return found

    def kth_distances(
        self, x: Floats, y: Floats, kw_off: Offsets, kw: Ints, k: NDArray[np.integer], match_any: NDArray[np.bool_]
    ) -> Floats:
        """Return the radius of each ball B(s): the Euclidean distance of the kth nearest matching object.

        It is infinite where fewer than k objects match: then any new match enters the result.
        """
        at = Regions.of((x, y, x, y), kw_off, kw, match_any)
        if len(k) != len(at.at_x) or (np.asarray(k) < 1).any():
            raise InputError("every subscription needs a k of at least 1")
        # A k beyond all objects is never reached, whatever its size.
        most = column(np.minimum(k, len(self) + 1), np.int64)
        found: Floats = kernels.kth_distances(
            at.min_x, at.min_y, at.kw_off, at.kw, column(self.lists_of(at.kw), np.int64), most, at.match_any,
            *self.grids, self.row, self.x, self.y, self.kw_off, self.kw,
        )  # fmt: skip
        return found


def _boxes(x: Floats, y: Floats, list_off: Ints) -> Floats:
    """Return the box of each list; that of an empty one holds nothing."""
    filled = np.flatnonzero(np.diff(list_off))
    box = np.tile(np.array([np.inf, np.inf, -np.inf, -np.inf]), (len(list_off) - 1, 1))
    first = list_off[filled]
    for edge, values, reduce in ((0, x, np.minimum), (1, y, np.minimum), (2, x, np.maximum), (3, y, np.maximum)):
        if len(filled):
            box[filled, edge] = reduce.reduceat(values, first)
    return box
