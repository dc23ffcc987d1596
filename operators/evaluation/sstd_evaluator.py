"""The evaluator of SSTD: range, knn and terms queries, continuous and as snapshots, over objects that are kept."""

from dataclasses import dataclass
from typing import Any, ClassVar

from operators.evaluation.evaluator import Evaluator
from operators.evaluation.kept_core import KeptCore
from operators.evaluation.knn_core import KnnCore
from operators.evaluation.mixed_core import MixedCore
from operators.evaluation.range_core import RangeCore
from operators.indexes import INDEXES, make_range_index
from operators.indexes.knn.registry import KNN_INDEXES, make_knn_index
from operators.indexes.objects.registry import OBJECT_INDEXES, make_object_index
from operators.operator import TaskContext
from partitioners.grids.fine_grid import DEFAULT_SIDE
from partitioners.plans.grid_plan import GridPlan
from partitioners.plans.plan import Plan
from streams.batches import FOREVER, HitBatch, RankedBatch, batch_fields
from streams.errors import DeclarationError, did_you_mean

__all__ = ["SstdEvaluator"]


@dataclass
class SstdEvaluator(Evaluator):
    """Answers range, knn and terms queries, continuous ones and snapshots.

    Options:
        index: which index holds continuous range queries: ``kag``, ``fast``, ``gi2`` or ``brute``.
        nearest: which index holds continuous knn queries; one of `operators.indexes.knn.registry.KNN_INDEXES`.
        objects: which index holds the objects; one of `operators.indexes.objects.registry.OBJECT_INDEXES`.
        keep_ms: objects are kept for so long, which is how far back windows may reach; 0: as long as the run.
        transfer_queries: as for every evaluator.
    """

    answers: ClassVar = frozenset(
        f"{when} {kind}" for when in ("continuous", "snapshot") for kind in ("range", "knn", "terms")
    )
    lists_on: ClassVar = ("rankings", "counts")
    outputs: ClassVar = {
        "results": batch_fields(HitBatch),
        "rankings": batch_fields(RankedBatch),
        "counts": batch_fields(RankedBatch),
        **Evaluator.exchanged,
    }
    core_class: ClassVar = MixedCore

    index: str = "kag"
    nearest: str = "pyramid"
    objects: str = "segments"
    keep_ms: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, known in (("index", INDEXES), ("nearest", KNN_INDEXES), ("objects", OBJECT_INDEXES)):
            chosen = getattr(self, name)
            if chosen not in known:
                listed = ", ".join(known)
                raise DeclarationError(f"{name} = '{chosen}'{did_you_mean(chosen, known)}, expected one of: {listed}")
        if self.keep_ms < 0:
            raise DeclarationError(f"keep_ms = {self.keep_ms}, expected milliseconds, or 0 for all objects of the run")

    @property
    def kept_ms(self) -> int:
        """How far back windows may reach."""
        return self.keep_ms or FOREVER

    def open(self, context: TaskContext) -> None:
        """Start without queries and objects."""
        if context.plan is not None and (problem := _objection(context.plan)) is not None:
            raise DeclarationError(problem)
        super().open(context)

    def make_core(self, context: TaskContext) -> MixedCore:
        """Return empty indexes."""
        space, metric = context.space, context.metric
        grid = (DEFAULT_SIDE, DEFAULT_SIDE)
        kept = KeptCore(space, metric, make_object_index(self.objects, space, metric), self.keep_ms or None)
        return MixedCore(
            RangeCore(make_range_index(self.index, space, metric, grid)),
            KnnCore(make_knn_index(self.nearest, space, metric)),
            kept,
        )


def _objection(plan: Plan) -> str | None:
    """Say why objects cannot be kept under a plan; None where they can."""
    kinds: tuple[Any, ...] = ("grid", "qt-tree", "replicate")
    anchored = isinstance(plan, GridPlan) and plan.anchored
    if plan.kind in kinds and not anchored:
        return None
    return (
        "objects are kept by one evaluator each, but under this plan several or all of them see every object, and ask for "
        f"queries by number or place (a plan of the kind '{plan.kind}'); use the partitioner qt-tree, quadtree, text-tree, "
        "kd, kdt-tree, uniform or replicate"
    )
