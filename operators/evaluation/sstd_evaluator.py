"""The evaluator of SSTD: range, knn and terms queries, continuous and as snapshots, over objects that are kept."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from operators.balancing.orders import PlanSchedule
from operators.evaluation.completeness import Completeness
from operators.evaluation.evaluator import Evaluator
from operators.evaluation.handover import BOUND_FIELDS, Handover
from operators.evaluation.kept_core import KeptCore
from operators.evaluation.knn_core import KnnCore
from operators.evaluation.mixed_core import MixedCore
from operators.evaluation.object_states import check_no_states
from operators.evaluation.object_storage import ObjectStorage
from operators.evaluation.passing_queries import PassingQueries
from operators.evaluation.range_core import RangeCore
from operators.evaluation.terms_core import TermsCore
from operators.indexes import INDEXES, make_range_index
from operators.indexes.knn.registry import KNN_INDEXES, make_knn_index
from operators.indexes.objects.registry import OBJECT_INDEXES, make_object_index
from operators.indexes.terms.registry import TERMS_INDEXES, make_terms_index
from operators.needs import EVALUATOR_READS, Need
from operators.operator import Emitter, Epoch, Inputs, State, TaskContext
from operators.redistribution import Division
from partitioners.grids.fine_grid import DEFAULT_SIDE
from partitioners.plans.grid_plan import GridPlan
from partitioners.plans.plan import Plan
from streams.batches import FOREVER, OP_REGISTER, HitBatch, QueryBatch, RankedBatch, TupleBatch, batch_fields
from streams.errors import DeclarationError, did_you_mean
from streams.reject_reasons import REASON

__all__ = ["SstdEvaluator"]

#: Continuous terms queries are answered as snapshots are.
FROM_OBJECTS = "objects"

#: Longer reasons for answers that are not given are cut.
MAX_REASON = 300


@dataclass
class SstdEvaluator(Evaluator):
    """Answers range, knn and terms queries, continuous ones and snapshots.

    Options:
        index: which index holds continuous range queries: ``kag``, ``fast``, ``gi2`` or ``brute``.
        nearest: which index holds continuous knn queries; one of `operators.indexes.knn.registry.KNN_INDEXES`.
        objects: which index holds the objects; one of `operators.indexes.objects.registry.OBJECT_INDEXES`.
        terms: which index counts for continuous terms queries; one of `operators.indexes.terms.registry.TERMS_INDEXES`, or
            ``objects``: none of its own. It has those whose window is within `keep_ms`; with `keep_objects` there is none.
        keep_ms: objects are kept in memory for so long; 0: as long as the run. Without a storage this is how far back windows
            may reach.
        keep_objects: how many objects at most an evaluator keeps in memory; 0: any number. It needs a storage.
        storage: a folder, or a URL that fsspec knows, for objects that leave memory; none: they are forgotten.
        interval_ms: how much time the objects of a stored file span.
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
        "reach": BOUND_FIELDS,
        **Evaluator.exchanged,
    }
    reads: ClassVar = {
        **EVALUATOR_READS,
        "radii": Need(("all",), "some evaluators would look at objects that are too far away", feedback=True),
        "probes": Need(
            ("direct",), "the first phase would be asked of the wrong evaluator", routed=True, feedback=False
        ),
    }
    core_class: ClassVar = MixedCore

    index: str = "kag"
    nearest: str = "pyramid"
    objects: str = "segments"
    terms: str = "candidates"
    keep_ms: int = 0
    keep_objects: int = 0
    storage: str = ""
    interval_ms: int = 3_600_000

    def __post_init__(self) -> None:
        super().__post_init__()
        indexes: tuple[tuple[str, Collection[str]], ...] = (
            ("index", INDEXES),
            ("nearest", KNN_INDEXES),
            ("objects", OBJECT_INDEXES),
            ("terms", (*TERMS_INDEXES, FROM_OBJECTS)),
        )
        for name, known in indexes:
            chosen = getattr(self, name)
            if chosen not in known:
                listed = ", ".join(known)
                raise DeclarationError(f"{name} = '{chosen}'{did_you_mean(chosen, known)}, expected one of: {listed}")
        for name, least in (("keep_ms", 0), ("keep_objects", 0), ("interval_ms", 1)):
            if getattr(self, name) < least:
                raise DeclarationError(f"{name} = {getattr(self, name)}, expected at least {least}", (name,))
        if self.keep_objects and not self.storage:
            raise DeclarationError(
                f"keep_objects = {self.keep_objects}, but there is no storage for objects that leave memory, and nobody could "
                "say how far back windows may reach; set 'storage' too, or 'keep_ms' instead",
                ("keep_objects",),
            )

    @property
    def kept_ms(self) -> int:
        """How far back windows may reach: what was stored is there for ever."""
        return FOREVER if self.storage else self.keep_ms or FOREVER

    def open(self, context: TaskContext) -> None:
        """Start without queries and objects."""
        if context.plan is not None and (problem := _objection(context.plan)) is not None:
            raise DeclarationError(problem)
        super().open(context)
        schedule = self._schedule
        if schedule is None and context.plan is not None:
            schedule = PlanSchedule(context.plan, context.window, context.kept_ms)
        self._probes = PassingQueries()
        self._completeness = None
        if self._terms is not None:
            self._completeness = Completeness(self._terms, context.index, context.metric, schedule)

    def _note(self, new: QueryBatch) -> None:
        super()._note(new)
        if self._completeness is not None and self._terms is not None:
            counted = new.where(self._terms.holds(new.number))
            if len(counted):
                self._completeness.register(counted)

    def _switch(self, handover: Handover, epoch: Epoch, emit: Emitter) -> None:
        super()._switch(handover, epoch, emit)
        if self._completeness is not None:
            self._completeness.look_again(self._watermark)

    def restore(self, state: State) -> None:
        """Take over a snapshot; where it was divided anew, older objects may be anywhere."""
        super().restore(state)
        self._probes.insert(state["probes"])
        if self._completeness is not None and "divided_in_mid_round" in state and self._watermark is not None:
            self._completeness.look_again(self._watermark)

    def execute_epoch(self, epoch: Epoch, inputs: Inputs, emit: Emitter) -> None:
        """Use the radii of mergers, do what every evaluator does, and say which answers could not be given."""
        for radii in inputs.batches("radii"):
            self._mixed.bind(radii.column("number"), radii.column("bound"))
        super().execute_epoch(epoch, inputs, emit)
        for probes in inputs.batches("probes"):
            self._probes.insert(probes)
        if len(self._probes):
            self._probe(inputs, epoch, emit)
        for why in self._kept.refusals:
            self._context.count(f"{REASON}not answered, because {why}"[:MAX_REASON], 1)
        self._kept.refusals.clear()

    def _probe(self, inputs: Inputs, epoch: Epoch, emit: Emitter) -> None:
        """Say how far the first phase of snapshots reaches, once all objects up to their time are here.

        Of one that was unregistered at its own time, which has no answer, nothing is said that is a number.
        """
        for queries in inputs.batches("queries"):
            over = queries.op != OP_REGISTER
            self._probes.set_end(queries.target[over], queries.end[over])
        waiting = self._probes.queries(self._probes.numbers())
        complete = np.zeros(len(waiting), np.bool_) if epoch.watermark is None else waiting.ts < epoch.watermark
        asked = waiting.where(complete)
        if len(asked):
            reach = np.where(asked.ts < asked.end, self._kept.reach(asked), np.nan)
            emit.batch(TupleBatch(BOUND_FIELDS, (asked.number, reach)), "reach")
            self._probes.remove(asked.number)

    def snapshot(self) -> State:
        """Return what waits for its first phase too."""
        return {**super().snapshot(), "probes": self._probes.queries(self._probes.numbers())}

    @classmethod
    def redistribute(cls, states: Sequence[State], division: Division) -> list[State]:
        """Divide queries and objects; a first phase may be asked of anybody."""
        divided = super().redistribute(states, division)
        if not division.replanned:
            return divided
        waiting = QueryBatch.concat([state["probes"] for state in states])
        return [{**one, "probes": QueryBatch.empty() if place else waiting} for place, one in enumerate(divided)]

    def make_core(self, context: TaskContext) -> MixedCore:
        """Return empty indexes."""
        check_no_states(context)
        space, metric = context.space, context.metric
        grid = (DEFAULT_SIDE, DEFAULT_SIDE)
        index = partial(make_object_index, self.objects, space, metric)
        storage = ObjectStorage(self.storage, self.interval_ms, space, metric, index) if self.storage else None
        late = context.epoch_feedback + 2 if "reach" in context.targets else 1
        self._kept = KeptCore(space, metric, index(), self.keep_ms or None, self.keep_objects or None, storage, late)
        self._terms = self._make_terms(context)
        self._mixed = MixedCore(
            RangeCore(make_range_index(self.index, space, metric, grid)),
            KnnCore(make_knn_index(self.nearest, space, metric)),
            self._kept,
            self._terms,
            self.keep_ms or FOREVER,
        )
        return self._mixed

    def _make_terms(self, context: TaskContext) -> TermsCore | None:
        """Return what counts for continuous terms queries, where all objects that these may look back to are in memory."""
        if self.terms == FROM_OBJECTS or self.keep_objects or (self.storage and not self.keep_ms):
            return None
        name = f"terms-{context.index}-of-{context.parallelism}"
        return TermsCore(make_terms_index(self.terms, context.space, context.metric, name), 0)


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
