"""The walk from box to box that grid plans routed with before they had an A-Grid: what `bench routing` compares with.

Layout. `owner[cell]` is the box of a fine-grid cell, `boxes[b]` its first column, first row, last column, last row; parts of
boxes and ranges of keywords are as `partitioners.plans.grid_routing` has them.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partitioners.columns import Csr, Floats, Ints, Offsets, Points, Regions, Workers, column
from partitioners.plans.grid_plan import GridPlan
from streams.kernel import kernel

__all__ = ["BoxWalk"]


@dataclass(frozen=True, slots=True, eq=False)
class BoxWalk:
    """Routes like a grid plan, by the walk."""

    plan: GridPlan
    owner: Workers

    @classmethod
    def of_plan(cls, plan: GridPlan) -> "BoxWalk":
        """Lay the boxes of a plan over its grid."""
        return cls(plan, column(plan.a_grid.owner, np.int32))

    def route_points(self, points: Points) -> Csr:
        """Return the workers that must see each object."""
        p, plan = points, self.plan
        scattered = p.x.view(np.int64) ^ (p.y.view(np.int64) >> 7)
        found: Csr = _grid_points(
            p.x, p.y, p.kw_off, p.kw, scattered, np.array(plan.grid.scale()), (plan.columns, plan.rows), plan.anchored,
            self.owner, plan.part_off, plan.part_worker, plan.range_off, plan.range_start, plan.range_part, plan.workers,
        )  # fmt: skip
        return found

    def route_regions(self, regions: Regions) -> Csr:
        """Return the workers that must hold each query."""
        r, plan = regions, self.plan
        found: Csr = _grid_regions(
            r.bounds, r.at_x, r.at_y, r.kw_off, r.kw, r.match_any, np.array(plan.grid.scale()),
            (plan.columns, plan.rows), plan.anchored, self.owner, plan.boxes, plan.part_off, plan.part_worker,
            plan.range_off, plan.range_start, plan.range_part, plan.workers,
        )  # fmt: skip
        return found


@kernel
def _mixed(value: int) -> np.uint64:
    """Scramble 64 bits (the finaliser of splitmix64), so that neighbouring ids spread over all parts."""
    z = np.uint64(value) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@kernel
def _cell(value: float, low: float, scale: float, cells: int) -> int:
    place = (value - low) * scale
    return 0 if not place >= 1.0 else (cells - 1 if place >= cells else int(place))


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
def _grid_points(
    x: Floats,
    y: Floats,
    kw_off: Offsets,
    kw: Ints,
    scattered: Ints,
    scale: Floats,
    shape: tuple[int, int],
    anchored: bool,
    owner: Workers,
    part_off: Offsets,
    part_worker: Workers,
    range_off: Offsets,
    range_start: Ints,
    range_part: Workers,
    workers: int,
) -> Csr:
    """Return the workers of each object; `scattered` decides the part of an object without keywords."""
    off = np.zeros(len(x) + 1, np.int32)
    out = np.empty(len(x) + workers, np.int32)
    stamp = np.full(workers, -1, np.int64)
    size = 0
    for i in range(len(x)):
        out = _roomy(out, size, workers)
        if anchored:
            first_box, last_box = 0, len(part_off) - 1
        else:
            column = _cell(x[i], scale[0], scale[2], shape[0])
            row = _cell(y[i], scale[1], scale[3], shape[1])
            first_box = owner[row * shape[0] + column]
            last_box = first_box + 1
        for box in range(first_box, last_box):
            parts = part_off[box + 1] - part_off[box]
            if parts == 1:
                size = _visit(part_worker[part_off[box]], i, stamp, out, size)
            elif kw_off[i] == kw_off[i + 1]:
                part = np.int64(_mixed(scattered[i]) % np.uint64(parts))
                size = _visit(part_worker[part_off[box] + part], i, stamp, out, size)
            else:
                for j in range(kw_off[i], kw_off[i + 1]):
                    part = _part(kw[j], parts, range_off[box], range_off[box + 1], range_start, range_part)
                    size = _visit(part_worker[part_off[box] + part], i, stamp, out, size)
        if size > off[i] + 1:
            out[off[i] : size].sort()
        off[i + 1] = size
    return off, out[:size].copy()


@kernel
def _grid_regions(
    bounds: tuple[Floats, Floats, Floats, Floats],
    at_x: Floats,
    at_y: Floats,
    kw_off: Offsets,
    kw: Ints,
    match_any: NDArray[np.bool_],
    scale: Floats,
    shape: tuple[int, int],
    anchored: bool,
    owner: Workers,
    boxes: NDArray[np.int32],
    part_off: Offsets,
    part_worker: Workers,
    range_off: Offsets,
    range_start: Ints,
    range_part: Workers,
    workers: int,
) -> Csr:
    """Return the workers of each query.

    Instead of looking at every cell, the walk jumps from a box to its right-hand neighbour and, at the end of a line,
    down to the first row where one of the boxes met there has ended.
    """
    rows = len(at_x)
    off = np.zeros(rows + 1, np.int32)
    out = np.empty(rows + workers, np.int32)
    stamp = np.full(workers, -1, np.int64)
    size = 0
    for i in range(rows):
        out = _roomy(out, size, workers)
        if anchored:
            x0 = x1 = _cell(at_x[i], scale[0], scale[2], shape[0])
            y0 = y1 = _cell(at_y[i], scale[1], scale[3], shape[1])
        elif bounds[0][i] <= bounds[2][i] and bounds[1][i] <= bounds[3][i]:
            x0, x1 = (
                _cell(bounds[0][i], scale[0], scale[2], shape[0]),
                _cell(bounds[2][i], scale[0], scale[2], shape[0]),
            )
            y0, y1 = (
                _cell(bounds[1][i], scale[1], scale[3], shape[1]),
                _cell(bounds[3][i], scale[1], scale[3], shape[1]),
            )
        else:
            x0, x1, y0, y1 = 0, -1, 0, -1
        y = y0
        while y <= y1:
            x, next_y = x0, y1 + 1
            while x <= x1:
                box = owner[y * shape[0] + x]
                parts = part_off[box + 1] - part_off[box]
                first = part_off[box]
                if parts == 1 or kw_off[i] == kw_off[i + 1]:
                    for at in range(first, first + parts):
                        size = _visit(part_worker[at], i, stamp, out, size)
                else:
                    for j in range(kw_off[i] if match_any[i] else kw_off[i + 1] - 1, kw_off[i + 1]):
                        part = _part(kw[j], parts, range_off[box], range_off[box + 1], range_start, range_part)
                        size = _visit(part_worker[first + part], i, stamp, out, size)
                next_y = min(next_y, boxes[box, 3] + 1)
                x = boxes[box, 2] + 1
            y = next_y
        if size > off[i] + 1:
            out[off[i] : size].sort()
        off[i + 1] = size
    return off, out[:size].copy()
