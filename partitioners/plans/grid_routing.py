"""From the boxes of a `GridPlan` to workers, where boxes divide their keywords.

Layout. Row i has the boxes `off[i]` .. `off[i + 1]` of `box`, as A-Grid found them. Box b has the parts `part_off[b]` ..
`part_off[b + 1]`, each with a worker in `part_worker`. A box with several parts divides its keywords among them: keyword w
belongs to the part of the last `range_start <= w` among the box's ranges (`range_off`); where there is none, or the part
is -1, a hash of w decides.

A query that wants all of its keywords is kept at the part of its rarest one (ids ascend by rarity), one that wants any
at the parts of all, one without keywords at every part; an object visits the parts of all its keywords. So whenever an
object has a keyword that the query is filed under, both are at that keyword's part.
"""

import numpy as np
from numpy.typing import NDArray

from partitioners.columns import Csr, Ints, Offsets, Workers, kernel

__all__ = ["part_workers"]


@kernel
def _mixed(value: int) -> np.uint64:
    """Scramble 64 bits (the finaliser of splitmix64), so that neighbouring ids spread over all parts."""
    z = np.uint64(value) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@kernel
def _part(kw: int, parts: int, first: int, last: int, range_start: Ints, range_part: Workers) -> np.int64:
    low, high = first, last
    while low < high:
        middle = (low + high) >> 1
        if range_start[middle] <= kw:
            low = middle + 1
        else:
            high = middle
    part = np.int64(range_part[low - 1]) if low > first else np.int64(-1)
    return part if part >= 0 else np.int64(_mixed(kw) % np.uint64(parts))


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
                    part = _part(kw[word], parts, range_off[b], range_off[b + 1], range_start, range_part)
                    size = _visit(part_worker[first + part], i, stamp, out, size)
            elif len(scattered) > 0:
                part = np.int64(_mixed(scattered[i]) % np.uint64(parts))
                size = _visit(part_worker[first + part], i, stamp, out, size)
            else:
                for part in range(parts):
                    size = _visit(part_worker[first + part], i, stamp, out, size)
        if size > new_off[i] + 1:
            out[new_off[i] : size].sort()
        new_off[i + 1] = size
    return new_off, out[:size].copy()
