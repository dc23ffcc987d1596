"""Tornado's decisions as policies: operations become a change of the plan, and shifts without a position become questions."""

from collections.abc import Callable, Sequence
from typing import Any

from operators.balancing.policy import Ask, Change, Decision, Policy, Step, View
from operators.balancing.tornado.cells import decide_centralised
from operators.balancing.tornado.decision import decide
from operators.balancing.tornado.operations import BorderShift, Operation
from operators.balancing.tornado.partitions import Partitions
from operators.balancing.tornado.plan_changes import apply, moves
from operators.balancing.tornado.settings import TornadoSettings
from operators.balancing.tornado.tornado_paper import decide_as_paper
from partitioners.plans.grid_plan import GridPlan
from partitioners.plans.plan import Plan
from streams.errors import DeclarationError

__all__ = ["TORNADO_POLICIES", "decided", "not_by_borders", "steps_of"]

Operations = Callable[[Sequence[Any], GridPlan, TornadoSettings], tuple[Operation, ...]]


def decided(operations_of: Operations) -> Callable[[View], tuple[Decision, None]]:
    """Make a policy's function of one that chooses operations."""

    def decision(view: View) -> tuple[Decision, None]:
        assert isinstance(view.plan, GridPlan)
        operations = operations_of(view.reports, view.plan, view.settings)
        open_ = [o for o in operations if isinstance(o, BorderShift) and o.position is None]
        if open_ and not view.answers:
            costs = {report.worker: report.cost for report in view.reports}
            return Ask({o.givers[0]: [o.side.value, costs[o.takers[0]]] for o in open_}), None
        if not operations:
            return None, None
        plan = apply(view.plan, operations, view.answers)
        return (Change(plan, steps_of(operations)) if moves(view.plan, plan) else None), None

    return decision


def steps_of(operations: Sequence[Operation]) -> tuple[Step, ...]:
    """Return operations as the steps of a change, each with what it gains and costs."""
    return tuple(
        Step(
            o.kind,
            o.workers,
            f"C_r {o.reduction:,.0f} > C_t {o.overhead:,.0f}" if o.reduction > o.overhead else "",
        )
        for o in operations
    )


def not_by_borders(plan: Plan) -> str | None:
    """Say why Tornado cannot rebalance a plan: it moves borders of partitions, one for each worker."""
    if not isinstance(plan, GridPlan):
        return f"it moves borders of a grid plan, but the plan is '{plan.kind}'; use the partitioner 'kd' or 'uniform'"
    try:
        Partitions.of(plan)
    except DeclarationError as error:
        return str(error)
    return None


def _policy(name: str, about: str, statistics: str, operations_of: Operations) -> Policy:
    return Policy(
        name, about, statistics, TornadoSettings, decided(operations_of), not_by_borders,
        lambda settings: {"knots": settings.knots}, impatient={"threshold": 1.0, "gain": 0.0},
    )  # fmt: skip


TORNADO_POLICIES = (
    _policy("tornado", "Tornado: several operations a round, on loads of partitions", "partitions", decide),
    _policy("tornado-paper", "Tornado as published: one operation a round", "partitions", decide_as_paper),
    _policy("tornado-centralised", "tornado, on statistics of every cell (Figure 9b)", "cells", decide_centralised),
)
