"""The evaluator of continuous k-nearest-neighbour queries."""

from dataclasses import dataclass
from typing import ClassVar

from operators.evaluation.evaluator import Evaluator
from operators.evaluation.knn_core import KnnCore
from operators.evaluation.object_states import check_no_states
from operators.indexes.knn.registry import KNN_INDEXES, make_knn_index
from operators.operator import TaskContext
from streams.batches import RankedBatch, batch_fields
from streams.errors import DeclarationError, did_you_mean

__all__ = ["KnnEvaluator"]


@dataclass
class KnnEvaluator(Evaluator):
    """Answers continuous knn queries: the k nearest matching objects since their registration.

    Options:
        index: which index holds the subscriptions; one of `operators.indexes.knn.registry.KNN_INDEXES`.
        transfer_queries: as for every evaluator.
    """

    answers: ClassVar = frozenset({"continuous knn"})
    answers_on: ClassVar = "rankings"
    outputs: ClassVar = {"rankings": batch_fields(RankedBatch), **Evaluator.exchanged}
    core_class: ClassVar = KnnCore

    index: str = "pyramid"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.index not in KNN_INDEXES:
            listed = ", ".join(KNN_INDEXES)
            raise DeclarationError(
                f"index = '{self.index}'{did_you_mean(self.index, KNN_INDEXES)}, expected one of: {listed}"
            )

    def make_core(self, context: TaskContext) -> KnnCore:
        """Return an empty index."""
        check_no_states(context)
        return KnnCore(make_knn_index(self.index, context.space, context.metric))
