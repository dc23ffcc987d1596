"""Tornado's decision with several operations in a round.

The paper takes one operation, waits for new statistics and decides again. With many evaluators that is slow, and it stops
early: few pairs of partitions share a whole side, so soon nothing is left that helps. This policy draws up several
operations one after the other on an estimate of where cost lies (`FieldEstimate`), and moves borders that several
partitions share (`Border`). It needs no question back to an evaluator: positions are part of the decision.

**It never makes matters worse, and it comes to rest.** Let D be the workers whose boxes a round changes. An operation is
taken only if the cost of each box that it makes is *bound* to be below the largest cost counted in D, whatever the
estimates say. So the largest cost over D falls with every round, all others stay as they are, and the costs of all
workers, in descending order, get smaller in the order of words. Under unchanged statistics that can happen only so many
times as there are tilings.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from operators.balancing.tornado.aggregates import Box
from operators.balancing.tornado.estimates import FieldEstimate
from operators.balancing.tornado.operations import Operation
from operators.balancing.tornado.partition_loads import PartitionLoad
from operators.balancing.tornado.partitions import Partitions
from operators.balancing.tornado.plan_changes import changed
from operators.balancing.tornado.proposals import Draft, Proposal, proposals
from operators.balancing.tornado.settings import TornadoSettings
from operators.balancing.tornado.tornado_paper import known, worth_a_look
from partitioners.plans.grid_plan import GridPlan

__all__ = ["OPERATIONS", "decide"]

#: Operations of a round, unless set otherwise.
OPERATIONS = 16


def decide(statistics: Sequence[PartitionLoad], plan: GridPlan, settings: TornadoSettings) -> tuple[Operation, ...]:
    """Return operations for one round, to be applied in this order; each has C_r > C_t."""
    loads = known(statistics, plan)
    if not worth_a_look(loads, settings, plan.workers):
        return ()
    partitions = Partitions.of(plan)
    counted = {worker: load.cost for worker, load in loads.items()}
    draft = Draft(
        partitions.boxes,
        {worker: float(cost) for worker, cost in counted.items()},
        partitions.idle,
        loads,
        FieldEstimate(loads, partitions.boxes, settings.crowding),
        frozenset(loads),
    )
    least = settings.gain * sum(counted.values()) / len(counted)
    taken: list[Operation] = []
    touched: frozenset[int] = frozenset()
    while len(taken) < (settings.operations or OPERATIONS) and _uneven(draft, settings.threshold):
        for proposal in proposals(draft):
            if proposal.reduction < least:
                continue
            operation, boxes = _priced(draft, proposal, settings.beta), changed(draft.boxes, proposal.operation)
            limit = max(counted.get(worker, 0) for worker in touched | operation.workers)
            made = (boxes[worker] for worker in proposal.costs)
            if operation.reduction > operation.overhead and all(draft.field.cost_at_most(box) < limit for box in made):
                break
        else:
            break
        taken.append(operation)
        touched |= operation.workers
        draft = _next(draft, proposal, boxes)
    return tuple(taken)


def _uneven(draft: Draft, threshold: float) -> bool:
    workers = len(draft.costs) + len(draft.idle)
    return max(draft.costs.values()) * workers >= threshold * sum(draft.costs.values())


def _priced(draft: Draft, proposal: Proposal, beta: float) -> Operation:
    """Return the operation with C_r as estimated and C_t as it is at most."""
    moved = sum(draft.field.queries_at_most(box) for box in proposal.given)
    return replace(proposal.operation, reduction=proposal.reduction, overhead=beta * moved)


def _next(draft: Draft, proposal: Proposal, boxes: Mapping[int, Box]) -> Draft:
    costs = {worker: proposal.costs.get(worker, draft.costs.get(worker, 0.0)) for worker in boxes}
    idle = tuple(worker for worker in draft.idle if worker not in boxes)
    return replace(draft, boxes=boxes, costs=costs, idle=idle, untouched=draft.untouched - proposal.operation.workers)
