"""Tornado's initial partitions (Section 4.1): a k-d decomposition of the fine grid by cost; and the uniform grid.

Each split looks at two lines of prefix sums, so a decomposition into N partitions of an m x n grid costs one pass over
the cells and O(N (m + n)) after it.
"""

import heapq
import math
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from partitioners.builders.spreading import dealt
from partitioners.columns import Floats
from partitioners.grids.fine_grid import FineGrid, box_sums, prefix_sums
from partitioners.plans.grid_plan import GridPlan
from streams.errors import DeclarationError

__all__ = ["Box", "Boxes", "kd_decomposition", "kd_plan", "uniform_boxes", "uniform_plan"]

Boxes = NDArray[np.int32]
Box = tuple[int, int, int, int]


def kd_decomposition(costs: Floats, partitions: int) -> Boxes:
    """Cut a grid of costs (rows x columns) into at most so many boxes; the dearest box is cut next.

    A cut minimises the larger of the two costs (towards Equation 3, the maximum over all partitions); of equal cuts the
    one that divides the cells most evenly is taken, then the one across the columns, then the first. A single
    cell cannot be cut: the paper stops when it is the dearest; we set it aside and use the remaining partitions, which
    changes nothing about the maximum and helps the others.
    """
    if costs.ndim != 2 or costs.size == 0 or not np.isfinite(costs).all() or (costs < 0).any():
        raise DeclarationError(
            "costs of cells must be a table (rows x columns) of finite numbers that are not negative"
        )
    if partitions < 1:
        raise DeclarationError(f"cannot cut the space into {partitions} partitions; expected at least 1")
    sums = prefix_sums(costs)
    rows, columns = costs.shape
    heap: list[tuple[float, int, Box]] = [(-float(sums[-1, -1]), 0, (0, 0, columns - 1, rows - 1))]
    whole: list[Box] = []
    number = 0
    while heap and len(heap) + len(whole) < partitions:
        _, _, box = heapq.heappop(heap)
        if box[0] == box[2] and box[1] == box[3]:
            whole.append(box)
            continue
        for cost, half in _cut(sums, box):
            number += 1
            heapq.heappush(heap, (-cost, number, half))
    boxes = np.array([box for _, _, box in heap] + whole, np.int32)
    return boxes[np.lexsort((boxes[:, 0], boxes[:, 1]))]


def _cut(sums: Floats, box: Box) -> list[tuple[float, Box]]:
    """Return the two halves of a box with their costs."""
    x0, y0, x1, y1 = box
    choices = []
    for axis, running in enumerate(box_sums(sums, *box)):
        if len(running) == 1:
            continue
        before, total = running[:-1], running[-1]
        larger = np.maximum(before, total - before)
        uneven = np.abs(2 * np.arange(1, len(running)) - len(running)) * (y1 - y0 + 1 if axis == 0 else x1 - x0 + 1)
        place = int(np.lexsort((uneven, larger))[0])
        choices.append((float(larger[place]), int(uneven[place]), axis, place, float(before[place]), float(total)))
    _, _, axis, place, before_cost, total_cost = min(choices)
    if axis == 0:
        halves = ((x0, y0, x0 + place, y1), (x0 + place + 1, y0, x1, y1))
    else:
        halves = ((x0, y0, x1, y0 + place), (x0, y0 + place + 1, x1, y1))
    return [(before_cost, halves[0]), (total_cost - before_cost, halves[1])]


def kd_plan(grid: FineGrid, costs: Floats, workers: int, pieces: int = 1) -> GridPlan:
    """Build Tornado's plan: one partition for each evaluator, its cost by Equation 2; or so many pieces for each."""
    if costs.shape != (grid.rows, grid.columns):
        raise DeclarationError(
            f"costs are a table of {costs.shape}, but the fine grid has {grid.rows} rows of {grid.columns} columns"
        )
    if pieces < 1:
        raise DeclarationError(f"pieces = {pieces}, expected at least 1 for each worker")
    boxes = kd_decomposition(costs, workers * pieces)
    cost = _box_costs(costs, boxes)
    owner = np.arange(len(boxes)) if pieces == 1 else dealt(boxes, cost, workers)
    return GridPlan.of_boxes(grid, boxes, owner, workers, cost)


def _box_costs(costs: Floats, boxes: Boxes) -> Floats:
    sums = prefix_sums(costs)
    x0, y0, x1, y1 = boxes[:, 0], boxes[:, 1], boxes[:, 2] + 1, boxes[:, 3] + 1
    return np.asarray(sums[y1, x1] - sums[y0, x1] - sums[y1, x0] + sums[y0, x0])


def uniform_boxes(grid: FineGrid, partitions: int) -> Boxes:
    """Cut the grid into boxes of equal size, as nearly as its cells allow (Tornado's Uni-Space-Rout).

    The number of boxes is cut into rows x columns as nearly square as its divisors allow; a prime number gives strips.
    """
    if partitions < 1:
        raise DeclarationError(f"cannot cut the space into {partitions} partitions; expected at least 1")
    across = min(
        (d for d in range(1, partitions + 1) if partitions % d == 0),
        key=lambda d: (abs(math.log((grid.columns / d) / (grid.rows / (partitions / d)))), d),
    )
    down = partitions // across
    edges_x = np.arange(min(across, grid.columns) + 1) * grid.columns // min(across, grid.columns)
    edges_y = np.arange(min(down, grid.rows) + 1) * grid.rows // min(down, grid.rows)
    return np.array(
        [(x0, y0, x1 - 1, y1 - 1) for y0, y1 in pairwise(edges_y) for x0, x1 in pairwise(edges_x)],
        np.int32,
    )


def uniform_plan(grid: FineGrid, workers: int) -> GridPlan:
    """Build the plan of equal, non-overlapping ranges that looks at no statistics."""
    boxes = uniform_boxes(grid, workers)
    return GridPlan.of_boxes(grid, boxes, np.arange(len(boxes)), workers)
