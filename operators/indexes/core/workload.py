"""The load of an index over the fine grid, as Tornado's evaluators keep it (section 4.3).

Costs are counted by the row and the column of the object, queries by the first and the last row and column that they
overlap, so that a query costs the same whatever its size, and the queries of any band of rows or columns can be told.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from operators.indexes.core.structure import Bounds
from operators.indexes.range.range_index import CellRange, Cost, Load
from partitioners.grids.fine_grid import FineGrid
from streams.errors import DeclarationError
from streams.kernel import kernel

__all__ = ["Workload"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@kernel
def _cell(value: Any, low: Any, per_unit: Any, cells: Any) -> Any:
    """Return a coordinate's column or row as `FineGrid` does."""
    place = (value - low) * per_unit
    return 0 if not place >= 1.0 else (cells - 1 if place >= cells else int(place))


@kernel
def _charge(x: Floats, y: Floats, examined: Ints, scale: Floats, rows: Ints, columns: Ints) -> Any:
    """Add each object's candidates to its row and column; return their sum."""
    total = 0
    for i in range(x.shape[0]):
        columns[_cell(x[i], scale[0], scale[2], columns.shape[0])] += examined[i]
        rows[_cell(y[i], scale[1], scale[3], rows.shape[0])] += examined[i]
        total += examined[i]
    return total


@kernel
def _border(
    bounds: Bounds, scale: Floats, sign: int, row_starts: Ints, row_ends: Ints, column_starts: Ints, column_ends: Ints
) -> None:
    """Count queries by the first and the last row and column that they overlap."""
    rows, columns = row_starts.shape[0], column_starts.shape[0]
    for i in range(bounds.shape[0]):
        column_starts[_cell(bounds[i, 0], scale[0], scale[2], columns)] += sign
        column_ends[_cell(bounds[i, 2], scale[0], scale[2], columns)] += sign
        row_starts[_cell(bounds[i, 1], scale[1], scale[3], rows)] += sign
        row_ends[_cell(bounds[i, 3], scale[1], scale[3], rows)] += sign


class Workload:
    """Counters of work, and aggregates of costs and queries by row and column; by cell as well where that is asked for."""

    def __init__(self, grid: FineGrid, *, by_cell: bool = False) -> None:
        self.grid = grid
        shape = (3, grid.rows, grid.columns)
        self.cells: Ints | None = np.zeros(shape, np.int64) if by_cell else None
        self._scale: Floats = np.array(grid.scale())
        self.cost = Cost()
        self.cost_rows: Ints = np.zeros(grid.rows, np.int64)
        self.cost_columns: Ints = np.zeros(grid.columns, np.int64)
        self._row_starts: Ints = np.zeros(grid.rows, np.int64)
        self._row_ends: Ints = np.zeros(grid.rows, np.int64)
        self._column_starts: Ints = np.zeros(grid.columns, np.int64)
        self._column_ends: Ints = np.zeros(grid.columns, np.int64)

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        arrays = [self.cost_rows, self.cost_columns, *self._borders, *([] if self.cells is None else [self.cells])]
        return sum(array.nbytes for array in arrays)

    @property
    def _borders(self) -> tuple[Ints, Ints, Ints, Ints]:
        return self._row_starts, self._row_ends, self._column_starts, self._column_ends

    def reset(self) -> None:
        """Start counting work afresh."""
        self.cost = Cost()
        self.cost_rows[:] = 0
        self.cost_columns[:] = 0
        if self.cells is not None:
            self.cells[0] = 0

    def count(self, x: Floats, y: Floats, examined: Ints, matches: int) -> None:
        """Count the work that objects have caused."""
        total = _charge(x, y, examined, self._scale, self.cost_rows, self.cost_columns)
        if self.cells is not None:
            np.add.at(self.cells[0].reshape(-1), self.grid.cells_of(x, y), examined)
        cost = self.cost
        self.cost = Cost(cost.objects + len(x), cost.candidates + int(total), cost.matches + matches)

    def idle(self, objects: int) -> None:
        """Count objects that have caused no work."""
        cost = self.cost
        self.cost = Cost(cost.objects + objects, cost.candidates, cost.matches)

    def add(self, bounds: Bounds, sign: int) -> None:
        """Count queries in (sign 1) or out (sign -1)."""
        _border(np.ascontiguousarray(bounds), self._scale, sign, *self._borders)
        if self.cells is not None:
            for place, (x, y) in ((1, (0, 1)), (2, (2, 3))):
                np.add.at(self.cells[place].reshape(-1), self.grid.cells_of(bounds[:, x], bounds[:, y]), sign)

    def take_queries(self, other: "Workload") -> None:
        """Count the queries that another counts, in place of one's own."""
        for mine, theirs in zip(self._borders, other._borders, strict=True):
            mine[:] = theirs
        if self.cells is not None and other.cells is not None:
            self.cells[1:] = other.cells[1:]

    def check(self, cells: CellRange) -> None:
        """Raise `DeclarationError` for cells outside of the grid."""
        if cells.max_column >= self.grid.columns or cells.max_row >= self.grid.rows:
            raise DeclarationError(
                f"cells up to column {cells.max_column} and row {cells.max_row} of a fine grid of "
                f"{self.grid.columns} x {self.grid.rows}; the first column and row are 0"
            )

    def overlapping(self, bounds: Bounds, cells: CellRange) -> NDArray[np.bool_]:
        """Tell for each box whether it overlaps a rectangle of cells."""
        first_row, first_column = np.divmod(self.grid.cells_of(bounds[:, 0], bounds[:, 1]), self.grid.columns)
        last_row, last_column = np.divmod(self.grid.cells_of(bounds[:, 2], bounds[:, 3]), self.grid.columns)
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
            query_row_starts=self._row_starts.copy(),
            query_row_ends=self._row_ends.copy(),
            query_column_starts=self._column_starts.copy(),
            query_column_ends=self._column_ends.copy(),
            queries=queries,
            cells=None if self.cells is None else self.cells.copy(),
        )
