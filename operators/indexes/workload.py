"""The load of an index over the fine grid, as Tornado's evaluators keep it (section 4.3).

Costs are counted by the row and the column of the object, queries by the rows and columns they overlap; the latter as
differences, so that a query costs the same whatever its size.
"""

import numpy as np
from numpy.typing import NDArray

from operators.indexes.range_index import CellRange, Cost, Load
from operators.indexes.structure import Bounds
from partitioners.fine_grid import FineGrid
from streams.errors import DeclarationError

__all__ = ["Workload"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Workload:
    """Counters of work, and aggregates of costs and queries by row and column."""

    def __init__(self, grid: FineGrid) -> None:
        self.grid = grid
        self.cost = Cost()
        self.cost_rows: Ints = np.zeros(grid.rows, np.int64)
        self.cost_columns: Ints = np.zeros(grid.columns, np.int64)
        self._row_steps: Ints = np.zeros(grid.rows + 1, np.int64)
        self._column_steps: Ints = np.zeros(grid.columns + 1, np.int64)

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        return sum(a.nbytes for a in (self.cost_rows, self.cost_columns, self._row_steps, self._column_steps))

    def reset(self) -> None:
        """Start counting work afresh."""
        self.cost = Cost()
        self.cost_rows[:] = 0
        self.cost_columns[:] = 0

    def count(self, x: Floats, y: Floats, examined: Ints, matches: int) -> None:
        """Count the work that objects have caused."""
        cost = self.cost
        self.cost = Cost(cost.objects + len(x), cost.candidates + int(examined.sum()), cost.matches + matches)
        row, column = np.divmod(self.grid.cells_of(x, y), self.grid.columns)
        self.cost_rows += np.bincount(row, examined, self.grid.rows).astype(np.int64)
        self.cost_columns += np.bincount(column, examined, self.grid.columns).astype(np.int64)

    def span(self, bounds: Bounds) -> tuple[Ints, Ints, Ints, Ints]:
        """Return the first column, first row, last column and last row that each box overlaps."""
        first_row, first_column = np.divmod(self.grid.cells_of(bounds[0], bounds[1]), self.grid.columns)
        last_row, last_column = np.divmod(self.grid.cells_of(bounds[2], bounds[3]), self.grid.columns)
        return first_column, first_row, last_column, last_row

    def add(self, bounds: Bounds, sign: int) -> None:
        """Count queries in (sign 1) or out (sign -1)."""
        first_column, first_row, last_column, last_row = self.span(bounds)
        for steps, first, last in (
            (self._column_steps, first_column, last_column),
            (self._row_steps, first_row, last_row),
        ):
            steps += sign * (np.bincount(first, minlength=len(steps)) - np.bincount(last + 1, minlength=len(steps)))

    def overlapping(self, bounds: Bounds, cells: CellRange) -> NDArray[np.bool_]:
        """Tell for each box whether it overlaps a rectangle of cells."""
        if cells.max_column >= self.grid.columns or cells.max_row >= self.grid.rows:
            raise DeclarationError(
                f"cells up to column {cells.max_column} and row {cells.max_row} of a fine grid of "
                f"{self.grid.columns} x {self.grid.rows}; the first column and row are 0"
            )
        first_column, first_row, last_column, last_row = self.span(bounds)
        return np.asarray(
            (first_column <= cells.max_column)
            & (last_column >= cells.min_column)
            & (first_row <= cells.max_row)
            & (last_row >= cells.min_row)
        )

    def load(self, queries: int) -> Load:
        """Return the aggregates."""
        return Load(
            cost_rows=self.cost_rows.copy(),
            cost_columns=self.cost_columns.copy(),
            cost=self.cost.candidates,
            query_rows=np.cumsum(self._row_steps[:-1]),
            query_columns=np.cumsum(self._column_steps[:-1]),
            queries=queries,
        )
