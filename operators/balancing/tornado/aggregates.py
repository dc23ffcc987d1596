"""The aggregates of a box by column and by row, ready for questions about bands of it (Tornado, Section 4.3, Figure 5).

A band is a run of whole columns or whole rows of a partition. Whatever Tornado moves is a band: half of a split, the strip
of a corner shift, what a shift of a border gives away. Costs of bands are differences of running sums. So are numbers of
queries, although a query overlaps many columns: those that overlap columns a to b are all that begin up to b, less those
that end before a.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from streams.errors import InputError

__all__ = ["AXES", "COLUMNS", "ROWS", "BandSums", "Box", "Ints", "LoadAggregates"]

Ints = NDArray[np.int64]
Box = tuple[int, int, int, int]

#: Along what something is cut: between columns or between rows. ``box[axis]`` and ``box[axis + 2]`` are a box's ends.
COLUMNS, ROWS = 0, 1
AXES = (COLUMNS, ROWS)


class LoadAggregates(Protocol):
    """What an evaluator's index counts over the rows and columns of the whole fine grid (`operators.indexes.Load`)."""

    @property
    def cost(self) -> int:
        """Candidates examined in all."""

    @property
    def queries(self) -> int:
        """Queries in all."""

    @property
    def cost_rows(self) -> Ints:
        """Candidates examined for the objects in each row."""

    @property
    def cost_columns(self) -> Ints:
        """The same for each column."""

    @property
    def query_row_starts(self) -> Ints:
        """Queries by the first row that they overlap."""

    @property
    def query_row_ends(self) -> Ints:
        """Queries by the last row that they overlap."""

    @property
    def query_column_starts(self) -> Ints:
        """Queries by the first column that they overlap."""

    @property
    def query_column_ends(self) -> Ints:
        """Queries by the last column that they overlap."""


@dataclass(frozen=True, slots=True, eq=False)
class BandSums:
    """Running sums over the columns and the rows of a box.

    Attributes:
        box: first column, first row, last column, last row.
        cost: the cost of the box (Equation 2).
        queries: the queries of the box.
        costs: by axis, the cost of the first i columns or rows.
        started: by axis, the queries that begin before column or row i of the box.
        ended: by axis, the queries that end before it.
    """

    box: Box
    cost: int
    queries: int
    costs: tuple[Ints, Ints]
    started: tuple[Ints, Ints]
    ended: tuple[Ints, Ints]

    @classmethod
    def of_load(cls, load: LoadAggregates, box: Box) -> "BandSums":
        """Cut the aggregates of an index down to its box, in O(m + n).

        Work that was done outside the box cannot be told apart in the other axis' aggregates, so it is an error: an
        evaluator counts afresh (`reset_cost`) from the epoch on in which a new plan is in force.
        """
        sums = cls._of(
            box, load.cost, load.queries, (load.cost_columns, load.cost_rows),
            (load.query_column_starts, load.query_row_starts), (load.query_column_ends, load.query_row_ends),
        )  # fmt: skip
        for axis, name in zip(AXES, ("columns", "rows"), strict=True):
            inside = int(sums.costs[axis][-1])
            if inside != load.cost:
                raise InputError(
                    f"{load.cost - inside} of a cost of {load.cost} was counted outside {name} {box[axis]} to "
                    f"{box[axis + 2]}; count afresh when a new plan takes effect"
                )
        return sums

    @classmethod
    def of_cells(cls, box: Box, cost: Ints, starts: Ints, ends: Ints) -> "BandSums":
        """Add up the cells of a box (rows x columns): costs, and queries by their first and last cell within it."""
        within = (0, 0, box[2] - box[0], box[3] - box[1])
        sums = cls._of(
            within, int(cost.sum()), int(starts.sum()), (cost.sum(0), cost.sum(1)),
            (starts.sum(0), starts.sum(1)), (ends.sum(0), ends.sum(1)),
        )  # fmt: skip
        return cls(box, sums.cost, sums.queries, sums.costs, sums.started, sums.ended)

    @classmethod
    def _of(
        cls,
        box: Box,
        cost: int,
        queries: int,
        costs: tuple[Ints, Ints],
        starts: tuple[Ints, Ints],
        ends: tuple[Ints, Ints],
    ) -> "BandSums":
        for axis, name in zip(AXES, ("columns", "rows"), strict=True):
            if not 0 <= box[axis] <= box[axis + 2] < len(costs[axis]):
                raise InputError(
                    f"the box {list(box)} does not lie in a load of {len(costs[axis])} {name}; "
                    "the index must count over the fine grid of the plan"
                )
        running = [
            tuple(_running(values[axis], box[axis], box[axis + 2]) for axis in AXES) for values in (costs, starts, ends)
        ]
        first = [sums[0] for sums in running[0]]
        return cls(
            box,
            int(cost),
            int(queries),
            (running[0][0] - first[0], running[0][1] - first[1]),
            (running[1][0], running[1][1]),
            (running[2][0], running[2][1]),
        )

    def band_cost(self, axis: int, first: int, last: int) -> int:
        """Return the cost of columns or rows `first` to `last` of the box."""
        base = self.box[axis]
        return int(self.costs[axis][last + 1 - base] - self.costs[axis][first - base])

    def band_queries(self, axis: int, first: int, last: int) -> int:
        """Return the number of queries that overlap columns or rows `first` to `last` of the box."""
        base = self.box[axis]
        return int(self.started[axis][last + 1 - base] - self.ended[axis][first - base])


def _running(values: Ints, first: int, last: int) -> Ints:
    """Return the sum of all values before each of the places `first` to `last + 1`."""
    sums = np.zeros(len(values) + 1, np.int64)
    np.cumsum(values, out=sums[1:])
    return sums[first : last + 2]
