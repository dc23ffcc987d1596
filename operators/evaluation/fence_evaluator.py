"""The evaluator of fences: who enters a region, leaves it, or stays inside, among objects that move and change."""

from dataclasses import dataclass
from typing import ClassVar

from operators.evaluation.evaluator import Evaluator
from operators.evaluation.fence_core import FenceCore
from operators.evaluation.object_states import check_states
from operators.indexes import INDEXES
from operators.indexes.fences.fences import Fences
from operators.operator import TaskContext
from streams.batches import CrossingBatch, batch_fields
from streams.errors import DeclarationError, did_you_mean
from streams.files.query_files import FENCES

__all__ = ["FenceEvaluator"]


@dataclass
class FenceEvaluator(Evaluator):
    """Answers continuous range queries over dynamic objects: what they detect, once each.

    Each task keeps the states of all objects, as a dynamic-evaluator does, and needs the same plans.

    Options:
        index: which index holds the queries: ``kag``, ``fast``, ``gi2`` or ``brute``.
        transfer_queries: as for every evaluator.
    """

    answers: ClassVar = frozenset({FENCES})
    outputs: ClassVar = {"results": batch_fields(CrossingBatch), **Evaluator.exchanged}
    core_class: ClassVar = FenceCore

    index: str = "kag"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.index not in INDEXES:
            raise DeclarationError(
                f"index = '{self.index}'{did_you_mean(self.index, INDEXES)}, expected one of: {', '.join(INDEXES)}"
            )

    def make_core(self, context: TaskContext) -> FenceCore:
        """Return an empty core."""
        check_states(context)
        return FenceCore(Fences(self.index, context.space, context.metric))
