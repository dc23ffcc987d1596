"""Any valid operations, drawn by lot: whatever a plan is changed to in mid-run, the answers must stay the same."""

from collections.abc import Mapping, Sequence

import numpy as np

from operators.balancing.tornado.aggregates import Box
from operators.balancing.tornado.borders import borders_of
from operators.balancing.tornado.operations import BorderShift, CornerShiftOperation, Operation, SplitMerge, SplitOff
from operators.balancing.tornado.partition_loads import Split
from operators.balancing.tornado.partitions import Partitions
from operators.balancing.tornado.plan_changes import changed
from partitioners.grids.adjacency import Adjacency, Side, neighbours_of
from partitioners.plans.grid_plan import GridPlan

__all__ = ["decide_at_random", "valid_operations"]

#: Operations of a round, unless set otherwise.
_OPERATIONS = 2


def decide_at_random(plan: GridPlan, seed: int, operations: int = 0) -> tuple[Operation, ...]:
    """Return operations that depend on the seed and the plan alone; all kinds that are possible are as likely."""
    random = np.random.default_rng([seed, plan.version])
    partitions = Partitions.of(plan)
    boxes = dict(partitions.boxes)
    taken: list[Operation] = []
    for _ in range(operations or _OPERATIONS):
        idle = [worker for worker in range(plan.workers) if worker not in boxes]
        possible = valid_operations(boxes, idle, random)
        if not possible:
            break
        kinds = sorted({operation.kind for operation in possible})
        kind = kinds[int(random.integers(len(kinds)))]
        same = [operation for operation in possible if operation.kind == kind]
        taken.append(same[int(random.integers(len(same)))])
        boxes = changed(boxes, taken[-1])
    return tuple(taken)


def valid_operations(boxes: Mapping[int, Box], idle: Sequence[int], random: np.random.Generator) -> list[Operation]:
    """Return every operation that a tiling allows, cut at positions drawn by lot, in a fixed order."""
    borders = borders_of(boxes)
    merges = [pair for b in borders if b.whole for pair in ((b.low[0], b.high[0]), (b.high[0], b.low[0]))]
    found: list[Operation] = []
    for worker in sorted(boxes):
        for split in _splits(boxes[worker], random):
            low = bool(random.integers(2))
            found += [SplitOff(worker, split, low, taker) for taker in idle]
            for keeper, freed in merges:
                if worker not in (keeper, freed):
                    found += [SplitMerge(worker, split, low, taker, keeper, freed) for taker in (*idle, freed)]
    for border in borders:
        axis = border.axis
        first = max(boxes[worker][axis] for worker in border.low)
        last = min(boxes[worker][axis + 2] for worker in border.high) - 1
        if first < border.position:
            position = int(random.integers(first, border.position))
            found.append(BorderShift(border.low, border.high, (Side.RIGHT, Side.ABOVE)[axis], position))
        if border.position < last:
            position = int(random.integers(border.position + 1, last + 1))
            found.append(BorderShift(border.high, border.low, (Side.LEFT, Side.BELOW)[axis], position))
    return found + _corners(boxes)


def _splits(box: Box, random: np.random.Generator) -> list[Split]:
    return [
        Split(axis, int(random.integers(box[axis], box[axis + 2])), 0, 0, 0, 0)
        for axis in (0, 1)
        if box[axis] < box[axis + 2]
    ]


def _corners(boxes: Mapping[int, Box]) -> list[Operation]:
    workers = sorted(boxes)
    edges = np.array([boxes[worker] for worker in workers], np.int32)
    return [
        CornerShiftOperation(giver, workers[neighbour.partition], neighbour.side)
        for number, giver in enumerate(workers)
        for neighbour in neighbours_of(edges, number)
        if neighbour.adjacency is Adjacency.CORNER
    ]
