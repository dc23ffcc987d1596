"""The evaluator of continuous range queries."""

from dataclasses import dataclass
from typing import ClassVar

from operators.evaluation.evaluator import Evaluator
from operators.evaluation.range_core import RangeCore
from operators.indexes import INDEXES, make_range_index
from operators.operator import TaskContext
from partitioners.grids.fine_grid import DEFAULT_SIDE
from partitioners.plans.grid_plan import GridPlan
from streams.errors import DeclarationError, did_you_mean

__all__ = ["RangeEvaluator"]


@dataclass
class RangeEvaluator(Evaluator):
    """Answers continuous range queries.

    Options:
        index: which index holds the queries: ``kag``, ``fast``, ``gi2`` or ``brute``.
        transfer_queries: as for every evaluator.
    """

    answers: ClassVar = frozenset({"continuous range"})
    core_class: ClassVar = RangeCore

    index: str = "kag"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.index not in INDEXES:
            raise DeclarationError(
                f"index = '{self.index}'{did_you_mean(self.index, INDEXES)}, expected one of: {', '.join(INDEXES)}"
            )

    def make_core(self, context: TaskContext) -> RangeCore:
        """Return an empty index, which counts work by place as finely as the plan and the balancer want it."""
        plan = context.plan
        grid = (plan.columns, plan.rows) if isinstance(plan, GridPlan) else (DEFAULT_SIDE, DEFAULT_SIDE)
        by_cell = context.statistics is not None and context.statistics.kind == "cells"
        space = context.space if plan is None else plan.space  # loads are counted over the cells of the plan
        return RangeCore(make_range_index(self.index, space, context.metric, grid, by_cell))
