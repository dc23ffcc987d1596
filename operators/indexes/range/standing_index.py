"""A range index: a table of queries, a structure that finds them, and the bookkeeping between."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from operators.indexes.core.query_table import ASLEEP, KIND, QueryTable, region_box
from operators.indexes.core.standing_queries import (
    CHUNK,
    SAVED_COLUMNS,
    Slots,
    StandingQueries,
    finite_places,
    plain,
    registrations,
    saved_columns,
)
from operators.indexes.core.structure import Found, Probe, Structure
from operators.indexes.core.workload import Workload
from operators.indexes.range.range_index import Arrays, CellRange, Cost, Load, Matches
from partitioners.grids.fine_grid import FineGrid
from streams.batches import OP_UPSERT, ObjectBatch, QueryBatch
from streams.errors import InputError
from streams.geometry import REGION_CIRCLE, Metric, distance

__all__ = ["StandingIndex"]

Ints = NDArray[np.int64]


class StandingIndex(StandingQueries):
    """A `RangeIndex` over any structure."""

    def __init__(
        self, structure: Callable[[QueryTable], Structure], grid: FineGrid, metric: Metric, by_cell: bool = False
    ) -> None:
        self._make = structure
        self._by_cell = by_cell
        self._grid = grid
        super().__init__(grid.space, metric)

    def _clear(self) -> None:
        super()._clear()
        self._structure = self._make(self._table)
        self._work = Workload(self._grid, by_cell=self._by_cell)

    def _file(self, queries: QueryBatch, slots: Slots) -> None:
        bounds = region_box(queries.region, queries.shape, self._space, self._metric)
        self._structure.add(slots, bounds)
        self._work.add(bounds, 1)

    def _unfile(self, slots: Slots) -> Slots:
        bounds = self._table.bounds(slots)
        self._work.add(bounds, -1)
        return self._structure.discard(slots, bounds)

    def _rebuild(self) -> None:
        work = self._work
        super()._rebuild()
        work.take_queries(self._work)
        self._work = work

    def match(self, objects: ObjectBatch) -> Matches:
        """Return the queries that each object matches; a deletion has no place and matches nothing."""
        present = objects.op == OP_UPSERT
        if not present.all():
            rows = np.flatnonzero(present)
            matches = self.match(objects.take(rows))
            counts = np.zeros(len(objects) + 1, np.int64)
            counts[rows + 1] = np.diff(matches.off)
            return Matches(np.cumsum(counts), matches.number)
        x, y = plain(objects.x, np.float64), plain(objects.y, np.float64)
        finite_places(x, y)
        if not len(self):
            self._work.idle(len(objects))
            return Matches(np.zeros(len(objects) + 1, np.int64), np.empty(0, np.int64))
        kw_off, kw = plain(objects.kw_off, np.int32), plain(objects.kw, np.int64)
        word_off, words = self._table.words.known(kw_off, kw)
        found = self._structure.probe(Probe(x, y, word_off, words))
        if self._metric == "haversine":
            found = self._within_circles(found, objects)
        passes = self._table.residuals.keep(found.off, found.slots, x, y, kw_off, kw)
        if passes is not None:
            found = _kept(found, passes)
        if self._table.sleeping:
            found = _kept(found, self._table.traits[found.slots] & ASLEEP == 0)
        off, numbers = self._table.roster.living(found.off, found.slots, plain(objects.ts, np.int64))
        self._work.count(x, y, found.examined, len(numbers))
        return Matches(off, numbers)

    def _within_circles(self, found: Found, objects: ObjectBatch) -> Found:
        """Apply the haversine formula where a structure could only look at bounding boxes.

        It is evaluated by numpy, because a kernel's sine may differ in the last bit from that of `streams.geometry`.
        """
        circles = found.undecided
        if circles is None:
            circles = np.flatnonzero(self._table.traits[found.slots] & KIND == REGION_CIRCLE)
        if not len(circles):
            return found
        shape = self._table.shape[found.slots[circles]]
        at = np.searchsorted(found.off, circles, side="right") - 1
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


def _kept(found: Found, keep: NDArray[np.bool_]) -> Found:
    """Return what was found without the pairs that are not kept."""
    before = np.zeros(len(keep) + 1, np.int64)
    np.cumsum(keep, out=before[1:])
    return Found(before[found.off], found.slots[keep], found.examined)
