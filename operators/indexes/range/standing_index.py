"""A range index: a table of queries, a structure that finds them, and the bookkeeping between."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from operators.indexes.core.expiry import Expiry
from operators.indexes.core.query_table import ASLEEP, KIND, QueryTable, check_registrations, region_box
from operators.indexes.core.rare_columns import RARE_COLUMNS, saved_rare, whole_rare
from operators.indexes.core.structure import Bounds, Found, Probe, Structure
from operators.indexes.core.workload import Workload
from operators.indexes.range.range_index import Arrays, CellRange, Cost, Load, Matches
from partitioners.grids.fine_grid import FineGrid
from streams.batches import OP_REGISTER, OP_UPSERT, ObjectBatch, QueryBatch
from streams.columns import Ids, distinct
from streams.errors import InputError
from streams.geometry import REGION_CIRCLE, Metric, distance

__all__ = ["SAVED_COLUMNS", "StandingIndex", "registrations", "saved_columns"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Slots = NDArray[np.int32]

#: Queries are taken in by so many at a time, which bounds every scratch array.
CHUNK = 8192
#: The table is rebuilt when fewer than one row in so many is in use, and it has at least so many rows.
SPARSE, SMALLEST_REBUILD = 4, 4096


class StandingIndex:
    """A `RangeIndex` over any structure."""

    def __init__(
        self, structure: Callable[[QueryTable], Structure], grid: FineGrid, metric: Metric, by_cell: bool = False
    ) -> None:
        self._make = structure
        self._metric = metric
        self._work = Workload(grid, by_cell=by_cell)
        self._clear()

    def _clear(self) -> None:
        self._table = QueryTable(self._work.grid.space, self._metric)
        self._structure = self._make(self._table)
        self._expiry = Expiry()

    def __len__(self) -> int:
        return len(self._table)

    def __contains__(self, number: int) -> bool:
        return bool(self._table.roster.find(np.array([number], np.int64))[0] >= 0)

    def holds(self, numbers: Ints) -> NDArray[np.bool_]:
        """Tell of each number whether it is held."""
        return self._table.roster.holds(_plain(numbers, np.int64))

    def numbers(self) -> Ints:
        """Return the numbers of all queries held, in ascending order."""
        return np.sort(self._table.roster.numbers_of(self._table.roster.held()))

    def insert(self, queries: QueryBatch) -> None:
        """Add registrations."""
        if not len(queries):
            return
        queries = _plain_queries(queries)
        check_registrations(queries, self._table.roster)
        if len(queries) <= CHUNK:
            self._work.add(self._admit(queries), 1)
            return
        for start in range(0, len(queries), CHUNK):
            self._work.add(self._admit(_plain_queries(queries.slice(start, start + CHUNK))), 1)

    def _admit(self, queries: QueryBatch) -> Bounds:
        slots = self._table.admit(queries)
        bounds = region_box(queries.region, queries.shape, self._table.space, self._metric)
        self._structure.add(slots, bounds)
        self._expiry.note(queries.number, queries.end)
        return bounds

    def remove(self, numbers: Ints) -> int:
        """Drop queries at once."""
        slots = self._table.roster.withdraw(_plain(numbers, np.int64))
        self._drop(slots)
        return len(slots)

    def _drop(self, slots: Slots) -> None:
        """Remove queries that the roster has withdrawn."""
        if not len(slots):
            return
        bounds = self._table.bounds(slots)
        self._work.add(bounds, -1)
        reusable = self._structure.discard(slots, bounds)
        self._table.drop(slots)
        self._table.recycle(reusable)
        if self._table.roster.top > SPARSE * len(self._table) + SMALLEST_REBUILD:
            self._rebuild()

    def _rebuild(self) -> None:
        """Start afresh with the queries that are left, so that memory returns."""
        left, asleep = self._table.batch(np.sort(self._table.roster.held())), self.asleep()
        self._clear()
        for start in range(0, len(left), CHUNK):
            self._admit(_plain_queries(left.slice(start, start + CHUNK)))
        self.hush(asleep)

    def hush(self, numbers: Ints) -> int:
        """Let queries match nothing until they are woken up."""
        slots = self._found(numbers)
        self._table.hush(slots)
        return len(slots)

    def wake(self, numbers: Ints) -> int:
        """Let queries match again."""
        slots = self._found(numbers)
        self._table.wake(slots)
        return len(slots)

    def _found(self, numbers: Ints) -> Slots:
        """Return the slots of those of these queries that are held, each once."""
        slots = self._table.roster.find(_plain(numbers, np.int64))
        return distinct(slots[slots >= 0])

    def asleep(self) -> Ints:
        """Return the numbers of the queries that are asleep, in ascending order."""
        return np.sort(self._table.roster.numbers_of(self._table.asleep()))

    def set_end(self, numbers: Ints, ends: Ints) -> int:
        """Lower the ends of queries."""
        roster = self._table.roster
        numbers, ends = _plain(numbers, np.int64), _plain(ends, np.int64)
        slots = roster.find(numbers)
        held = np.flatnonzero(slots >= 0)
        # The largest end first, so that of several ends for one query the smallest stays.
        held = held[np.argsort(-ends[held], kind="stable")]
        slots, ends = slots[held], ends[held]
        lower = ends < roster.ends_of(slots)
        roster.set_ends(slots[lower], ends[lower])
        self._expiry.note(numbers[held][lower], ends[lower])
        return len(distinct(slots))

    def ended(self, now: int) -> Ints:
        """Return the numbers of the queries with end <= now, which the caller is to remove."""
        roster = self._table.roster
        slots = roster.find(self._expiry.ended(now, roster))
        slots = distinct(slots[slots >= 0])
        return roster.numbers_of(slots[roster.ends_of(slots) <= now])

    def expire(self, now: int) -> Ints:
        """Drop every query with end <= now."""
        numbers = self.ended(now)
        self._drop(self._table.roster.withdraw(numbers))
        return numbers

    def match(self, objects: ObjectBatch) -> Matches:
        """Return the queries that each object matches; a deletion has no place and matches nothing."""
        present = objects.op == OP_UPSERT
        if not present.all():
            rows = np.flatnonzero(present)
            matches = self.match(objects.take(rows))
            counts = np.zeros(len(objects) + 1, np.int64)
            counts[rows + 1] = np.diff(matches.off)
            return Matches(np.cumsum(counts), matches.number)
        x, y = _plain(objects.x, np.float64), _plain(objects.y, np.float64)
        if not math.isfinite(float(x.sum()) + float(y.sum())):
            _refuse_places(x, y)
        word_off, words = self._table.words.known(_plain(objects.kw_off, np.int32), _plain(objects.kw, np.int64))
        found = self._structure.probe(Probe(x, y, word_off, words))
        if self._metric == "haversine":
            found = self._within_circles(found, objects)
        if self._table.sleeping:
            found = _kept(found, self._table.traits[found.slots] & ASLEEP == 0)
        off, numbers = self._table.roster.living(found.off, found.slots, _plain(objects.ts, np.int64))
        self._work.count(x, y, found.examined, len(numbers))
        return Matches(off, numbers)

    def _within_circles(self, found: Found, objects: ObjectBatch) -> Found:
        """Apply the haversine formula where a structure could only look at bounding boxes.

        It is evaluated by numpy, because a kernel's sine may differ in the last bit from that of `streams.geometry`.
        """
        circles = np.flatnonzero(self._table.traits[found.slots] & KIND == REGION_CIRCLE)
        if not len(circles):
            return found
        place = np.repeat(np.arange(len(objects)), np.diff(found.off))
        shape = self._table.shape[found.slots[circles]]
        at = place[circles]
        far = distance(objects.x[at], objects.y[at], shape[:, 0], shape[:, 1], "haversine") > shape[:, 2]
        keep = np.ones(len(found.slots), np.bool_)
        keep[circles[far]] = False
        return _kept(found, keep)

    def cost(self) -> Cost:
        """Return the counters of work done."""
        return self._work.cost

    def load(self) -> Load:
        """Return the aggregates over the fine grid."""
        return self._work.load(len(self))

    def reset_cost(self) -> None:
        """Start counting work afresh."""
        self._work.reset()

    def overlapping(self, cells: CellRange) -> Ints:
        """Return the numbers of the queries that overlap these cells, in ascending order."""
        self._work.check(cells)
        held = self._table.roster.held()
        parts = [held[start : start + CHUNK] for start in range(0, len(held), CHUNK)]
        slots = [held[:0], *(part[self._work.overlapping(self._table.bounds(part), cells)] for part in parts)]
        return np.sort(self._table.roster.numbers_of(np.concatenate(slots)))

    def touching(self, box: tuple[float, float, float, float]) -> Ints:
        """Return the numbers of the queries that touch a closed box, in ascending order."""
        held = self._table.roster.held()
        slots = [held[:0]]
        for start in range(0, len(held), CHUNK):
            part = held[start : start + CHUNK]
            low_x, low_y, high_x, high_y = self._table.bounds(part).T
            slots.append(part[(low_x <= box[2]) & (high_x >= box[0]) & (low_y <= box[3]) & (high_y >= box[1])])
        return np.sort(self._table.roster.numbers_of(np.concatenate(slots)))

    def queries(self, numbers: Ints) -> QueryBatch:
        """Return those of these queries that are held, in this order."""
        slots = self._table.roster.find(_plain(numbers, np.int64))
        return self._table.batch(slots[slots >= 0])

    def extract(self, cells: CellRange, *, remove: bool = False) -> QueryBatch:
        """Return the queries that overlap these cells, in the order of their numbers."""
        batch = self.queries(self.overlapping(cells))
        if remove:
            self._drop(self._table.roster.withdraw(batch.number))
        return batch

    def snapshot(self) -> Arrays:
        """Return the queries as columns, and the counters."""
        batch = self._table.batch(np.sort(self._table.roster.held()))
        cost = self._work.cost
        return {
            **saved_columns(batch),
            "asleep": self.asleep(),
            "cost": np.array([cost.objects, cost.candidates, cost.matches], np.int64),
            "cost_rows": self._work.cost_rows.copy(),
            "cost_columns": self._work.cost_columns.copy(),
            **({} if self._work.cells is None else {"cost_cells": self._work.cells[0].copy()}),
        }

    def restore(self, arrays: Arrays) -> None:
        """Become the index that made this snapshot."""
        grid = self._work.grid
        if len(arrays["cost_rows"]) != grid.rows or len(arrays["cost_columns"]) != grid.columns:
            raise InputError(
                f"a snapshot of an index with a fine grid of {len(arrays['cost_columns'])} x {len(arrays['cost_rows'])}"
                f" for one of {grid.columns} x {grid.rows}; restore it with the grid it was made with"
            )
        self._work = Workload(grid, by_cell=self._work.cells is not None)
        self._clear()
        self.insert(registrations({name: np.array(arrays[name]) for name in SAVED_COLUMNS}))
        self.hush(arrays["asleep"])
        self._work.cost = Cost(*(int(number) for number in arrays["cost"]))
        self._work.cost_rows[:] = arrays["cost_rows"]
        self._work.cost_columns[:] = arrays["cost_columns"]
        if self._work.cells is not None:
            self._work.cells[0] = arrays["cost_cells"]

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        return self._table.nbytes + self._structure.nbytes + self._expiry.nbytes + self._work.nbytes


_PLAIN_COLUMNS = ("number", "ts", "end", "match_any", "region", "shape", "kw_off", "kw")

#: The columns of queries that a snapshot has; a rare one is empty where all values are the usual one.
SAVED_COLUMNS = (*_PLAIN_COLUMNS, *RARE_COLUMNS)


def saved_columns(queries: QueryBatch) -> dict[str, NDArray[Any]]:
    """Return queries as a snapshot has them; their identifiers stay with the owner of the index."""
    return {name: getattr(queries, name) for name in _PLAIN_COLUMNS} | saved_rare(queries)


def registrations(columns: Arrays) -> QueryBatch:
    """Return the queries of a snapshot, of which it may have been given more; their ids are their numbers."""
    numbers = columns["number"]
    plain = {name: columns[name] for name in _PLAIN_COLUMNS}
    return QueryBatch(
        **plain, **whole_rare(columns, len(numbers)), target=numbers,
        op=np.full(len(numbers), OP_REGISTER, np.uint8), ids=Ids("int", numbers),
    )  # fmt: skip


def _kept(found: Found, keep: NDArray[np.bool_]) -> Found:
    """Return what was found without the pairs that are not kept."""
    before = np.zeros(len(keep) + 1, np.int64)
    np.cumsum(keep, out=before[1:])
    return Found(before[found.off], found.slots[keep], found.examined)


def _refuse_places(x: Floats, y: Floats) -> None:
    """Raise `InputError` for the first place that is not finite, if there is one: a sum may overflow without."""
    wrong = np.flatnonzero(~(np.isfinite(x) & np.isfinite(y)))
    if len(wrong):
        row = int(wrong[0])
        raise InputError(f"object {row} of the batch is at ({x[row]}, {y[row]}); reject it where it is read")


def _plain(array: NDArray[Any], dtype: type[np.generic]) -> NDArray[Any]:
    """Return an array of the one type that the kernels are compiled for: contiguous and writable.

    Arrays that look into a message are neither always, and numba would compile every kernel anew for them.
    """
    if array.dtype == dtype and array.flags.carray:
        return array
    return np.require(array, dtype, ["C", "A", "W"])


def _plain_queries(queries: QueryBatch) -> QueryBatch:
    plain: dict[str, Any] = {name: _plain(getattr(queries, name), dtype) for name, dtype in _KERNEL_TYPES.items()}
    if all(getattr(queries, name) is column for name, column in plain.items()):
        return queries
    return replace(queries, **plain)


_KERNEL_TYPES: dict[str, type[np.generic]] = {
    "number": np.int64, "op": np.uint8, "ts": np.int64, "end": np.int64, "match_any": np.bool_, "region": np.uint8,
    "shape": np.float64, "kw_off": np.int32, "kw": np.int64,
}  # fmt: skip
