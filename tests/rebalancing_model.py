"""Fields of cost and queries on a grid, tilings of every make, and what rebalancing must come to, cell by cell."""

from dataclasses import dataclass, replace

import numpy as np

from operators.balancing.tornado import BorderShift, SplitMerge, SplitOff, apply, decide, shift_position
from operators.balancing.tornado.cells import decide_centralised
from operators.balancing.tornado.partition_loads import load_of_partition
from operators.balancing.tornado.partitions import Partitions
from operators.balancing.tornado.random_moves import decide_at_random
from operators.balancing.tornado.tornado_paper import decide_as_paper
from operators.indexes import Load
from partitioners import FineGrid, GridPlan
from streams.geometry import Rect

SPACE = Rect(0.0, 0.0, 1.0, 1.0)

#: How the policies of Tornado choose operations, before these become a change of the plan.
OPERATIONS = {"tornado": decide, "tornado-paper": decide_as_paper, "tornado-centralised": decide_centralised}


@dataclass(frozen=True)
class Field:
    """Costs by cell (rows x columns) and queries as boxes of cells."""

    cost: np.ndarray
    queries: np.ndarray

    def cost_of(self, box):
        x0, y0, x1, y1 = box
        return int(self.cost[y0 : y1 + 1, x0 : x1 + 1].sum())

    def queries_of(self, box):
        """Return the queries that overlap a box."""
        x0, y0, x1, y1 = box
        q = self.queries
        return q[(q[:, 0] <= x1) & (q[:, 2] >= x0) & (q[:, 1] <= y1) & (q[:, 3] >= y0)]

    def load(self, box):
        """Return what the index of the evaluator of a box counts."""
        x0, y0, x1, y1 = box
        cost = np.zeros_like(self.cost)
        cost[y0 : y1 + 1, x0 : x1 + 1] = self.cost[y0 : y1 + 1, x0 : x1 + 1]
        q = self.queries_of(box)
        rows, columns = cost.shape
        cells = np.zeros((3, rows, columns), np.int64)
        cells[0] = cost
        np.add.at(cells[1], (q[:, 1], q[:, 0]), 1)
        np.add.at(cells[2], (q[:, 3], q[:, 2]), 1)
        return Load(
            cost.sum(1),
            cost.sum(0),
            int(cost.sum()),
            cells[1].sum(1),
            cells[2].sum(1),
            cells[1].sum(0),
            cells[2].sum(0),
            len(q),
            cells,
        )

    def costs(self, plan):
        """Return the cost of each worker with a partition."""
        return {worker: self.cost_of(box) for worker, box in Partitions.of(plan).boxes.items()}

    def loads(self, plan, knots=16):
        boxes = Partitions.of(plan).boxes
        return [load_of_partition(self.load(boxes[worker]), plan, worker, knots) for worker in sorted(boxes)]


def random_field(random, rows, columns, queries=20, most=9):
    """Return a field with many empty cells and some dear ones."""
    cost = random.integers(0, most + 1, (rows, columns)) * (random.random((rows, columns)) < random.random())
    first = np.column_stack([random.integers(0, columns, queries), random.integers(0, rows, queries)])
    last = np.minimum(first + random.integers(0, 4, (queries, 2)), [columns - 1, rows - 1])
    return Field(cost.astype(np.int64), np.hstack([first, last]))


def one_partition(columns, rows, workers):
    return GridPlan.of_boxes(
        FineGrid(SPACE, columns, rows), np.array([[0, 0, columns - 1, rows - 1]]), np.zeros(1), workers
    )


def random_plan(seed, columns, rows, workers, operations):
    """Return a tiling that came of random operations: not only of cuts from side to side."""
    plan = replace(one_partition(columns, rows, workers), part_worker=np.array([seed % workers], np.int32))
    return apply(plan, decide_at_random(plan, seed, operations))


def next_plan(field, plan, name, settings):
    """Decide once on what is counted under a plan; return the operations and the plan after them."""
    operations = OPERATIONS[name](field.loads(plan, settings.knots), plan, settings)
    boxes, costs = Partitions.of(plan).boxes, field.costs(plan)
    asked = [o for o in operations if isinstance(o, BorderShift) and o.position is None]
    positions = {
        o.givers[0]: shift_position(field.load(boxes[o.givers[0]]), boxes[o.givers[0]], o.side, costs[o.takers[0]])
        for o in asked
    }
    return operations, apply(plan, operations, positions) if operations else plan


def efficiency(costs):
    return sum(costs.values()) / len(costs) / max(costs.values())


def moved_boxes(plan, operation):
    """Return the boxes that an operation carries to another worker, from its definition in the paper."""
    boxes = Partitions.of(plan).boxes
    after = Partitions.of(apply(plan, [operation])).boxes
    if isinstance(operation, SplitMerge | SplitOff):
        return [after[operation.taker], *([boxes[operation.freed]] if isinstance(operation, SplitMerge) else [])]
    return [
        _difference(boxes[giver], after[giver]) for giver in sorted(operation.workers) if boxes[giver] != after[giver]
    ]


def _difference(before, after):
    """Return the box that is left of `before` without `after`, one of which contains the other; None if it has grown."""
    if before[0] >= after[0] and before[1] >= after[1] and before[2] <= after[2] and before[3] <= after[3]:
        return None
    left = list(before)
    for axis in (0, 1):
        if after[axis] > before[axis]:
            left[axis + 2] = after[axis] - 1
        elif after[axis + 2] < before[axis + 2]:
            left[axis] = after[axis + 2] + 1
    return tuple(left)
