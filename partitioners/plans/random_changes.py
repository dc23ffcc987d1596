"""Any plan, changed by lot: whatever a plan becomes in mid-run, the answers must stay the same."""

import numpy as np

from partitioners.plans.assignment_plan import AssignmentPlan
from partitioners.plans.broadcast import HashPlan
from partitioners.plans.plan import Plan

__all__ = ["random_change"]

#: The most units and subscriptions that move at once.
_MOVES = 64

#: Subscriptions that a plan does not know yet are drawn from this many numbers.
_NUMBERS = 200


def random_change(plan: Plan, rng: np.random.Generator) -> Plan | None:
    """Return a valid next version in which some units, or subscriptions, have other workers; None where nothing can move.

    Plans that know subscriptions by number also move some that they did not know.
    """
    if plan.workers < 2:
        return None
    if isinstance(plan, AssignmentPlan | HashPlan) and (rng.random() < 0.5 or not len(plan.unit_worker)):
        highest = max(_NUMBERS, int(plan.number[-1]) + 1 if len(plan.number) else 0)
        numbers = np.unique(rng.integers(0, highest, int(rng.integers(1, _MOVES + 1))))
        return plan.with_moved(numbers, rng.integers(0, plan.workers, len(numbers)))
    units = len(plan.unit_worker)
    if not units:
        return None
    count = int(rng.integers(1, min(_MOVES, max(1, units // 2)) + 1))
    moving = rng.choice(units, count, replace=False)
    step = rng.integers(1, plan.workers, count)
    return plan.with_units(moving, (plan.unit_worker[moving] + step) % plan.workers)
