"""The subscription bolt of DSkype (Section 7.2)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from operators.evaluation.evaluator import Evaluator
from operators.evaluation.handover import BOUND_FIELDS, Handover
from operators.evaluation.scored_core import ScoredCore
from operators.indexes.topk.disseminations import DISSEMINATIONS
from operators.indexes.topk.subscriptions import ScoredSubscriptions
from operators.needs import EVALUATOR_READS, Need
from operators.operator import Emitter, Epoch, Inputs, State, TaskContext
from partitioners.plans.meeting import keywords_to
from partitioners.plans.plan import Plan
from streams.batches import QueryBatch, RankedBatch, TupleBatch, batch_fields
from streams.columns import Ints
from streams.errors import DeclarationError, did_you_mean

__all__ = ["THRESHOLD_FIELDS", "ScoredEvaluator"]

#: What aggregators send evaluators: what a message must come up to, from the next epoch on.
THRESHOLD_FIELDS = ("number", "theta")
#: What evaluators send aggregators: subscriptions whose threshold they do not know.
UNSET_FIELDS = ("number",)

_NONE: Ints = np.empty(0, np.int64)


@dataclass
class ScoredEvaluator(Evaluator):
    """Finds the topk queries that messages enter, under any plan; an aggregator has their lists and sends thresholds.

    A subscription is filed under those of its keywords that the plan leads here: what a message enters through another one is
    found where that one leads. With `prefix` it is only filed under those of its loose prefix (Definition 12). Its
    definition is at all workers of its keywords, so that nothing has to travel when the prefix grows.

    Options:
        index: how subscriptions are found; one of `DISSEMINATIONS`.
        prefix: whether words that are not in the loose prefix are left out.
        transfer_queries: as for every evaluator.
    """

    answers: ClassVar = frozenset({"continuous topk"})
    answers_on: ClassVar = "hits"
    outputs: ClassVar = {"hits": batch_fields(RankedBatch), "unset": UNSET_FIELDS, **Evaluator.exchanged}
    reads: ClassVar = {
        **EVALUATOR_READS,
        "thresholds": Need(("all",), "some evaluators would keep old thresholds", feedback=True, required=True),
    }
    core_class: ClassVar = ScoredCore

    index: str = "balls"
    prefix: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.index not in DISSEMINATIONS:
            listed = ", ".join(DISSEMINATIONS)
            raise DeclarationError(
                f"index = '{self.index}'{did_you_mean(self.index, DISSEMINATIONS)}, expected one of: {listed}",
                ("index",),
            )

    def check(self, settings: Any, component: Any) -> Iterator[tuple[str, str]]:
        """Yield what keeps it from answering."""
        yield from super().check(settings, component)
        if settings.window is None:
            yield (
                "operator",
                "topk queries are over a sliding window; set topology.window.objects or topology.window.ms",
            )

    def make_core(self, context: TaskContext) -> ScoredCore:
        """Return an empty table."""
        words = context.word_statistics
        table = ScoredSubscriptions(
            self.index, context.space, context.metric, words, leads=self._leading_here, prefix=self.prefix
        )
        return ScoredCore(table, words)

    def open(self, context: TaskContext) -> None:
        """Start without queries."""
        super().open(context)
        self._filed, self._gives_bounds = 0, "bounds" in context.targets
        #: Thresholds that have come of late: the epoch, numbers and values.
        self._latest: list[tuple[int, Ints, NDArray[np.float64]]] = []

    @property
    def _scored(self) -> ScoredCore:
        return cast(ScoredCore, self._core)

    def execute_epoch(self, epoch: Epoch, inputs: Inputs, emit: Emitter) -> None:
        """Take thresholds, then do what every evaluator does; ask for the thresholds of queries that came from others."""
        given_up = _NONE
        if come := inputs.batches("thresholds"):
            numbers, theta = (np.concatenate([batch.column(name) for batch in come]) for name in THRESHOLD_FIELDS)
            given_up = self._set(numbers, theta)
            if self._gives_bounds and self._schedule is not None and self._schedule.next is not None:
                self._latest.append((epoch.number, numbers, theta))
        self._latest = [one for one in self._latest if one[0] > epoch.number - self._context.epoch_feedback]
        before = self._plans()
        super().execute_epoch(epoch, inputs, emit)
        if len(given_up):
            self._note_moments(given_up, before)
        if len(unset := self._scored.unset[self._core.holds(self._scored.unset)]) and not epoch.final:
            emit.batch(TupleBatch(UNSET_FIELDS, (unset,)), "unset")
        self._scored.unset = _NONE
        self._context.count("filed", self._scored.filed - self._filed)  # adds up to how many are filed now
        self._filed = self._scored.filed

    def _take_over(self, handover: Handover, inputs: Inputs, epoch: Epoch, emit: Emitter) -> None:
        """File what others gave, with the thresholds that they knew, and what has come since; else these are asked for."""
        super()._take_over(handover, inputs, epoch, emit)
        if given := inputs.batches("bounds"):
            moved, bounds = (np.concatenate([batch.column(name) for batch in given]) for name in BOUND_FIELDS)
            self._set(moved, bounds)
            # Who gave them knew all that came before; what has come since came here too, where they were not held.
            for _, numbers, theta in self._latest:
                concerned = np.isin(numbers, moved)
                self._set(numbers[concerned], theta[concerned])
        elif unknown := inputs.batches("transfer"):
            self._scored.unset = np.union1d(self._scored.unset, QueryBatch.concat(unknown).number)

    def _follow(self, handover: Handover, orders: Sequence[TupleBatch], epoch: Epoch, emit: Emitter) -> None:
        """Follow orders; where plans have changed, other keywords lead here, from the messages of this epoch on."""
        before = self._plans()
        super()._follow(handover, orders, epoch, emit)
        if self._plans() != before:
            self._scored.refile()
            self._latest = []

    def _leading_here(self, queries: QueryBatch) -> NDArray[np.bool_] | None:
        """Tell of each keyword whether the plan in force, or the one in preparation, leads messages with it here."""
        context = self._context
        here = [keywords_to(plan, queries, context.index, context.metric) for plan in self._plans()]
        known = [one for one in here if one is not None]
        return np.logical_or.reduce(known) if len(known) == len(here) > 0 else None

    def _plans(self) -> list[Plan]:
        """Return the plan in force and the one in preparation."""
        both = (self._context.plan,) if self._schedule is None else (self._schedule.plan, self._schedule.next)
        return [plan for plan in both if plan is not None]

    def _note_moments(self, fallen: Ints, before: list[Plan]) -> None:
        """Count rare moments: stores search in this epoch for subscriptions whose thresholds were given up."""
        if self._handover is not None and self._handover.concerns(fallen):
            self._context.count("moment_threshold_given_up_while_moving", 1)
        if self._schedule is not None and len(self._schedule.plan.unit_worker) > len(before[0].unit_worker):
            self._context.count("moment_split_while_refilling", 1)

    def _set(self, numbers: Ints, theta: NDArray[np.float64]) -> Ints:
        """Give subscriptions that are held new thresholds; return those that had one and have none from now on."""
        held = self._core.holds(numbers)
        numbers, theta = numbers[held], theta[held]
        # Of several for one subscription the last counts.
        numbers, last = np.unique(numbers[::-1], return_index=True)
        theta = theta[::-1][last]
        fallen: Ints = numbers[(theta == -np.inf) & (self._scored.bounds(numbers) > -np.inf)]
        self._scored.bind(numbers, theta)
        return fallen

    # --- state -------------------------------------------------------------------------------------------------------

    def snapshot(self) -> State:
        """Return the thresholds that have come of late too."""
        return {**super().snapshot(), "latest": [list(one) for one in self._latest]}

    def restore(self, state: State) -> None:
        """Take over a snapshot, under the plans that were in force then; with other evaluators all thresholds are asked for."""
        super().restore(state)
        self._latest = [(epoch, numbers, theta) for epoch, numbers, theta in state.get("latest", ())]
        self._scored.refile()
        self._filed = self._scored.filed
