"""Statistics on their way to the balancer: whole numbers in one column, record after record.

One column instead of one for each field keeps messages small (the name and size of each column travel too), and batches of
several evaluators can be put one after the other. Numbers take four bytes where all of them fit.
"""

from collections.abc import Sequence

import numpy as np

from operators.balancing.tornado.aggregates import Box, Ints
from operators.balancing.tornado.cells import CellStatistics
from operators.balancing.tornado.partition_loads import MAX_KNOTS, CornerShift, Knot, PartitionLoad, Split
from partitioners.grids.adjacency import Side
from streams.batches import TupleBatch
from streams.errors import InputError

__all__ = [
    "CELLS_FIELD",
    "LOADS_FIELD",
    "cells_from_batch",
    "cells_to_batch",
    "loads_from_batch",
    "loads_to_batch",
]

_SIDES = tuple(Side)
#: The one field of a batch says what it holds.
LOADS_FIELD, CELLS_FIELD = "partitions", "cells"
#: Neighbours at two sides of four corners.
_MAX_CORNERS = 8


def loads_to_batch(loads: Sequence[PartitionLoad]) -> TupleBatch:
    """Write loads of partitions.

    A record: worker, version, cost, queries, 1 and the six numbers of the split or 0, the number of corners with four
    numbers each, and for both axes the number of knots with four numbers each.
    """
    values: list[int] = []
    for load in loads:
        values += (load.worker, load.version, load.cost, load.queries)
        if load.split is None:
            values.append(0)
        else:
            p = load.split
            values += (1, p.axis, p.position, p.low_cost, p.high_cost, p.low_queries, p.high_queries)
        values.append(len(load.corners))
        for corner in load.corners:
            values += (corner.taker, _SIDES.index(corner.side), corner.cost, corner.queries)
        for knots in load.knots:
            values.append(len(knots))
            for knot in knots:
                values += (knot.position, knot.low_cost, knot.low_queries, knot.high_queries)
    return _batch(np.array(values, np.int64), LOADS_FIELD)


def loads_from_batch(batch: TupleBatch) -> tuple[PartitionLoad, ...]:
    """Read loads of partitions; raise `InputError` for anything that `loads_to_batch` does not write."""
    numbers = _Numbers(_values(batch, LOADS_FIELD), "loads of partitions")
    found = []
    while numbers.left:
        worker, version, cost, queries = numbers.take(4).tolist()
        split = Split(*numbers.take(6).tolist()) if numbers.count(1, "splits") else None
        corners = [numbers.take(4).tolist() for _ in range(numbers.count(_MAX_CORNERS, "corner shifts"))]
        if any(not 0 <= side < len(_SIDES) for _, side, _, _ in corners):
            raise InputError("loads of partitions name a side that there is not; the sender is of another release")
        x, y = (
            tuple(Knot(*row) for row in numbers.take(4 * numbers.count(MAX_KNOTS, "knots")).reshape(-1, 4).tolist())
            for _ in range(2)
        )
        shifts = tuple(CornerShift(taker, _SIDES[side], moved, held) for taker, side, moved, held in corners)
        found.append(PartitionLoad(worker, version, cost, queries, split, shifts, (x, y)))
    return tuple(found)


def cells_to_batch(statistics: Sequence[CellStatistics]) -> TupleBatch:
    """Write statistics of cells: worker, version, the box, then costs, starts and ends of all cells, row after row."""
    records = []
    for s in statistics:
        records += [np.array([s.worker, s.version, *s.box]), s.cost.ravel(), s.starts.ravel(), s.ends.ravel()]
    return _batch(np.concatenate(records) if records else np.empty(0, np.int64), CELLS_FIELD)


def cells_from_batch(batch: TupleBatch) -> tuple[CellStatistics, ...]:
    """Read statistics of cells; raise `InputError` for anything that `cells_to_batch` does not write."""
    numbers = _Numbers(_values(batch, CELLS_FIELD), "statistics of cells")
    found = []
    while numbers.left:
        worker, version, x0, y0, x1, y1 = numbers.take(6).tolist()
        if not (0 <= x0 <= x1 and 0 <= y0 <= y1):
            raise InputError(f"statistics of cells of the box {[x0, y0, x1, y1]}, which is none")
        box: Box = (x0, y0, x1, y1)
        shape = (y1 - y0 + 1, x1 - x0 + 1)
        cost, starts, ends = (numbers.take(shape[0] * shape[1]).reshape(shape) for _ in range(3))
        found.append(CellStatistics(worker, version, box, cost, starts, ends))
    return tuple(found)


class _Numbers:
    """A column read from its start on."""

    def __init__(self, values: Ints, name: str) -> None:
        self._values, self._name, self._at = values, name, 0

    @property
    def left(self) -> int:
        return len(self._values) - self._at

    def take(self, count: int) -> Ints:
        if count > self.left:
            raise InputError(f"{self._name} end after {self.left} of {count} numbers; the message is cut off")
        self._at += count
        return self._values[self._at - count : self._at]

    def count(self, limit: int, what: str) -> int:
        found = int(self.take(1)[0])
        if not 0 <= found <= limit:
            raise InputError(f"{self._name} announce {found} {what}; expected 0 to {limit}")
        return found


def _batch(values: Ints, field: str) -> TupleBatch:
    if len(values) and values.min() < 0:
        raise InputError(f"statistics hold the number {values.min()}; costs and counts are never negative")
    narrow = not len(values) or values.max() <= np.iinfo(np.uint32).max
    return TupleBatch((field,), (values.astype(np.uint32) if narrow else values,))


def _values(batch: TupleBatch, field: str) -> Ints:
    if (
        batch.fields != (field,)
        or not isinstance(batch.columns[0], np.ndarray)
        or batch.columns[0].dtype.kind not in "iu"
    ):
        raise InputError(
            f"statistics have the fields {list(batch.fields)}, expected whole numbers in '{field}'; let the evaluators send "
            "what the policy of the balancer reads"
        )
    return np.asarray(batch.columns[0], np.int64)
