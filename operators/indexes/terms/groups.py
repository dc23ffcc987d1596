"""SSTD's index of CTQs (section 6.1): groups of queries, a common table of terms for each, an individual one for each query.

The paper's common table has the term frequencies in the intersection of all regions of a group, and leaves open how
groups are made and what happens to the tables when a region comes that makes the intersection smaller. Here the corners
of regions are rounded to steps of a fraction of their side, regions with the same rounded corners are a group, and its
common region is the box that all such regions contain: it never changes. Tables are as of one time, so queries with
different windows, whose objects leave at different times, are in different groups. Regions without such a box (circles
on the globe, polygons, queries with keywords) have an individual table only.

A range index finds the tables that an object concerns. A query that comes when there are objects already is counted from
all of them: a pass over the window for every batch of registrations.
"""

from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from operators.indexes.core.growth import grown
from operators.indexes.core.query_table import QueryTable
from operators.indexes.core.standing_queries import plain
from operators.indexes.range.range_index import RangeIndex
from operators.indexes.range.registry import make_range_index
from operators.indexes.terms.brute_force import counted_plainly
from operators.indexes.terms.group_kernels import (
    DONE,
    NEEDS_ENTERING,
    NEEDS_ITEMS,
    NEEDS_LEAVING,
    move_tables,
    slide,
)
from operators.indexes.terms.term_window import TermWindow
from operators.indexes.terms.terms_index import Asked, Counts
from streams.batches import FOREVER, NO_WINDOW, OP_REGISTER, TYPE_RANGE, ObjectBatch, QueryBatch
from streams.columns import Ids, csr_places, distinct
from streams.geometry import REGION_CIRCLE, REGION_NONE, REGION_RECT

__all__ = ["Groups"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Slots = NDArray[np.int32]

#: Objects whose tables are looked up at a time.
TOGETHER = 2048
#: Tables live from before all objects: lifetimes are the business of whoever asks.
ALWAYS = -(1 << 61)
#: The box of a table that counts everything.
NOTHING = (np.inf, np.inf, -np.inf, -np.inf)
#: A circle holds the square with so many times its radius on each side of the centre.
INSCRIBED = 0.7

_NONE: Ints = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class _Passing:
    """Objects on their way into tables, or out of them: rows from `first` on, and the tables of each."""

    first: int
    objects: ObjectBatch
    off: Ints
    tables: Ints

    def columns(self) -> Any:
        """Return them as `slide` wants them."""
        o = self.objects
        places = plain(o.x, np.float64), plain(o.y, np.float64)
        return self.first, *places, plain(o.kw_off, np.int32), plain(o.kw, np.int64), self.off, self.tables


class _Class:
    """The tables of queries with the same window: which objects they have taken in, and which have left them again."""

    def __init__(self, index: RangeIndex, row: int) -> None:
        self.index = index
        self.entered = self.left = row
        self.groups: dict[tuple[float, ...], tuple[int, int]] = {}  # key -> table, members


class Groups:
    """The structure of the paper.

    Options:
        steps: the corners of regions of one group are within one step of each other, so many of which make up their side.
        index: the range index that finds the tables of objects.
    """

    def __init__(self, table: QueryTable, window: TermWindow, steps: int = 4, index: str = "kag") -> None:
        self._table, self._window, self._steps, self._name = table, window, steps, index
        self._classes: dict[int, _Class] = {}
        #: By slot: its table, its group's (-1: none), its window.
        self._of: Ints = np.empty((0, 3), np.int64)
        #: By table: as in `group_kernels`.
        self._at: Ints = np.empty(0, np.int64)
        self._room: Ints = np.empty(0, np.int64)
        self._used: Ints = np.empty(0, np.int64)
        self._spared: Floats = np.empty((0, 4))
        self._tables, self._free = 0, [_NONE]
        self._key: Ints = np.empty(0, np.int64)
        self._value: Slots = np.empty(0, np.int32)
        self._top = 0
        self._hist: Slots = np.zeros(0, np.int32)
        self._items = 4096
        #: A table that is always empty: for who has nothing to ask, but lets time go by.
        self._empty = self._new_tables(1)

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        indexes = sum(one.index.nbytes for one in self._classes.values())
        return int(24 * self._table.roster.top + 56 * self._tables + 12 * self._top + self._hist.nbytes + indexes)

    # --- queries -----------------------------------------------------------------------------------------------------

    def add(self, slots: Slots) -> None:
        """Give queries their tables, and count the objects that the tables of their windows have taken in."""
        if self._table.roster.top > len(self._of):
            self._of = grown(self._of, 3 * self._table.roster.top + 64)
        queries = self._table.batch(slots)
        for window in distinct(queries.window).tolist():
            if window not in self._classes:
                made = make_range_index(self._name, self._table.space, self._table.metric, (1, 1))
                self._classes[window] = _Class(made, self._window.first)
            rows = np.flatnonzero(queries.window == window)
            self._add_to(self._classes[window], window, slots[rows], queries.take(rows))

    def _add_to(self, into: _Class, window: int, slots: Slots, queries: QueryBatch) -> None:
        own = self._new_tables(len(slots))
        boxes = self._common_boxes(queries)
        common = np.full(len(slots), -1, np.int64)
        fresh: list[tuple[int, tuple[float, ...]]] = []
        for row in np.flatnonzero(boxes[:, 0] <= boxes[:, 2]).tolist():
            key = tuple(boxes[row].tolist())
            if key not in into.groups:
                into.groups[key] = int(self._new_tables(1)[0]), 0
                fresh.append((into.groups[key][0], key))
            table, members = into.groups[key]
            into.groups[key] = table, members + 1
            common[row] = table
        self._spared[own] = boxes
        self._of[slots] = np.column_stack([own, common, np.full(len(slots), window)])
        groups = np.array([table for table, _ in fresh], np.int64)
        shape = np.array([key for _, key in fresh]).reshape(-1, 4)
        plain_queries = [_standing(queries, own), _boxes(groups, shape)]
        filed = [one for one in plain_queries if len(one)]
        for one in filed:
            into.index.insert(one)
        if into.entered > into.left:
            self._count_past(into, filed)

    def _common_boxes(self, queries: QueryBatch) -> Floats:
        """Return the box that all regions contain whose corners are rounded to the same, `NOTHING` where there is none."""
        low_x, low_y, high_x, high_y = (queries.shape[:, i].copy() for i in range(4))
        circle = (queries.region == REGION_CIRCLE) & (self._table.metric == "euclidean")
        half = INSCRIBED * queries.shape[:, 2]
        for low, high, axis in ((low_x, high_x, 0), (low_y, high_y, 1)):
            low[circle] = (queries.shape[:, axis] - half)[circle]
            high[circle] = (queries.shape[:, axis] + half)[circle]
        side = np.maximum(high_x - low_x, high_y - low_y)
        wordless = (np.diff(queries.kw_off) == 0) & (np.diff(queries.none_off) == 0)
        usable = (circle | (queries.region == REGION_RECT)) & wordless & (side > 0) & (side < np.inf)
        _, exponent = np.frexp(np.where(usable, side, 1.0))
        step = np.ldexp(1.0, exponent - 1) / self._steps
        edges = [(np.floor(low_x / step) + 1) * step, (np.floor(low_y / step) + 1) * step]
        boxes = np.column_stack([*edges, np.floor(high_x / step) * step, np.floor(high_y / step) * step])
        usable &= (boxes[:, 0] <= boxes[:, 2]) & (boxes[:, 1] <= boxes[:, 3])
        boxes[~usable] = NOTHING
        whole = (queries.region == REGION_NONE) & wordless
        boxes[whole] = (-np.inf, -np.inf, np.inf, np.inf)
        return boxes

    def _new_tables(self, count: int) -> Ints:
        again = np.concatenate(self._free)
        fresh = np.arange(self._tables, self._tables + max(count - len(again), 0))
        tables, self._free = np.concatenate([again[:count], fresh]), [again[count:]]
        self._tables += len(fresh)
        if self._tables > len(self._at):
            for name in ("_at", "_room", "_used", "_spared"):
                setattr(self, name, grown(getattr(self, name), 2 * self._tables + 64))
        self._at[tables] = self._room[tables] = self._used[tables] = 0
        self._spared[tables] = NOTHING
        return tables

    def _count_past(self, into: _Class, filed: list[QueryBatch]) -> None:
        """Count what the tables of a class have taken in already, for new ones."""
        index = make_range_index(self._name, self._table.space, self._table.metric, (1, 1))
        for one in filed:
            index.insert(one)
        self._let_pass(_Class(index, into.left), into.left, into.entered)

    def discard(self, slots: Slots) -> Slots:
        """Remove queries with their tables, and groups with their last member."""
        for slot, (own, common, window) in zip(slots.tolist(), self._of[slots].tolist(), strict=True):
            into = self._classes[window]
            gone = [own]
            if common >= 0:
                key = tuple(self._spared[own].tolist())
                table, members = into.groups.pop(key)
                if members > 1:
                    into.groups[key] = table, members - 1
                else:
                    gone.append(common)
            into.index.remove(np.array(gone, np.int64))
            self._free.append(np.array(gone, np.int64))
            self._room[gone] = 0
            if not len(into.index):
                del self._classes[window]
            self._of[slot] = -1
        return slots

    # --- objects -----------------------------------------------------------------------------------------------------

    def append(self, first: int) -> None:
        """Do nothing: objects enter tables when an answer needs them."""

    def forget(self, first: int) -> None:
        """Let objects leave the tables that have them still."""
        for into in self._classes.values():
            if into.left < first:
                self._let_pass(into, min(first, into.entered), into.entered)
                into.left, into.entered = first, max(first, into.entered)

    def _let_pass(self, into: _Class, begin: int, end: int) -> None:
        """Let the tables of a class have the objects of some rows."""
        self._slide(into, self._empty, self._empty, np.array([begin]), np.array([end]), np.ones(1, np.int32), _YES)

    # --- answers -----------------------------------------------------------------------------------------------------

    def count(self, asked: Asked) -> Counts:
        """Let time go by for the tables of each window, and add up the two tables of each query when it is due."""
        order, offs, terms, counts = [_NONE], [np.zeros(1, np.int64)], [_NONE], [_NONE]
        examined = 0
        windows = self._of[asked.slots, 2]

        def add(rows: Ints, off: Ints, term: Ints, count: Ints) -> None:
            order.append(rows)
            offs.append(off[1:] + offs[-1][-1])
            terms.append(term)
            counts.append(count)

        for window in distinct(windows).tolist():
            into, rows = self._classes[window], np.flatnonzero(windows == window)
            late = (asked.stop[rows] < into.entered) | (asked.first[rows] < into.left)
            for row in rows[late].tolist():
                term, count, _ = counted_plainly(self._table, self._window, asked, row)
                add(np.array([row]), np.array([0, len(term)]), term, count)
            rows = rows[~late]
            if len(rows):
                rows = rows[np.lexsort((asked.first[rows], asked.stop[rows]))]
                own, common, _ = self._of[asked.slots[rows]].T.copy()
                some = asked.take(rows)
                off, term, count, seen = self._slide(into, own, common, some.first, some.stop, some.k, some.whole)
                add(rows, off, term, count)
                examined += seen
        back = np.empty(len(asked), np.int64)
        back[np.concatenate(order)] = np.arange(len(asked))
        whole_off, source = csr_places(np.concatenate(offs).astype(np.int32), back)
        found = np.concatenate(terms)[source], np.concatenate(counts)[source]
        return Counts(whole_off.astype(np.int64), *found, examined, examined)

    def _slide(
        self, into: _Class, own: Ints, common: Ints, begin: Ints, end: Ints, k: Slots, whole: NDArray[np.bool_]
    ) -> tuple[Ints, Ints, Ints, int]:
        """Answer in the order of time; return lists, and the pairs of objects and tables on the way."""
        if self._window.stop - into.left + 2 > len(self._hist):
            self._hist = np.zeros(2 * (self._window.stop - into.left) + 64, np.int32)
        state = np.array([into.entered, 0, into.left, 0, self._top, 0], np.int64)
        off = np.zeros(len(own) + 1, np.int64)
        term, count = np.empty(self._items, np.int64), np.empty(self._items, np.int64)
        entering = self._passing(into, into.entered, int(end[-1]))
        leaving = self._passing(into, into.left, int(begin[-1]))
        examined = len(entering.tables) + len(leaving.tables)
        while True:
            passing = (*entering.columns(), *leaving.columns())
            why = cast(Any, slide)(
                state, own, common, begin, end, k, whole, *passing, self._spared, self._key, self._value, self._at,
                self._room, self._used, self._hist, off, term, count,
            )  # fmt: skip
            self._top = int(state[4])
            if why == DONE:
                break
            if why == NEEDS_ENTERING:
                entering = self._passing(into, int(state[0]), int(end[-1]))
                examined += len(entering.tables)
            elif why == NEEDS_LEAVING:
                leaving = self._passing(into, int(state[2]), int(begin[-1]))
                examined += len(leaving.tables)
            elif why == NEEDS_ITEMS:
                self._items = 2 * len(term) + 2 * int(self._room[: self._tables].max())
                term, count = grown(term, self._items), grown(count, self._items)
            else:
                self._enlarge()
                state[4] = self._top
        into.entered, into.left = int(state[0]), int(state[2])
        return off, term[: off[-1]], count[: off[-1]], examined

    def _passing(self, into: _Class, first: int, stop: int) -> _Passing:
        """Return the next objects from a row on, at most up to another, with their tables."""
        objects = self._window.objects(first, min(first + TOGETHER, stop)) if first < stop else ObjectBatch.empty()
        matches = into.index.match(objects)
        return _Passing(first, objects, matches.off, matches.number)

    def _enlarge(self) -> None:
        """Write the tables into a pool with room for as much again; what they left behind when they moved goes."""
        tables = np.flatnonzero(self._room[: self._tables])
        room = 2 * int(self._room[tables].sum()) + 4096
        key, value = np.empty(room, np.int64), np.empty(room, np.int32)
        self._top = int(move_tables(tables, self._key, self._value, key, value, self._at, self._room))
        self._key, self._value = key, value


_YES = np.ones(1, np.bool_)


def _standing(queries: QueryBatch, tables: Ints) -> QueryBatch:
    """Return queries as a range index holds them, with their tables as numbers."""
    count = len(queries)
    return replace(
        queries, number=tables, target=tables, ts=np.full(count, ALWAYS), end=np.full(count, FOREVER),
        type=np.full(count, TYPE_RANGE, np.uint8), k=np.zeros(count, np.int32), window=np.full(count, NO_WINDOW),
        slide=np.zeros(count, np.int64),
    )  # fmt: skip


def _boxes(tables: Ints, shape: Floats) -> QueryBatch:
    """Return the common regions of groups in the same way."""
    count = len(tables)
    whole = np.isinf(shape[:, 0])
    return QueryBatch(
        number=tables, target=tables, op=np.full(count, OP_REGISTER, np.uint8), ts=np.full(count, ALWAYS),
        end=np.full(count, FOREVER), type=np.full(count, TYPE_RANGE, np.uint8), continuous=np.ones(count, np.bool_),
        match_any=np.zeros(count, np.bool_), region=np.where(whole, REGION_NONE, REGION_RECT).astype(np.uint8),
        shape=np.where(whole[:, None], 0.0, shape), k=np.zeros(count, np.int32), alpha=np.zeros(count),
        window=np.full(count, NO_WINDOW, np.int64), slide=np.zeros(count, np.int64), detect=np.zeros(count, np.uint8),
        kw_off=np.zeros(count + 1, np.int32), kw=_NONE, ids=Ids("int", tables),
    )  # fmt: skip
