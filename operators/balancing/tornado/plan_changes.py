"""What operations do to a plan, and which cells change hands between two plans."""

from collections.abc import Iterable, Mapping

import numpy as np

from operators.balancing.tornado.aggregates import Box
from operators.balancing.tornado.operations import (
    BorderShift,
    CornerShiftOperation,
    Operation,
    SplitMerge,
    SplitOff,
    axis_of,
)
from operators.balancing.tornado.partitions import Partitions
from partitioners.grids.adjacency import Side, corner_strip
from partitioners.plans.grid_plan import GridPlan
from streams.errors import InputError

__all__ = ["Move", "apply", "changed", "halves", "moves"]

#: The giver, the taker and the cells.
Move = tuple[int, int, Box]


def apply(
    plan: GridPlan, operations: Iterable[Operation], positions: Mapping[int, int | None] | None = None
) -> GridPlan:
    """Return the plan after some operations, one after the other: the next version, checked to cover the space once.

    `positions` gives the position of each shift that has none yet, by giver; None leaves out a shift for which the giver
    found no position that helps. A worker keeps the number of its partition; half of a split takes the number of the
    partition that a merge has freed. Costs of partitions are unknown in the new plan, so they are 0.
    """
    boxes = dict(Partitions.of(plan).boxes)
    workers: list[int] = plan.part_worker.tolist()
    for operation in operations:
        boxes = changed(boxes, operation, positions)
        match operation:
            case SplitMerge(taker=taker, freed=freed):
                workers[workers.index(freed)] = taker
            case SplitOff(taker=taker):
                workers.append(taker)
    if max(workers) >= plan.workers:
        raise InputError(f"an operation gives cells to worker {max(workers)} of a plan for {plan.workers} workers")
    tiling = np.array([boxes[worker] for worker in workers], np.int32)
    return plan.with_boxes(tiling, np.array(workers, np.int32))


def changed(
    boxes: Mapping[int, Box], operation: Operation, positions: Mapping[int, int | None] | None = None
) -> dict[int, Box]:
    """Return the boxes of all workers after an operation."""
    after = dict(boxes)
    match operation:
        case SplitMerge() | SplitOff():
            _split(operation, after)
        case CornerShiftOperation(giver, taker, side):
            given, taking = _box(boxes, operation, giver), _box(boxes, operation, taker)
            _, after[giver], after[taker] = corner_strip(given, taking, side)
        case BorderShift(position=position):
            if position is None:
                position = _chosen(operation, positions or {})
            if position is not None:
                _shift(operation, position, after)
    return after


def moves(plan: GridPlan, new: GridPlan) -> list[Move]:
    """Return the cells that change hands as (giver, taker, box), by giver and taker; together they are all that do."""
    if (plan.columns, plan.rows) != (new.columns, new.rows):
        raise InputError(
            f"a plan of {plan.columns} x {plan.rows} cells cannot follow one of {new.columns} x {new.rows}; "
            "rebalancing keeps the fine grid"
        )
    low = np.maximum(plan.boxes[:, None, :2], new.boxes[None, :, :2])
    high = np.minimum(plan.boxes[:, None, 2:], new.boxes[None, :, 2:])
    other = plan.part_worker[:, None] != new.part_worker[None, :]
    found = []
    for old, place in np.argwhere((low <= high).all(axis=2) & other).tolist():
        (x0, y0), (x1, y1) = low[old, place].tolist(), high[old, place].tolist()
        found.append((int(plan.part_worker[old]), int(new.part_worker[place]), (x0, y0, x1, y1)))
    return sorted(found)


def halves(box: Box, axis: int, position: int) -> tuple[Box, Box]:
    """Return the low and the high part of a box that is cut after a column or row."""
    low, high = list(box), list(box)
    low[axis + 2], high[axis] = position, position + 1
    return (low[0], low[1], low[2], low[3]), (high[0], high[1], high[2], high[3])


def _split(operation: SplitMerge | SplitOff, boxes: dict[int, Box]) -> None:
    split, taker = operation.split, operation.taker
    box = _box(boxes, operation, operation.giver)
    if not box[split.axis] <= split.position < box[split.axis + 2]:
        raise InputError(f"{_named(operation)} cuts the box {list(box)} at {split.position}, which is not within it")
    low, high = halves(box, split.axis, split.position)
    if isinstance(operation, SplitMerge):
        grown = _union(_box(boxes, operation, operation.keeper), _box(boxes, operation, operation.freed))
        boxes[operation.keeper] = grown
        del boxes[operation.freed]
    if taker in boxes or taker < 0:
        raise InputError(f"{_named(operation)} gives half of a split to worker {taker}, which is not idle")
    boxes[taker], boxes[operation.giver] = (low, high) if operation.gives_low else (high, low)


def _shift(operation: BorderShift, position: int, boxes: dict[int, Box]) -> None:
    axis = axis_of(operation.side)
    upwards = operation.side in (Side.RIGHT, Side.ABOVE)
    low, high = (operation.givers, operation.takers) if upwards else (operation.takers, operation.givers)
    for worker in low + high:
        box = list(_box(boxes, operation, worker))
        if worker in low:
            box[axis + 2] = position
        else:
            box[axis] = position + 1
        if box[axis] > box[axis + 2]:
            raise InputError(f"{_named(operation)} to position {position} leaves nothing to worker {worker}")
        boxes[worker] = (box[0], box[1], box[2], box[3])


def _chosen(operation: BorderShift, positions: Mapping[int, int | None]) -> int | None:
    giver = operation.givers[0]
    if giver not in positions:
        raise InputError(f"{_named(operation)} has no position yet; ask worker {giver} for it (`shift_position`)")
    return positions[giver]


def _box(boxes: Mapping[int, Box], operation: Operation, worker: int) -> Box:
    if worker not in boxes:
        raise InputError(f"{_named(operation)} names worker {worker}, which has no partition in this plan")
    return boxes[worker]


def _union(one: Box, other: Box) -> Box:
    return min(one[0], other[0]), min(one[1], other[1]), max(one[2], other[2]), max(one[3], other[3])


def _named(operation: Operation) -> str:
    return f"a {operation.kind} of workers {sorted(operation.workers)}"
