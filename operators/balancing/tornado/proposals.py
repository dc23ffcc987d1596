"""All that can be done to a tiling whose costs are estimated: splits with and without a merge, shifts of borders, corners."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from operators.balancing.tornado.aggregates import AXES, Box
from operators.balancing.tornado.borders import Border, borders_of
from operators.balancing.tornado.estimates import FieldEstimate
from operators.balancing.tornado.operations import BorderShift, CornerShiftOperation, Operation, SplitMerge, SplitOff
from operators.balancing.tornado.partition_loads import PartitionLoad, Split
from operators.balancing.tornado.plan_changes import halves
from partitioners.grids.adjacency import Adjacency, Side, corner_strip, neighbours_of

__all__ = ["Draft", "Proposal", "proposals"]


@dataclass(frozen=True, slots=True)
class Draft:
    """A tiling under consideration.

    Attributes:
        boxes: the box of each worker that has one.
        costs: the estimated cost of each box.
        idle: the workers without a box, ascending.
        loads: what was counted, under the plan in force.
        field: estimates from these loads.
        untouched: the workers that have the box that they were counted for, so that their loads are exact.
    """

    boxes: Mapping[int, Box]
    costs: Mapping[int, float]
    idle: tuple[int, ...]
    loads: Mapping[int, PartitionLoad]
    field: FieldEstimate
    untouched: frozenset[int]


@dataclass(frozen=True, slots=True)
class Proposal:
    """An operation, the estimated costs after it, and what would move.

    Attributes:
        operation: without C_r and C_t as yet.
        reduction: the reduction of the largest cost of those involved (C_r).
        relief: by how much it lowers the sum of the squares of costs, which tells operations apart that lower the same
            largest cost: the more evenly the cost is divided, the more the next operations have to work with.
        costs: the estimated costs of those that have a box after it.
        given: the boxes that change hands.
    """

    operation: Operation
    reduction: float
    relief: float
    costs: Mapping[int, float]
    given: tuple[Box, ...]


def proposals(draft: Draft) -> list[Proposal]:
    """Return all operations that reduce the largest cost of those involved, the one with the largest relief first."""
    borders = borders_of(draft.boxes)
    found = [*_splits(draft, borders), *_shifts(draft, borders), *_corners(draft)]
    return sorted((p for p in found if p.reduction > 0), key=lambda proposal: -proposal.relief)


def _proposal(draft: Draft, operation: Operation, costs: Mapping[int, float], given: tuple[Box, ...]) -> Proposal:
    before = [draft.costs[worker] for worker in sorted(operation.workers) if worker in draft.costs]
    relief = sum(cost * cost for cost in before) - sum(cost * cost for cost in costs.values())
    return Proposal(operation, max(before) - max(costs.values()), relief, costs, given)


def _splits(draft: Draft, borders: tuple[Border, ...]) -> Iterator[Proposal]:
    """Split each partition, with each merge that costs less; with an idle worker no merge is needed."""
    pairs = sorted(
        (draft.field.joint(draft.costs[border.low[0]], draft.costs[border.high[0]]), border.low[0], border.high[0])
        for border in borders
        if border.whole
    )
    queries = {worker: draft.field.queries_at_most(box) for worker, box in draft.boxes.items()}
    for x in sorted(draft.boxes):
        split = _split_of(draft, x)
        if split is None:
            continue
        low, high = halves(draft.boxes[x], split.axis, split.position)
        gives_low = split.low_queries < split.high_queries
        given, kept_cost, given_cost = (
            (low, split.high_cost, split.low_cost) if gives_low else (high, split.low_cost, split.high_cost)
        )
        if draft.idle:
            taker = draft.idle[0]
            yield _proposal(draft, SplitOff(x, split, gives_low, taker), {x: kept_cost, taker: given_cost}, (given,))
            continue
        for merged, one, other in pairs:
            if merged >= draft.costs[x]:
                break
            if x in (one, other):
                continue
            keeper, freed = (one, other) if queries[one] >= queries[other] else (other, one)
            operation = SplitMerge(x, split, gives_low, freed, keeper, freed)
            costs = {x: kept_cost, freed: given_cost, keeper: merged}
            yield _proposal(draft, operation, costs, (given, draft.boxes[freed]))


def _split_of(draft: Draft, worker: int) -> Split | None:
    """Return the split that divides a box most evenly: as counted, or as estimated where the box is new."""
    power = draft.field.crowding
    if worker in draft.untouched:
        return _alone(draft.loads[worker], power)
    box = draft.boxes[worker]
    best: tuple[float, int, int] | None = None
    for axis in AXES:
        sums = draft.field.running(box, axis)
        uneven = np.abs(2 * sums[1:-1] - sums[-1])
        if len(uneven):
            place = int(uneven.argmin())
            best = min(best or (np.inf, 0, 0), (float(uneven[place]), axis, place))
    if best is None:
        return None
    _, axis, place = best
    sums = draft.field.running(box, axis)
    low, high = halves(box, axis, box[axis] + place)
    return Split(
        axis,
        box[axis] + place,
        round(float(sums[place + 1]) ** power),
        round(max(float(sums[-1] - sums[place + 1]), 0.0) ** power),
        draft.field.queries_at_most(low),
        draft.field.queries_at_most(high),
    )


def _alone(load: PartitionLoad, crowding: float) -> Split | None:
    """Return the split that was counted, with what its halves cost once they are apart."""
    split = load.split
    if split is None or crowding == 1.0:
        return split
    shares = (cost / max(load.cost, 1) for cost in (split.low_cost, split.high_cost))
    low, high = (round(share**crowding * load.cost) for share in shares)
    return replace(split, low_cost=low, high_cost=high)


def _shifts(draft: Draft, borders: tuple[Border, ...]) -> Iterator[Proposal]:
    """Move each border to where the largest cost along it is smallest; of equal places to the nearest."""
    power = draft.field.crowding
    for border in borders:
        axis, workers = border.axis, border.low + border.high
        first = max(draft.boxes[worker][axis] for worker in border.low)
        last = min(draft.boxes[worker][axis + 2] for worker in border.high) - 1
        costs = np.empty((len(workers), last - first + 1))
        for row, worker in enumerate(workers):
            box = list(draft.boxes[worker])
            if worker in border.low:
                box[axis + 2] = last + 1
                sums = draft.field.running((box[0], box[1], box[2], box[3]), axis)
                weights = sums[first + 1 - box[axis] : last + 2 - box[axis]]
            else:
                box[axis] = first
                sums = draft.field.running((box[0], box[1], box[2], box[3]), axis)
                weights = np.maximum(sums[-1] - sums[1 : last - first + 2], 0.0)
            costs[row] = weights**power
        far = np.abs(np.arange(first, last + 1) - border.position)
        place = int(np.lexsort((far, costs.max(axis=0)))[0])
        position = first + place
        if position != border.position:
            after = dict(zip(workers, costs[:, place].tolist(), strict=True))
            yield _shifted(draft, border, position, after)


def _shifted(draft: Draft, border: Border, position: int, costs: Mapping[int, float]) -> Proposal:
    axis = border.axis
    if position < border.position:
        side, givers, takers = (Side.RIGHT, Side.ABOVE)[axis], border.low, border.high
        given = tuple(halves(draft.boxes[worker], axis, position)[1] for worker in givers)
    else:
        side, givers, takers = (Side.LEFT, Side.BELOW)[axis], border.high, border.low
        given = tuple(halves(draft.boxes[worker], axis, position)[0] for worker in givers)
    return _proposal(draft, BorderShift(givers, takers, side, position), costs, given)


def _corners(draft: Draft) -> Iterator[Proposal]:
    workers = sorted(draft.boxes)
    boxes = np.array([draft.boxes[worker] for worker in workers], np.int32)
    for number, giver in enumerate(workers):
        for neighbour in neighbours_of(boxes, number):
            if neighbour.adjacency is not Adjacency.CORNER:
                continue
            taker = workers[neighbour.partition]
            strip, _, _ = corner_strip(draft.boxes[giver], draft.boxes[taker], neighbour.side)
            moved = draft.field.cost(strip)
            costs = {giver: _without(draft, giver, moved), taker: draft.field.joint(draft.costs[taker], moved)}
            yield _proposal(draft, CornerShiftOperation(giver, taker, neighbour.side), costs, (strip,))


def _without(draft: Draft, worker: int, moved: float) -> float:
    """Return what a worker costs that gives something away."""
    field = draft.field
    return float(max(field.weight(draft.costs[worker]) - field.weight(moved), 0.0) ** field.crowding)
