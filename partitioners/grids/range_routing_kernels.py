"""Kernels of the range routers: A-Grid, plain grid and R-tree (Tornado, Sections 3.1 and 5.2).

Layout. `owner[row * columns + column]` is the partition of a fine-grid cell. `edges` are min x, min y, columns per unit,
rows per unit, max x, max y of the space. `table[p]` is the row of partition p in A-Grid's partition map, with the shortcuts
that `partitioners.grids.a_grid` explains; `beside[p]` names neighbours of p. Both are small, so that they stay in the cache:

    table   0..3  first column, first row, last column, last row
            4, 6  last column and right child, or `FAR` and p itself where there is no right child
            5, 7  last row and bottom child, or `FAR` and p itself where there is no bottom child
    beside  0, 1  the partitions to the right of the first and of the last row of p, or p itself at the edge
            2, 3  the partitions below the first and the last column of p, or p itself at the edge

`guide` has a cell for each block of 2^shift x 2^shift cells (shifts for columns and rows) and holds the partition of the
block's middle. Most cells of a block are in that partition, which the map tells; only for the others is the fine grid read.
The guide has at most 256 x 256 blocks however fine the grid is, so it stays in the cache, which the fine grid does not.

A range becomes a box of cells first (`cell_boxes`). The cell of a coordinate is monotone in float64, so this box holds
the cells of all points of the closed range and no others; a range without a point in the space (outside, or its end before
its beginning) gets -1 four times. All searches work on these boxes, so their answers are comparable bit for bit.

Rows of partitions are ascending. A search that would write more than `limit` partitions stops and says so by the last of
its results. Indices are unsigned, because a signed one costs a test for negative numbers at every access; and where a
branch would be a coin toss, a value is written in any case and counted if it holds.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from partitioners.columns import Floats, Offsets, Workers
from streams.kernel import kernel

__all__ = [
    "FAR",
    "UNOWNED",
    "any_unowned",
    "cell_boxes",
    "middles",
    "neighbour_ranges",
    "owned_points",
    "paint",
    "partition_map",
    "scanned_ranges",
    "tree_points",
    "tree_ranges",
    "workers_of_rows",
]

Owner = NDArray[np.uint16]
Table = NDArray[np.int32]
Map = NDArray[np.uint16]
Bits = NDArray[np.uint64]
Int = Any  # a machine integer, numpy's or Python's
Routed = tuple[Offsets, Workers, bool]

#: What a cell holds that no partition has.
UNOWNED = 65535
#: A column or row that no range reaches.
FAR = 65535

#: Rows up to this long are put in order by insertion; longer ones by a set of bits, unless their numbers are so far apart
#: that there are more than two words of it for each.
_SHORT, _SPREAD = 8, 128
_ONE = np.uintp(1)
#: The place of a lone bit in a word is found by a multiplication that moves a different pattern of six bits to the top.
_PATTERN = 0x03F79D71B4CB0A89
_TOP_SIX = np.uint64(58)
_PLACES = np.argsort([(_PATTERN << place) % 2**64 >> 58 for place in range(64)]).astype(np.int32)
_DE_BRUIJN = np.uint64(_PATTERN)


@kernel
def _cell(value: float, low: float, per_unit: float, cells: int) -> int:
    place = (value - low) * per_unit
    return 0 if not place >= 1.0 else (cells - 1 if place >= cells else int(place))


@kernel
def cell_boxes(
    min_x: Floats, min_y: Floats, max_x: Floats, max_y: Floats, edges: Floats, columns: int, rows: int, nearest: bool
) -> Table:
    """Return first column, first row, last column, last row of each range, or -1 four times where it has no cells.

    With `nearest`, a range outside of the space has the cells next to it.
    """
    boxes = np.empty((len(min_x), 4), np.int32)
    for i in range(len(min_x)):
        inside = min_x[i] <= edges[4] and min_y[i] <= edges[5] and max_x[i] >= edges[0] and max_y[i] >= edges[1]
        if (inside or nearest) and min_x[i] <= max_x[i] and min_y[i] <= max_y[i]:
            boxes[i, 0] = _cell(min_x[i], edges[0], edges[2], columns)
            boxes[i, 1] = _cell(min_y[i], edges[1], edges[3], rows)
            boxes[i, 2] = _cell(max_x[i], edges[0], edges[2], columns)
            boxes[i, 3] = _cell(max_y[i], edges[1], edges[3], rows)
        else:
            boxes[i] = -1
    return boxes


@kernel
def _wider(out: Workers, size: Int, more: int) -> Workers:
    wider = np.empty(2 * len(out) + more, np.int32)
    wider[:size] = out[:size]
    return wider


@kernel
def _ascend(out: Workers, start: Int, end: Int, bits: Bits) -> None:
    """Put a row in order; `bits` are clear before and after."""
    count = np.int64(end - start)
    if count <= _SHORT:
        for i in range(start + _ONE, end):
            j = np.uintp(i)
            value = out[j]
            while j > start and out[j - _ONE] > value:
                out[j] = out[j - _ONE]
                j -= _ONE
            out[j] = value
        return
    low = high = out[start]
    for i in range(start, end):
        low, high = min(low, out[np.uintp(i)]), max(high, out[np.uintp(i)])
    if high - low >= _SPREAD * count:
        out[start:end].sort()
        return
    for i in range(start, end):
        p = out[np.uintp(i)]
        bits[np.uintp(p >> 6)] |= np.uint64(1) << np.uint64(p & 63)
    at = start
    for place in range(low >> 6, (high >> 6) + 1):
        word = bits[np.uintp(place)]
        bits[np.uintp(place)] = 0
        while word != 0:
            rest = word & (word - np.uint64(1))
            out[at] = (place << 6) + _PLACES[((word ^ rest) * _DE_BRUIJN) >> _TOP_SIX]
            at += _ONE
            word = rest


@kernel
def paint(owner: NDArray[np.uint16], boxes: Table, numbers: Workers) -> None:
    """Write the number of each box into its cells; `owner` has rows x columns."""
    for i in range(len(numbers)):
        owner[boxes[i, 1] : boxes[i, 3] + 1, boxes[i, 0] : boxes[i, 2] + 1] = numbers[i]


@kernel
def any_unowned(owner: NDArray[np.uint16], boxes: Table) -> bool:
    """Tell whether a cell of these boxes belongs to nobody; `owner` has rows x columns."""
    for i in range(len(boxes)):
        for row in range(boxes[i, 1], boxes[i, 3] + 1):
            for column in range(boxes[i, 0], boxes[i, 2] + 1):
                if owner[row, column] == UNOWNED:
                    return True
    return False


@kernel
def partition_map(boxes: Table, owner: Owner, columns: int, rows: int) -> tuple[Map, Map]:
    """Return the partition map: bounds and shortcuts, and neighbours, of each partition."""
    table = np.empty((len(boxes), 8), np.uint16)
    beside = np.empty((len(boxes), 4), np.uint16)
    for p in range(len(boxes)):
        x0, y0, x1, y1 = np.int64(boxes[p, 0]), np.int64(boxes[p, 1]), np.int64(boxes[p, 2]), np.int64(boxes[p, 3])
        table[p, :4] = boxes[p]
        table[p, 4:6] = FAR
        table[p, 6:] = p
        beside[p] = p
        if x1 + 1 < columns:
            right = owner[y0 * columns + x1 + 1]
            beside[p, 0], beside[p, 1] = right, owner[y1 * columns + x1 + 1]
            if boxes[right, 1] == y0:
                table[p, 4], table[p, 6] = x1, right
        if y1 + 1 < rows:
            bottom = owner[(y1 + 1) * columns + x0]
            beside[p, 2], beside[p, 3] = bottom, owner[(y1 + 1) * columns + x1]
            before = owner[(y1 + 1) * columns + (x0 - 1 if x0 > 0 else 0)]
            # One pointer to each partition is enough: where a right pointer leads here too, this one is left out.
            if boxes[bottom, 0] == x0 and (x0 == 0 or boxes[before, 1] != y1 + 1):
                table[p, 5], table[p, 7] = y1, bottom
    return table, beside


@kernel
def middles(owner: Owner, columns: int, rows: int, shifts: tuple[int, int]) -> Owner:
    """Return the guide: the partition in the middle of each block, the last ones cut off by the edge."""
    across, down = ((columns - 1) >> shifts[0]) + 1, ((rows - 1) >> shifts[1]) + 1
    guide = np.empty(across * down, np.uint16)
    for block_row in range(down):
        row = min((block_row << shifts[1]) + ((1 << shifts[1]) >> 1), rows - 1)
        for block in range(across):
            column = min((block << shifts[0]) + ((1 << shifts[0]) >> 1), columns - 1)
            guide[block_row * across + block] = owner[row * columns + column]
    return guide


@kernel
def owned_points(x: Floats, y: Floats, edges: Floats, shape: tuple[int, int], owner: Owner) -> Workers:
    """Return the partition of each point: one look at a cell."""
    out = np.empty(len(x), np.int32)
    for i in range(len(x)):
        column = _cell(x[i], edges[0], edges[2], shape[0])
        row = _cell(y[i], edges[1], edges[3], shape[1])
        out[i] = owner[np.uintp(row * shape[0] + column)]
    return out


@kernel
def _at(
    column: Int, row: Int, columns: int, owner: Owner, table: Map, guide: Owner, blocks: Int, shift: tuple[Int, Int]
) -> Int:
    """Return the partition of a cell; `blocks` are those in a row of the guide."""
    p = np.uintp(guide[(np.uintp(row) >> shift[1]) * blocks + (np.uintp(column) >> shift[0])])
    across = (table[p, 0] <= column) & (column <= table[p, 2])
    if across & (table[p, 1] <= row) & (row <= table[p, 3]):
        return p
    return np.uintp(owner[np.uintp(np.int64(row) * columns + column)])


@kernel
def _along(
    p: Int,
    axis: int,
    line: Int,
    columns: int,
    owner: Owner,
    table: Map,
    beside: Map,
    guide: Owner,
    blocks: Int,
    shift: tuple[Int, Int],
) -> Int:
    """Return the partition after p along a row (axis 0) or a column (axis 1) that p reaches.

    It is one of the two neighbours that `beside` names; or else, in the midst of many neighbours, the cell is asked.
    """
    near, far = np.uintp(beside[p, 2 * axis]), np.uintp(beside[p, 2 * axis + 1])
    q = far if table[far, 1 - axis] <= line else near
    if table[q, 3 - axis] >= line:
        return q
    beyond = np.int64(table[p, 2 + axis]) + 1
    column, row = (beyond, np.int64(line)) if axis == 0 else (np.int64(line), beyond)
    return _at(column, row, columns, owner, table, guide, blocks, shift)


@kernel
def neighbour_ranges(
    ranges: Table,
    columns: int,
    owner: Owner,
    table: Map,
    beside: Map,
    guide: Owner,
    shifts: tuple[int, int],
    limit: int,
) -> Routed:
    """Return the partitions of each range by neighbour-based routing; `partitioners.grids.a_grid` proves that none is missed.

    First come the partitions along the first row and along the first column of the range, from dominant cell to dominant
    cell; then their children, and the children of those, which wait in `queue`. The right children of the row are in the
    row and the bottom children of the column in the column, so that each kind is looked at in one of the lines only.
    """
    partitions = len(table)
    off = np.zeros(len(ranges) + 1, np.int32)
    out = np.empty(len(ranges) + partitions + 1, np.int32)
    bits = np.zeros((partitions + 63) >> 6, np.uint64)
    queue = np.empty(partitions + 1, np.uint16)
    shift = np.uintp(shifts[0]), np.uintp(shifts[1])
    blocks = (np.uintp(columns - 1) >> shift[0]) + _ONE
    size = np.uintp(0)
    for i in range(len(ranges)):
        start = size
        x0, y0, x1, y1 = ranges[i, 0], ranges[i, 1], ranges[i, 2], ranges[i, 3]
        if x1 >= 0:
            if np.int64(size) + partitions >= len(out):
                out = _wider(out, size, partitions)
            corner = _at(x0, y0, columns, owner, table, guide, blocks, shift)
            out[size] = corner
            size += _ONE
            if table[corner, 2] < x1 or table[corner, 3] < y1:
                p, first, last = corner, np.uintp(0), np.uintp(0)
                while table[p, 2] < x1:
                    p = _along(p, 0, y0, columns, owner, table, beside, guide, blocks, shift)
                    out[size] = p
                    size += _ONE
                    queue[last] = table[p, 7]
                    last += np.uintp(table[p, 5] < y1)
                p = corner
                while table[p, 3] < y1:
                    p = _along(p, 1, x0, columns, owner, table, beside, guide, blocks, shift)
                    out[size] = p
                    size += _ONE
                    queue[last] = table[p, 6]
                    last += np.uintp(table[p, 4] < x1)
                while first < last:
                    p = np.uintp(queue[first])
                    first += _ONE
                    out[size] = p
                    size += _ONE
                    queue[last] = table[p, 6]
                    last += np.uintp(table[p, 4] < x1)
                    queue[last] = table[p, 7]
                    last += np.uintp(table[p, 5] < y1)
                _ascend(out, start, size, bits)
            if np.int64(size) > limit:
                return off, out[:0], False
        off[i + 1] = size
    return off, out[:size], True


@kernel
def scanned_ranges(ranges: Table, columns: int, owner: Owner, partitions: int, limit: int) -> Routed:
    """Return the partitions of each range by looking at each of its cells, with a stamp on those that are found."""
    off = np.zeros(len(ranges) + 1, np.int32)
    out = np.empty(len(ranges) + partitions + 1, np.int32)
    bits = np.zeros((partitions + 63) >> 6, np.uint64)
    stamp = np.full(partitions, -1, np.int32)
    size = np.uintp(0)
    for i in range(len(ranges)):
        start = size
        if ranges[i, 2] >= 0:
            if np.int64(size) + partitions >= len(out):
                out = _wider(out, size, partitions)
            for row in range(ranges[i, 1], ranges[i, 3] + 1):
                first = np.int64(row) * columns
                for cell in range(first + ranges[i, 0], first + ranges[i, 2] + 1):
                    p = np.uintp(owner[np.uintp(cell)])
                    if stamp[p] != i:
                        stamp[p] = i
                        out[size] = p
                        size += _ONE
            if np.int64(size) > limit:
                return off, out[:0], False
            _ascend(out, start, size, bits)
        off[i + 1] = size
    return off, out[:size], True


@kernel
def tree_ranges(ranges: Table, boxes: Table, child: Table, number: Workers, limit: int) -> Routed:
    """Return the partitions of each range by a search of the R-tree laid out as `partitioners.grids.r_tree` says."""
    partitions = len(number)
    off = np.zeros(len(ranges) + 1, np.int32)
    out = np.empty(len(ranges) + partitions + 1, np.int32)
    bits = np.zeros((partitions + 63) >> 6, np.uint64)
    stack = np.empty(len(child) + 1, np.int32)
    size = np.uintp(0)
    for i in range(len(ranges)):
        start = size
        x0, y0, x1, y1 = ranges[i, 0], ranges[i, 1], ranges[i, 2], ranges[i, 3]
        if x1 >= 0:
            if np.int64(size) + partitions >= len(out):
                out = _wider(out, size, partitions)
            stack[0] = len(child) - 1
            top = _ONE
            while top > 0:
                top -= _ONE
                node = np.uintp(stack[top])
                first, last = child[node, 0], child[node, 1]
                for entry in range(first, last):
                    e = np.uintp(entry)
                    across = (boxes[e, 0] <= x1) & (boxes[e, 2] >= x0)
                    hit = np.uintp(across & (boxes[e, 1] <= y1) & (boxes[e, 3] >= y0))
                    if first < partitions:
                        out[size] = number[e]
                        size += hit
                    else:
                        stack[top] = entry - partitions
                        top += hit
            if np.int64(size) > limit:
                return off, out[:0], False
            _ascend(out, start, size, bits)
        off[i + 1] = size
    return off, out[:size], True


@kernel
def tree_points(
    x: Floats, y: Floats, edges: Floats, shape: tuple[int, int], boxes: Table, child: Table, number: Workers
) -> Workers:
    """Return the partition of each point by a search of the R-tree that ends at the first hit, as there is only one."""
    out = np.empty(len(x), np.int32)
    stack = np.empty(len(child), np.int32)
    for i in range(len(x)):
        column = _cell(x[i], edges[0], edges[2], shape[0])
        row = _cell(y[i], edges[1], edges[3], shape[1])
        stack[0] = len(child) - 1
        top = 1
        while top > 0:
            top -= 1
            node = stack[top]
            for entry in range(child[node, 0], child[node, 1]):
                across = boxes[entry, 0] <= column and boxes[entry, 2] >= column
                if across and boxes[entry, 1] <= row and boxes[entry, 3] >= row:
                    if entry < len(number):
                        out[i] = number[entry]
                        top = 0
                        break
                    stack[top] = entry - len(number)
                    top += 1
    return out


@kernel
def workers_of_rows(off: Offsets, partition: Workers, worker: Workers, workers: int) -> tuple[Offsets, Workers]:
    """Return rows of ascending, distinct workers for rows of partitions."""
    new_off = np.zeros(len(off), np.int32)
    out = np.empty(len(partition), np.int32)
    stamp = np.full(workers, -1, np.int32)
    bits = np.zeros((workers + 63) >> 6, np.uint64)
    size = np.uintp(0)
    for i in range(len(off) - 1):
        start = size
        for j in range(off[i], off[i + 1]):
            w = worker[partition[j]]
            if stamp[w] != i:
                stamp[w] = i
                out[size] = w
                size += _ONE
        _ascend(out, start, size, bits)
        new_off[i + 1] = size
    return new_off, out[:size]
