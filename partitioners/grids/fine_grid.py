"""The fine grid FG (Tornado, Section 3.1): the resolution at which statistics are kept and borders are drawn.

A cell is half-open; the last column and row also own the upper border of the space. The formula for a coordinate's
cell is monotone in float64 (a subtraction and a multiplication by constants), so every point within closed bounds
falls between the cells of these bounds: the reason why an object and a query that match always meet.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partitioners.columns import Floats, Ints, column
from streams.errors import DeclarationError
from streams.geometry import Rect
from streams.kernel import kernel

__all__ = ["DEFAULT_SIDE", "MAX_CELLS", "FineGrid", "box_sums", "prefix_sums"]

#: Tornado's resolution, and a bound on memory.
DEFAULT_SIDE = 1000
MAX_CELLS = 1 << 24


@dataclass(frozen=True, slots=True)
class FineGrid:
    """A grid of equal cells over a space; cell (column, row) has the number row * columns + column."""

    space: Rect
    columns: int = DEFAULT_SIDE
    rows: int = DEFAULT_SIDE

    def __post_init__(self) -> None:
        if self.columns < 1 or self.rows < 1 or self.columns * self.rows > MAX_CELLS:
            raise DeclarationError(
                f"a fine grid of {self.columns} x {self.rows} cells; expected 1 x 1 up to {MAX_CELLS:,} cells"
            )

    @property
    def cells(self) -> int:
        """The number of cells."""
        return self.columns * self.rows

    def scale(self) -> tuple[float, float, float, float]:
        """Return (min x, min y, columns per unit, rows per unit), what a kernel needs to find a cell."""
        s = self.space
        return s.min_x, s.min_y, self.columns / (s.max_x - s.min_x), self.rows / (s.max_y - s.min_y)

    def cells_of(self, x: Floats, y: Floats) -> Ints:
        """Return the cell of each point; a point outside belongs to the nearest border cell."""
        found: Ints = _cells_of(
            column(x, np.float64), column(y, np.float64), np.array(self.scale()), self.columns, self.rows
        )
        return found

    def counts(self, x: Floats, y: Floats, weights: Floats | None = None) -> Floats:
        """Return the number (or weight) of points by cell, as rows x columns."""
        found = np.bincount(self.cells_of(x, y), weights, minlength=self.cells).astype(np.float64)
        return found.reshape(self.rows, self.columns)

    def boxes(self, cells: NDArray[np.integer]) -> Floats:
        """Return min x, min y, max x, max y of boxes of cells (first column, first row, last column, last row)."""
        s = self.space
        wide, high = (s.max_x - s.min_x) / self.columns, (s.max_y - s.min_y) / self.rows
        edges = np.asarray(cells, np.int64) + np.array([0, 0, 1, 1])
        corners: Floats = np.array([s.min_x, s.min_y, s.min_x, s.min_y]) + edges * np.array([wide, high, wide, high])
        return corners


def prefix_sums(values: Floats) -> Floats:
    """Return sums over all cells before (row, column), with a row and a column of zeros in front."""
    sums = np.zeros((values.shape[0] + 1, values.shape[1] + 1))
    sums[1:, 1:] = values.cumsum(0).cumsum(1)
    return sums


def box_sums(sums: Floats, x0: int, y0: int, x1: int, y1: int) -> tuple[Floats, Floats]:
    """Return the running sums of a box (last column and row inclusive) by column and by row.

    The last element of both is the sum of the box. Each costs a difference of two lines of the prefix sums, so a split
    costs the box's width plus its height and not its area.
    """
    by_column = sums[y1 + 1, x0 + 1 : x1 + 2] - sums[y0, x0 + 1 : x1 + 2] - (sums[y1 + 1, x0] - sums[y0, x0])
    by_row = sums[y0 + 1 : y1 + 2, x1 + 1] - sums[y0 + 1 : y1 + 2, x0] - (sums[y0, x1 + 1] - sums[y0, x0])
    return by_column, by_row


@kernel
def _cells_of(x: Floats, y: Floats, scale: Floats, columns: int, rows: int) -> Ints:
    out = np.empty(len(x), np.int64)
    for i in range(len(x)):
        cx = (x[i] - scale[0]) * scale[2]
        cy = (y[i] - scale[1]) * scale[3]
        # Comparisons come first because a conversion of NaN or of a huge number to an integer is undefined.
        column = 0 if not cx >= 1.0 else (columns - 1 if cx >= columns else int(cx))
        row = 0 if not cy >= 1.0 else (rows - 1 if cy >= rows else int(cy))
        out[i] = row * columns + column
    return out
