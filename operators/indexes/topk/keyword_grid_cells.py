"""Which cells of a keyword's grid a search looks at: those around its place, then those that a bound reaches."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from operators.indexes.topk.keyword_grid_kernels import (
    ACROSS,
    CLASSES,
    FAR,
    FRONT,
    GLOBE,
    LENGTH,
    RING,
    SPAN_ROWS,
    UPWARD,
    unit_place,
)  # fmt: skip
from operators.indexes.topk.keyword_grid_scan import LEFT
from streams.kernel import lean_kernel
from streams.prefetch import prefetch

__all__ = ["cells_around", "cells_beyond", "prefetch_around", "prefetch_ring"]

Int = Any  # a machine integer, numpy's or Python's
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Slots = NDArray[np.int32]
Singles = NDArray[np.float32]
One = Any  # a request, see `keyword_grid_scan`

#: Postings of a cell that are asked for before it is read.
_ASKED = 16


@lean_kernel
def prefetch_ring(cell: Int, most: Int, cells: Slots, posts: Singles) -> None:
    """Ask for the first of a cell's postings; where a ring goes round, the rest is asked for when it is read."""
    width = posts.shape[1]
    first = (np.int64(cells[cell, RING]) + cells[cell, FRONT]) * width
    for line in range(first, first + min(np.int64(cells[cell, LENGTH]), most) * width, 16):
        prefetch(posts, line)


@lean_kernel
def prefetch_around(start: Int, level: Int, one: One, frame: Floats, cells: Slots, spans: Floats) -> None:
    """Ask for the cells around a place."""
    side = np.int64(1) << level
    u, v = unit_place(one[0], one[1], frame)
    column = _column(u, spans[start, 0], spans[start + 1, 0], side)
    row = _column(v, spans[start, 1], spans[start + 1, 1], side)
    for kind in range(CLASSES - 1, -1, -1):
        for cy in range(max(row - 1, 0), min(row + 1, side - 1) + 1):
            prefetch(cells, 4 * (start + SPAN_ROWS + (((np.int64(kind) << level) + cy) << level) + max(column - 1, 0)))


@lean_kernel
def _halves(y: Any, reach: Any, frame: Floats) -> Any:
    """Return how far a distance, in units of the largest, reaches across and up the unit square."""
    if frame[GLOBE] == 0.0:
        return reach * frame[ACROSS], reach * frame[UPWARD]
    angle = reach * frame[FAR] / frame[GLOBE]
    if not angle < 1.5:
        return np.inf, np.inf
    up = math.degrees(angle)
    if abs(y) + up > 89.9:
        return np.inf, up * frame[3]
    sine = math.sin(angle) / math.cos(math.radians(y))
    across = math.degrees(math.asin(sine)) if sine < 1.0 else np.inf
    return across * frame[2], up * frame[3]


@lean_kernel
def _column(place: Any, begin: Any, to_unit: Any, side: Int) -> Int:
    return np.int64(min(np.float64(side - 1), max(0.0, (place - begin) * to_unit)))


@lean_kernel
def _columns(x: Any, half: Any, frame: Floats, begin: Any, to_unit: Any, side: Int) -> Any:
    """Return the first and the last column that may have messages so near; on the globe columns go round."""
    place = (x - frame[0]) * frame[2]
    if frame[GLOBE] != 0.0 and (x - half / frame[2] < -180.0 or x + half / frame[2] > 180.0):
        return np.int64(0), side - 1
    return _column(place - half, begin, to_unit, side), _column(place + half, begin, to_unit, side)


@lean_kernel
def _gap(place: Any, column: Int, side: Int, begin: Any, to_unit: Any) -> Any:
    """Return how far a column is from a place at least; those at the border have no end."""
    gap = 0.0
    if column > 0:
        gap = begin + column / to_unit - place
    if column < side - 1:
        gap = max(gap, place - begin - (column + 1) / to_unit)
    return max(0.0, gap - 1e-9)


@lean_kernel
def cells_around(
    start: Int,
    level: Int,
    one: One,
    frame: Floats,
    cells: Slots,
    spans: Floats,
    posts: Singles,
    chosen: Slots,
    ends: Ints,
) -> None:
    """Choose the cells around a place that are not empty, those of the class of the largest norms first.

    `ends` takes, for each class, where its part of `chosen` ends; that of the class above is where it begins.
    """
    side = np.int64(1) << level
    u, v = unit_place(one[0], one[1], frame)
    column = _column(u, spans[start, 0], spans[start + 1, 0], side)
    row = _column(v, spans[start, 1], spans[start + 1, 1], side)
    count, width = np.int64(0), posts.shape[1]
    for kind in range(CLASSES - 1, -1, -1):
        for cy in range(max(row - 1, 0), min(row + 1, side - 1) + 1):
            base = start + SPAN_ROWS + (((np.int64(kind) << level) + cy) << level)
            for cell in range(base + max(column - 1, 0), base + min(column + 1, side - 1) + 1):
                if cells[cell, LENGTH] > 0:
                    # As `prefetch_ring`: an array that is passed on has its references counted.
                    first = (np.int64(cells[cell, RING]) + cells[cell, FRONT]) * width
                    for line in range(first, first + min(np.int64(cells[cell, LENGTH]), _ASKED) * width, 16):
                        prefetch(posts, line)
                    chosen[count] = cell
                    count += 1
        ends[kind] = count


@lean_kernel
def cells_beyond(
    start: Int, level: Int, reaches: Floats, one: One, frame: Floats, cells: Slots, spans: Floats, posts: Singles,
    chosen: Slots, ends: Ints, outcome: Ints,
) -> None:  # fmt: skip
    """Choose the other cells that are not empty and that a distance reaches: alpha times the largest, by class."""
    side = np.int64(1) << level
    u0, v0, per_u, per_v = spans[start, 0], spans[start, 1], spans[start + 1, 0], spans[start + 1, 1]
    u, v = unit_place(one[0], one[1], frame)
    column, row, count = _column(u, u0, per_u, side), _column(v, v0, per_v, side), np.int64(0)
    for kind in range(CLASSES - 1, -1, -1):
        ends[kind] = count
        if reaches[kind] < 0:
            continue
        near = reaches[kind] / one[2] * 1.00001 if one[2] > 0.0 else np.inf
        across, upward = _halves(one[1], near, frame)
        low_x, high_x = _columns(one[0], across, frame, u0, per_u, side)
        low_y, high_y = _column(v - upward, v0, per_v, side), _column(v + upward, v0, per_v, side)
        if low_x > 0 or low_y > 0 or high_x < side - 1 or high_y < side - 1:
            outcome[LEFT] = 1
        for cy in range(low_y, high_y + 1):
            base = start + SPAN_ROWS + (((np.int64(kind) << level) + cy) << level)
            up = _gap(v, cy, side, v0, per_v) / frame[UPWARD]
            for cx in range(low_x, high_x + 1):
                if cells[base + cx, LENGTH] == 0 or (abs(cx - column) <= 1 and abs(cy - row) <= 1):
                    continue
                aside = _gap(u, cx, side, u0, per_u) / frame[ACROSS]
                if frame[GLOBE] == 0.0 and aside * aside + up * up > near * near:
                    outcome[LEFT] = 1
                    continue
                prefetch_ring(base + cx, _ASKED, cells, posts)
                chosen[count] = base + cx
                count += 1
        ends[kind] = count
