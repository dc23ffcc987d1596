"""The evaluator of continuous top-k frequent term queries (SSTD's CTQ)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from operators.balancing.orders import PlanSchedule
from operators.evaluation.completeness import Completeness
from operators.evaluation.evaluator import Evaluator
from operators.evaluation.handover import Handover
from operators.evaluation.terms_core import TermsCore
from operators.indexes.terms.registry import TERMS_INDEXES, make_terms_index
from operators.operator import Emitter, Epoch, State, TaskContext
from operators.redistribution import Division
from partitioners.plans.grid_plan import GridPlan
from partitioners.plans.meeting import route_queries
from partitioners.plans.plan import Plan
from streams.batches import FOREVER, QueryBatch, RankedBatch, batch_fields
from streams.errors import DeclarationError, did_you_mean

__all__ = ["TermsEvaluator"]


@dataclass
class TermsEvaluator(Evaluator):
    """Answers continuous terms queries: the terms that most objects of a region contain, at every slide.

    Options:
        index: how terms are counted; one of `operators.indexes.terms.registry.TERMS_INDEXES`.
        keep_ms: objects are kept for so long, which is how far back windows may reach; 0: as long as the run.
        transfer_queries: as for every evaluator.
    """

    answers: ClassVar = frozenset({"continuous terms"})
    answers_on: ClassVar = "counts"
    outputs: ClassVar = {"counts": batch_fields(RankedBatch), **Evaluator.exchanged}
    core_class: ClassVar = TermsCore

    index: str = "candidates"
    keep_ms: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.index not in TERMS_INDEXES:
            listed = ", ".join(TERMS_INDEXES)
            raise DeclarationError(
                f"index = '{self.index}'{did_you_mean(self.index, TERMS_INDEXES)}, expected one of: {listed}"
            )
        if self.keep_ms < 0:
            raise DeclarationError(f"keep_ms = {self.keep_ms}, expected milliseconds, or 0 for all objects of the run")

    @property
    def kept_ms(self) -> int:
        """How far back windows may reach."""
        return self.keep_ms or FOREVER

    def open(self, context: TaskContext) -> None:
        """Start without queries and objects."""
        if (problem := _objection(context.plan, context.parallelism)) is not None:
            raise DeclarationError(problem)
        super().open(context)
        self._terms: TermsCore = self._core  # type: ignore[assignment]
        self._routing = self._schedule
        if self._routing is None and context.plan is not None:
            self._routing = PlanSchedule(context.plan, context.window, context.kept_ms)
        self._completeness = Completeness(self._terms, context.index, context.metric, self._routing)
        if context.plan is not None and context.plan.kind == "hash":
            self._terms.speaks = self._spoken_for

    def make_core(self, context: TaskContext) -> TermsCore:
        """Return an empty index."""
        name = f"terms-{context.index}-of-{context.parallelism}"
        return TermsCore(make_terms_index(self.index, context.space, context.metric, name), self.keep_ms or None)

    def _spoken_for(self, queries: QueryBatch) -> NDArray[np.bool_]:
        """Tell which queries this evaluator answers, where each has one home: those of the plan in force."""
        assert self._routing is not None
        worker = route_queries(self._routing.plan, queries, self._context.metric)[1]
        return np.asarray(worker == self._context.index)

    # --- since when all objects of a query come here -----------------------------------------------------------------

    def _note(self, new: QueryBatch) -> None:
        super()._note(new)
        self._completeness.register(new)

    def _switch(self, handover: Handover, epoch: Epoch, emit: Emitter) -> None:
        super()._switch(handover, epoch, emit)
        self._completeness.look_again(self._watermark)

    # --- state -------------------------------------------------------------------------------------------------------

    def restore(self, state: State) -> None:
        """Take over a snapshot; where it was divided anew, older objects may be anywhere."""
        super().restore(state)
        if "divided_in_mid_round" in state:
            self._completeness.look_again(self._watermark)

    @classmethod
    def redistribute(cls, states: Sequence[State], division: Division) -> list[State]:
        """Divide the queries anew; objects that are everywhere stay everywhere."""
        divided = super().redistribute(states, division)
        if not division.replanned or not states[0]["core"]["everywhere"]:
            return divided
        return [{**one, "core": TermsCore.with_objects(one["core"], [states[0]["core"]])} for one in divided]


def _objection(plan: Plan | None, parallelism: int) -> str | None:
    """Say why terms cannot be counted by several evaluators under a plan; None where they can."""
    if parallelism == 1:
        return None
    if plan is None:
        return f"{parallelism} evaluators need a plan that says which of them count an object; use a plan-router"
    if plan.kind in ("hash", "qt-tree", "replicate") or (isinstance(plan, GridPlan) and not plan.anchored):
        return None
    return (
        f"an object is to be counted once, but a plan of the kind '{plan.kind}' sends it to several evaluators, which do not "
        "have the same objects; use the partitioner qt-tree, quadtree, text-tree, kd, kdt-tree, uniform, replicate or hash"
    )
