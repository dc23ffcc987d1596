"""Any valid change of any plan, drawn by lot: whatever a plan is changed to in mid-run, the answers must stay the same."""

from dataclasses import dataclass

import numpy as np

from operators.balancing.policy import Change, Decision, Policy, Step, View
from operators.balancing.tornado.plan_changes import apply, moves
from operators.balancing.tornado.policies import not_by_borders, steps_of
from operators.balancing.tornado.random_moves import decide_at_random
from partitioners.plans.grid_plan import GridPlan
from partitioners.plans.random_changes import random_change
from streams.errors import DeclarationError

__all__ = ["RANDOM", "RandomSettings"]


@dataclass(frozen=True, slots=True)
class RandomSettings:
    """The settings of the random policy.

    Attributes:
        seed: what is drawn follows from it and the plan alone.
        operations: at most so many operations a round, where borders move; 0 leaves it to the policy.
        units: how often units (cells, leaves, subscriptions) move where borders could move as well.
    """

    seed: int = 0
    operations: int = 0
    units: float = 0.2

    def __post_init__(self) -> None:
        for name in ("seed", "operations"):
            if getattr(self, name) < 0:
                raise DeclarationError(f"{name} = {getattr(self, name)}, expected 0 or more", (name,))
        if not 0.0 <= self.units <= 1.0:
            raise DeclarationError(f"units = {self.units}, expected a share from 0 to 1", ("units",))


def _decide(view: View) -> tuple[Decision, None]:
    settings, plan = view.settings, view.plan
    rng = np.random.default_rng([settings.seed, plan.version])
    if isinstance(plan, GridPlan) and not_by_borders(plan) is None and rng.random() >= settings.units:
        operations = decide_at_random(plan, settings.seed, settings.operations)
        new = apply(plan, operations)
        if moves(plan, new):  # otherwise they undo each other, and would in every later round
            return Change(new, steps_of(operations)), None
    changed = random_change(plan, rng)
    return (None if changed is None else Change(changed, (Step("random", frozenset()),))), None


RANDOM = Policy("random", "any valid change of any plan, by lot: for tests", "costs", RandomSettings, _decide)
