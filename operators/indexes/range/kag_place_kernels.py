"""Places of KAG's postings in lists and in cells of grids; `kag_group_kernels` has the layout."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from operators.indexes.range.kag_group_kernels import (
    BASE,
    CAPACITY,
    COUNT,
    HOLE,
    HOLE_SHIFT,
    LOOKED_AT,
    LOW16,
    SIDE,
    SIZE,
    _centre,
    _class_of,
    _copy,
    _copy_all,
    _give_block,
    _holes,
    _size_of,
    _take_block,
)
from streams.kernel import lean_kernel

Int = Any  # a machine integer, numpy's or Python's
Ints = NDArray[np.int64]
Slots = NDArray[np.int32]
Postings = NDArray[np.uint32]


@lean_kernel
def _cell(g: Int, edge_x: Any, edge_y: Any, groups: Slots, cells: Slots) -> Any:
    """Return where the postings of a box's cell begin and end; a list is one cell."""
    side, base = np.int64(groups[g, SIDE]), np.int64(groups[g, BASE])
    if side == 1:
        return base, base + np.int64(groups[g, COUNT])
    entry = base + ((_centre(edge_y) * side) >> 16) * (side + 2) + 1 + ((_centre(edge_x) * side) >> 16)
    return np.int64(cells[entry]), np.int64(cells[entry + 1])


@lean_kernel
def _place_in_list(g: Int, groups: Slots, postings: Postings, free: Slots, state: Ints) -> Int:
    """Make room at the end of a list and return the place."""
    count, base, capacity = np.int64(groups[g, COUNT]), np.int64(groups[g, BASE]), np.int64(groups[g, CAPACITY])
    if count == capacity:
        block = _size_of(_class_of(count + 1))
        moved = _take_block(block, postings, free, state)
        _copy_all(postings, base, moved, count)
        _give_block(base, capacity, postings, free, state)
        groups[g, BASE], groups[g, CAPACITY] = moved, block
        base = moved
    return base + count


@lean_kernel
def _place_in_row(row: Int, column: Int, side: Int, cells: Slots, postings: Postings, free: Slots, state: Ints) -> Int:
    """Make room at the end of a cell and return the place.

    Order within a cell does not matter, so each later cell gives way by moving its first posting to its end.
    """
    first = row + 1
    length = np.int64(cells[first + side]) - cells[first]
    if length == cells[row]:
        block = _size_of(_class_of(length + 1))
        moved = _take_block(block, postings, free, state)
        base = np.int64(cells[first])
        _copy_all(postings, base, moved, length)
        _give_block(base, length, postings, free, state)
        cells[row] = block
        for k in range(side + 1):
            cells[first + k] += moved - base
    for k in range(side - 1, column, -1):
        start, end = cells[first + k], cells[first + k + 1]
        if end > start:
            _copy(postings, start, end)
        cells[first + k + 1] = end + 1
    place = np.int64(cells[first + column + 1])
    cells[first + column + 1] = place + 1
    return place


@lean_kernel
def _place_in_hole(g: Int, entry: Int, groups: Slots, cells: Slots, postings: Postings) -> Int:
    """Return a hole among the last of a cell and count it as filled, or -1."""
    if _holes(g, groups) > 0:
        last = np.int64(cells[entry + 1])
        for place in range(max(np.int64(cells[entry]), last - LOOKED_AT), last):
            if postings[place, 2] == HOLE:
                groups[g, SIZE] -= 1 << HOLE_SHIFT
                return np.int64(place)
    return np.int64(-1)


@lean_kernel
def _take_out(place: Int, g: Int, groups: Slots, postings: Postings) -> None:
    """Take out a posting: a list's last one takes the place, in a grid a hole is left."""
    if groups[g, SIDE] == 1:
        _copy(postings, np.int64(groups[g, BASE]) + groups[g, COUNT] - 1, place)
    else:
        postings[place, 0] = postings[place, 1] = LOW16
        postings[place, 2], postings[place, 3] = HOLE, np.uint32(0)
        groups[g, SIZE] += 1 << HOLE_SHIFT
    groups[g, COUNT] -= 1
