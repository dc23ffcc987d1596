"""Tornado's decision as the paper has it: all operations of Section 4.2, the one with the largest C_r > C_t is taken.

Costs of splits and corner shifts are exact. What a shift between two partitions is worth depends on a coordinate that is
only chosen afterwards, so it is estimated as if the cost could be divided in two equal halves (Section 4.3).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from operators.balancing.tornado.aggregates import Box
from operators.balancing.tornado.borders import Border, borders_of
from operators.balancing.tornado.operations import BorderShift, CornerShiftOperation, Operation, SplitMerge
from operators.balancing.tornado.partition_loads import PartitionLoad
from operators.balancing.tornado.partitions import Partitions
from operators.balancing.tornado.settings import TornadoSettings
from partitioners.grids.adjacency import Side
from partitioners.plans.grid_plan import GridPlan
from streams.errors import InputError

__all__ = ["candidates", "decide_as_paper", "disjoint", "known", "worth_a_look"]

Loads = Mapping[int, PartitionLoad]


def decide_as_paper(
    statistics: Sequence[PartitionLoad], plan: GridPlan, settings: TornadoSettings
) -> tuple[Operation, ...]:
    """Return the operation with the largest C_r that is greater than its C_t, or none.

    Where the settings allow more than one operation, more follow that have nobody in common with those before.
    """
    if not worth_a_look(known(statistics, plan), settings, len(plan.boxes)):
        return ()
    return disjoint(candidates(statistics, plan, settings.beta), settings.operations or 1)


def disjoint(operations: Sequence[Operation], limit: int) -> tuple[Operation, ...]:
    """Return the best operation, then the best of those that touch none of the workers involved, and so on.

    The best has the largest C_r > C_t; of equal ones the cheapest, and then the first. When the idle worker is taken, the
    half of a split goes to the worker that the merge frees.
    """
    chosen: list[Operation] = []
    busy: set[int] = set()
    for operation in sorted(operations, key=lambda o: (-o.reduction, o.overhead)):
        if isinstance(operation, SplitMerge) and operation.taker in busy:
            operation = replace(operation, taker=operation.freed)
        if operation.reduction > operation.overhead and not busy & operation.workers:
            chosen.append(operation)
            busy |= operation.workers
        if len(chosen) == limit:
            break
    return tuple(chosen)


def candidates(statistics: Sequence[PartitionLoad], plan: GridPlan, beta: float) -> tuple[Operation, ...]:
    """Return all operations of Section 4.2 that reduce the largest cost of those involved, in a fixed order."""
    partitions = Partitions.of(plan)
    by_worker = known(statistics, plan)
    borders = [border for border in borders_of(partitions.boxes) if border.whole]
    found: list[Operation] = [
        *_split_merges(by_worker, borders, partitions.idle, beta),
        *_shifts(by_worker, borders, partitions.boxes, beta),
        *_corner_shifts(by_worker, beta),
    ]
    return tuple(operation for operation in found if operation.reduction > 0)


def known(statistics: Sequence[PartitionLoad], plan: GridPlan) -> Loads:
    """Return loads by worker, ascending; raise unless there is one of this plan for each worker with a partition."""
    ordered = sorted(statistics, key=lambda load: load.worker)
    wanted = sorted(Partitions.of(plan).numbers)
    if [load.worker for load in ordered] != wanted:
        twice = [a.worker for a, b in pairwise(ordered) if a.worker == b.worker]
        raise InputError(
            f"loads of the workers {[load.worker for load in ordered]}"
            f"{f' (worker {twice[0]} twice)' if twice else ''}; expected one of each worker with a partition: {wanted}"
        )
    for load in ordered:
        if load.version != plan.version:
            raise InputError(
                f"the load of worker {load.worker} was counted under plan {load.version}, but plan {plan.version} "
                "is in force; decide on loads of one plan only"
            )
    return {load.worker: load for load in ordered}


def worth_a_look(loads: Loads, settings: TornadoSettings, workers: int) -> bool:
    """Tell whether enough was counted and the largest cost is far enough above the mean of so many workers."""
    costs = [load.cost for load in loads.values()]
    total = sum(costs)
    return total >= max(settings.minimal_cost, 1) and max(costs) * workers >= settings.threshold * total


def _split_merges(loads: Loads, borders: Sequence[Border], idle: tuple[int, ...], beta: float) -> list[SplitMerge]:
    """Equations 4 and 5. X2 and Z, which move, are the half and the neighbour with fewer queries."""
    pairs = []
    for border in borders:
        low, high = loads[border.low[0]], loads[border.high[0]]
        y, z = (low, high) if low.queries >= high.queries else (high, low)
        pairs.append((y.cost + z.cost, y.worker, z.worker, z.queries))
    pairs.sort()
    found = []
    for x in loads.values():
        if x.split is None:
            continue
        gives_low = x.split.low_queries < x.split.high_queries
        moved = min(x.split.low_queries, x.split.high_queries)
        for merged, keeper, freed, queries in pairs:
            if merged >= x.cost:
                break
            if x.worker not in (keeper, freed):
                taker = idle[0] if idle else freed
                gain, effort = float(x.cost - max(x.split.larger, merged)), beta * (moved + queries)
                found.append(SplitMerge(x.worker, x.split, gives_low, taker, keeper, freed, gain, effort))
    return found


def _shifts(loads: Loads, borders: Sequence[Border], boxes: Mapping[int, Box], beta: float) -> list[BorderShift]:
    """Shifts to the cheaper side of a border; C_r and C_t are the estimates of Section 4.3."""
    found = []
    for border in borders:
        low, high = loads[border.low[0]], loads[border.high[0]]
        giver, taker = (low, high) if low.cost >= high.cost else (high, low)
        box = boxes[giver.worker]
        if giver.cost == 0 or box[border.axis] == box[border.axis + 2]:
            continue
        gain = giver.cost - (giver.cost + taker.cost) / 2
        side = (Side.RIGHT, Side.ABOVE)[border.axis] if giver is low else (Side.LEFT, Side.BELOW)[border.axis]
        effort = beta * giver.queries * gain / giver.cost
        found.append(BorderShift((giver.worker,), (taker.worker,), side, None, gain, effort))
    return found


def _corner_shifts(loads: Loads, beta: float) -> list[CornerShiftOperation]:
    found = []
    for giver in loads.values():
        for corner in giver.corners:
            after = max(giver.cost - corner.cost, loads[corner.taker].cost + corner.cost)
            operation = CornerShiftOperation(giver.worker, corner.taker, corner.side)
            found.append(replace(operation, reduction=float(giver.cost - after), overhead=beta * corner.queries))
    return found
