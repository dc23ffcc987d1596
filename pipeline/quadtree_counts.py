"""Counting queries in all cells of a quadtree at once, without visiting the cells that a large query covers.

Cells of level l are those of a grid of 2^l x 2^l; the cell in column c and row r has the number
(4^l - 1) / 3 + r * 2^l + c. A query overlaps the cells between the cells of the corners of its bounds. It is noted at a
cell in one of two ways: *here*, for a cell that it overlaps in part, or *below*, for the largest cells that it covers
whole, where it counts for that cell and all cells inside of it. A query over the whole space is one note at the root
instead of one for every cell; sums over a cell and the notes below its ancestors give the same numbers.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partitioners.grids.fine_grid import FineGrid
from streams.columns import Ints
from streams.errors import DeclarationError
from streams.geometry import Rect

__all__ = ["MAX_DEPTH", "Notes", "ancestors", "cell_number", "cells_of_levels", "noted", "tree_grid"]

#: Levels below the root; 4^9 cells at the deepest level.
MAX_DEPTH = 9

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Notes:
    """Which query is noted at which cell, and whether for all cells below as well."""

    query: Ints
    cell: Ints
    below: NDArray[np.bool_]


def tree_grid(space: Rect, depth: int) -> FineGrid:
    """Return the grid of the deepest level."""
    if not 0 <= depth <= MAX_DEPTH:
        raise DeclarationError(f"a quadtree of depth {depth}; expected 0 to {MAX_DEPTH}")
    return FineGrid(space, 1 << depth, 1 << depth)


def cell_number(level: int, column: Ints, row: Ints) -> Ints:
    """Return the numbers of cells of a level."""
    return np.asarray((4**level - 1) // 3 + row * (1 << level) + column, np.int64)


def cells_of_levels(depth: int) -> int:
    """Return the number of cells of a tree."""
    return int((4 ** (depth + 1) - 1) // 3)


def ancestors(cell: int) -> list[int]:
    """Return a cell's ancestors, the root first, then the cell itself."""
    level = 0
    while cell >= (4 ** (level + 1) - 1) // 3:
        level += 1
    place = cell - (4**level - 1) // 3
    column, row = place % (1 << level), place >> level
    return [
        int((4**up - 1) // 3 + (row >> (level - up)) * (1 << up) + (column >> (level - up))) for up in range(level + 1)
    ]


def noted(space: Rect, depth: int, min_x: Floats, min_y: Floats, max_x: Floats, max_y: Floats) -> Notes:
    """Note queries, given their bounds, at the cells of all levels."""
    grid = tree_grid(space, depth)
    low, high = grid.cells_of(min_x, min_y), grid.cells_of(max_x, max_y)
    corners = (low % grid.columns, low // grid.columns, high % grid.columns, high // grid.columns)
    queries, cells, belows = [], [], []
    for level in range(depth + 1):
        query, column, row = _overlapped(corners, depth, level)
        below = _covered(corners, depth, level, query, column, row)
        # What lies inside of a covered cell is noted there.
        inside = (
            _covered(corners, depth, level - 1, query, column >> 1, row >> 1) if level else np.zeros(len(query), bool)
        )
        keep = ~inside
        queries.append(query[keep])
        cells.append(cell_number(level, column[keep], row[keep]))
        belows.append(below[keep])
    return Notes(np.concatenate(queries), np.concatenate(cells), np.concatenate(belows))


Corners = tuple[Ints, Ints, Ints, Ints]


def _overlapped(corners: Corners, depth: int, level: int) -> tuple[Ints, Ints, Ints]:
    """Return pairs of a query and a cell of a level that it overlaps, without those of queries that cover all of it."""
    shift = depth - level
    x0, y0, x1, y1 = (corner >> shift for corner in corners)
    wide, high = x1 - x0 + 1, y1 - y0 + 1
    last = (1 << depth) - 1
    whole = (corners[0] == 0) & (corners[1] == 0) & (corners[2] == last) & (corners[3] == last)
    size = np.where(whole & (level > 0), 0, wide * high)
    query = np.repeat(np.arange(len(size)), size)
    within = np.arange(int(size.sum())) - np.repeat(np.cumsum(size) - size, size)
    return query, x0[query] + within % wide[query], y0[query] + within // wide[query]


def _covered(corners: Corners, depth: int, level: int, query: Ints, column: Ints, row: Ints) -> NDArray[np.bool_]:
    """Tell for pairs of a query and a cell whether the query overlaps every deepest cell inside."""
    shift = depth - level
    x0, y0, x1, y1 = (corner[query] for corner in corners)
    return np.asarray(
        (column << shift >= x0)
        & (((column + 1) << shift) - 1 <= x1)
        & (row << shift >= y0)
        & (((row + 1) << shift) - 1 <= y1)
    )
