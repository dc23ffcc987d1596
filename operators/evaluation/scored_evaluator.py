"""The subscription bolt of DSkype (Section 7.2)."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from operators.evaluation.evaluator import Evaluator
from operators.evaluation.scored_core import ScoredCore
from operators.indexes.topk.disseminations import DISSEMINATIONS
from operators.indexes.topk.subscriptions import ScoredSubscriptions
from operators.needs import EVALUATOR_READS, Need
from operators.operator import Emitter, Epoch, Inputs, State, TaskContext
from partitioners.builders.keyword_partition import loose_prefixes
from partitioners.plans.meeting import route_queries
from partitioners.plans.plan import Plan
from streams.batches import QueryBatch, RankedBatch, TupleBatch, batch_fields
from streams.columns import Ints
from streams.errors import DeclarationError, did_you_mean
from streams.scoring import unit_weights

__all__ = ["THRESHOLD_FIELDS", "ScoredEvaluator"]

#: What aggregators send evaluators: what a message must come up to, from the next epoch on.
THRESHOLD_FIELDS = ("number", "theta")
#: What evaluators send aggregators: subscriptions whose threshold they do not know.
UNSET_FIELDS = ("number",)

_NONE: Ints = np.empty(0, np.int64)


@dataclass
class ScoredEvaluator(Evaluator):
    """Finds the topk queries that messages enter, under any plan; an aggregator has their lists and sends thresholds.

    With `prefix` a subscription is filed only where its loose prefix leads (Definition 12): at another worker of its
    keywords, a message can come up to the threshold only through words that the plan has elsewhere. Its definition stays
    there, so that nothing has to travel when the prefix grows.

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
        return ScoredCore(ScoredSubscriptions(self.index, context.space, context.metric, words), words)

    def open(self, context: TaskContext) -> None:
        """Start without queries."""
        super().open(context)
        self._left_out: tuple[Ints, NDArray[np.float64]] = (_NONE, np.empty(0))
        self._filed = 0

    @property
    def _scored(self) -> ScoredCore:
        return cast(ScoredCore, self._core)

    def execute_epoch(self, epoch: Epoch, inputs: Inputs, emit: Emitter) -> None:
        """Take thresholds, then do what every evaluator does; ask for the thresholds of queries that came from others."""
        given_up = _NONE
        if come := inputs.batches("thresholds"):
            columns = (np.concatenate([batch.column(name) for batch in come]) for name in THRESHOLD_FIELDS)
            given_up = self._set(*columns)
        if moved := inputs.batches("transfer"):
            self._come(QueryBatch.concat(moved).number)
        before = self._plans()
        super().execute_epoch(epoch, inputs, emit)
        if self.prefix and self._plans() != before:
            self._set(*self._left_out)
        if len(given_up):
            self._note_moments(given_up, before)
        if len(unset := self._scored.unset[self._core.holds(self._scored.unset)]) and not epoch.final:
            emit.batch(TupleBatch(UNSET_FIELDS, (unset,)), "unset")
        self._scored.unset = _NONE
        self._context.count("filed", self._scored.filed - self._filed)  # adds up to how many are filed now
        self._filed = self._scored.filed

    def _come(self, numbers: Ints) -> None:
        """Note queries that others gave: what was known of them here from an earlier stay holds no more."""
        self._scored.unset = np.union1d(self._scored.unset, numbers)
        known, theta = self._left_out
        rest = ~np.isin(known, numbers)
        self._left_out = known[rest], theta[rest]

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
        if self.prefix and len(numbers):
            here = self._within_prefix(numbers, theta)
            known, kept = self._left_out
            rest = ~np.isin(known, numbers) & self._core.holds(known)
            self._left_out = np.append(known[rest], numbers[~here]), np.append(kept[rest], theta[~here])
            theta = np.where(here, theta, np.inf)
        self._scored.bind(numbers, theta)
        return fallen

    def _within_prefix(self, numbers: Ints, theta: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Tell which subscriptions have a word here, under one of the plans, through which a message can come up to theta."""
        here = np.ones(len(numbers), np.bool_)
        some = np.flatnonzero(theta > 0)  # others keep all words
        queries = self._core.queries(numbers[some])
        weights = unit_weights(queries.kw_off, queries.kw, self._context.word_statistics)
        off, kw = loose_prefixes(queries.kw_off, queries.kw, weights, theta[some], queries.alpha)
        # Who has lost no word is where it was sent, under one of the plans; few have lost some.
        shorter = np.flatnonzero(np.diff(off) < np.diff(queries.kw_off))
        cut = replace(queries, kw_off=off, kw=kw).take(shorter)
        leads = np.zeros(len(cut), np.bool_)
        for plan in self._plans() if len(cut) else ():
            routed_off, workers = route_queries(plan, cut, self._context.metric)
            leads |= np.bincount(np.repeat(np.arange(len(cut)), np.diff(routed_off))[workers == self._context.index],
                                 minlength=len(cut)) > 0  # fmt: skip
        here[some[shorter]] = leads
        return here

    # --- state -------------------------------------------------------------------------------------------------------

    def snapshot(self) -> State:
        """Return what was left out too."""
        return {**super().snapshot(), "left_out": list(self._left_out)}

    def restore(self, state: State) -> None:
        """Take over a snapshot; with other evaluators all thresholds are asked for."""
        super().restore(state)
        if "left_out" in state:
            self._left_out = state["left_out"][0], state["left_out"][1]
        self._filed = self._scored.filed
