"""From keywords to workers: within the boxes of a `GridPlan`, and to the boxes of a `KeywordFirstPlan`.

Layout. Row i has the boxes `off[i]` .. `off[i + 1]` of `box`, as A-Grid found them. Box b has the parts `part_off[b]` ..
`part_off[b + 1]`, each with a worker in `part_worker`; they make up the base parts `base_off[b]` .. `base_off[b + 1]`, of which
g has the parts `base_first[g]` .. `base_first[g + 1]`. A box with several parts divides its keywords among them: keyword w
belongs to the base part of the last `range_start <= w` among the box's ranges (`range_off`); where there is none, or the base
part is -1, a hash of w decides. Of the parts of the base part it is the last with `part_start <= w`.

A keyword-first plan is one box, to which the same applies; its part p has the boxes `box_off[p]` .. `box_off[p + 1]`, which
tile the grid, and the workers `who_off[p]` .. `who_off[p + 1]` of `who`.

A query that wants all of its keywords is kept at the part of its rarest one (ids ascend by rarity), one that wants any
at the parts of all, one without keywords at every part; an object visits the parts of all its keywords. So whenever an
object has a keyword that the query is filed under, both are at that keyword's part.
"""

import numpy as np
from numpy.typing import NDArray

from partitioners.columns import Csr, Ints, Offsets, Workers
from streams.kernel import kernel

__all__ = ["box_workers", "boxes_at", "part_workers", "parts_of_words", "workers_of_parts"]


@kernel
def _mixed(value: int) -> np.uint64:
    """Scramble 64 bits (the finaliser of splitmix64), so that neighbouring ids spread over all parts."""
    z = np.uint64(value) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@kernel
def _base(kw: int, bases: int, first: int, last: int, range_start: Ints, range_part: Workers) -> np.int64:
    low, high = first, last
    while low < high:
        middle = (low + high) >> 1
        if range_start[middle] <= kw:
            low = middle + 1
        else:
            high = middle
    base = np.int64(range_part[low - 1]) if low > first else np.int64(-1)
    return base if base >= 0 else np.int64(_mixed(kw) % np.uint64(bases))


@kernel
def _part(
    kw: int,
    box: int,
    part_start: Ints,
    base_off: Offsets,
    base_first: Offsets,
    range_off: Offsets,
    range_start: Ints,
    range_part: Workers,
) -> np.int64:
    first = base_off[box]
    base = first + _base(kw, base_off[box + 1] - first, range_off[box], range_off[box + 1], range_start, range_part)
    low, high = np.int64(base_first[base]), np.int64(base_first[base + 1])
    while high - low > 1:
        middle = (low + high) >> 1
        if part_start[middle] <= kw:
            low = middle
        else:
            high = middle
    return low


@kernel
def parts_of_words(
    kw: Ints,
    box: Ints,
    part_start: Ints,
    base_off: Offsets,
    base_first: Offsets,
    range_off: Offsets,
    range_start: Ints,
    range_part: Workers,
) -> Ints:
    """Return the part of each keyword in a box."""
    out = np.empty(len(kw), np.int64)
    for i in range(len(kw)):
        out[i] = _part(kw[i], box[i], part_start, base_off, base_first, range_off, range_start, range_part)
    return out


@kernel
def _visit(worker: int, row: int, stamp: Ints, out: Workers, size: int) -> int:
    if stamp[worker] == row:
        return size
    stamp[worker] = row
    out[size] = worker
    return size + 1


@kernel
def _roomy(out: Workers, size: int, more: int) -> Workers:
    if size + more <= len(out):
        return out
    wider = np.empty(max(2 * len(out), size + more), np.int32)
    wider[:size] = out[:size]
    return wider


@kernel
def part_workers(
    off: Offsets,
    box: Workers,
    kw_off: Offsets,
    kw: Ints,
    by_all: NDArray[np.bool_],
    scattered: Ints,
    part_off: Offsets,
    part_worker: Workers,
    part_start: Ints,
    base_off: Offsets,
    base_first: Offsets,
    range_off: Offsets,
    range_start: Ints,
    range_part: Workers,
    workers: int,
) -> Csr:
    """Return the workers of each row in the boxes of the row.

    Where `by_all` is true, a row goes to the parts of all its keywords, else to that of its last one. Rows without keywords
    are objects, of which `scattered` decides the part, or queries, which go to all parts: then `scattered` is empty.
    """
    rows = len(off) - 1
    new_off = np.zeros(rows + 1, np.int32)
    out = np.empty(rows + workers, np.int32)
    stamp = np.full(workers, -1, np.int64)
    size = 0
    for i in range(rows):
        out = _roomy(out, size, workers)
        for j in range(off[i], off[i + 1]):
            b = box[j]
            first, parts = part_off[b], part_off[b + 1] - part_off[b]
            if parts == 1:
                size = _visit(part_worker[first], i, stamp, out, size)
            elif kw_off[i] < kw_off[i + 1]:
                for word in range(kw_off[i] if by_all[i] else kw_off[i + 1] - 1, kw_off[i + 1]):
                    part = _part(kw[word], b, part_start, base_off, base_first, range_off, range_start, range_part)
                    size = _visit(part_worker[part], i, stamp, out, size)
            elif len(scattered) > 0:
                base = base_off[b] + np.int64(_mixed(scattered[i]) % np.uint64(base_off[b + 1] - base_off[b]))
                size = _visit(part_worker[base_first[base]], i, stamp, out, size)
            else:
                for at in range(first, first + parts):
                    size = _visit(part_worker[at], i, stamp, out, size)
        if size > new_off[i] + 1:
            out[new_off[i] : size].sort()
        new_off[i + 1] = size
    return new_off, out[:size].copy()


@kernel
def workers_of_parts(
    kw_off: Offsets,
    kw: Ints,
    scattered: Ints,
    part_start: Ints,
    base_off: Offsets,
    base_first: Offsets,
    range_off: Offsets,
    range_start: Ints,
    range_part: Workers,
    who_off: Offsets,
    who: Workers,
    workers: int,
) -> Csr:
    """Return all workers of the parts of each object's keywords; `scattered` decides for one that has none."""
    rows = len(kw_off) - 1
    new_off = np.zeros(rows + 1, np.int32)
    out = np.empty(rows + workers, np.int32)
    stamp = np.full(workers, -1, np.int64)
    size = 0
    for i in range(rows):
        out = _roomy(out, size, workers)
        for word in range(kw_off[i], max(kw_off[i + 1], kw_off[i] + 1)):
            if word < kw_off[i + 1]:
                part = _part(kw[word], 0, part_start, base_off, base_first, range_off, range_start, range_part)
            else:
                part = np.int64(base_first[np.int64(_mixed(scattered[i]) % np.uint64(base_off[1]))])
            for j in range(who_off[part], who_off[part + 1]):
                size = _visit(who[j], i, stamp, out, size)
        if size > new_off[i] + 1:
            out[new_off[i] : size].sort()
        new_off[i + 1] = size
    return new_off, out[:size].copy()


@kernel
def _box_at(part: int, column: int, row: int, box_off: Offsets, boxes: Workers) -> np.int64:
    for box in range(box_off[part], box_off[part + 1]):
        if boxes[box, 0] <= column <= boxes[box, 2] and boxes[box, 1] <= row <= boxes[box, 3]:
            return np.int64(box)
    return np.int64(box_off[part])


@kernel
def boxes_at(part: Ints, cell: Ints, columns: int, box_off: Offsets, boxes: Workers) -> Ints:
    """Return the box of each part that a cell is in."""
    out = np.empty(len(part), np.int64)
    for i in range(len(part)):
        out[i] = _box_at(part[i], cell[i] % columns, cell[i] // columns, box_off, boxes)
    return out


@kernel
def box_workers(row: Ints, box: Ints, box_worker: Workers, rows: int, workers: int) -> Csr:
    """Return the workers of boxes by row, rows in ascending order."""
    off, out = np.zeros(rows + 1, np.int32), np.empty(len(row), np.int32)
    stamp = np.full(workers, -1, np.int64)
    size = at = 0
    for i in range(rows):
        begin = size
        while at < len(row) and row[at] == i:
            size = _visit(box_worker[box[at]], i, stamp, out, size)
            at += 1
        if size > begin + 1:
            out[begin:size].sort()
        off[i + 1] = size
    return off, out[:size].copy()
