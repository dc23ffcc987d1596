"""What evaluators report of their load: the kinds by name, each with the side that reports and the side that reads.

A policy names the kind that it decides by. The evaluators learn which one from there, so the two cannot disagree.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Protocol

import numpy as np

from operators.balancing.dkm.selection import fewest
from operators.balancing.tornado.cells import CellStatistics
from operators.balancing.tornado.partitions import Partitions
from operators.balancing.tornado.shift_positions import shift_position
from operators.balancing.tornado.summaries import summarize
from operators.balancing.tornado.wire import (
    cells_from_batch,
    cells_to_batch,
    summaries_from_batch,
    summaries_to_batch,
)
from operators.indexes import Cost, Load
from partitioners.columns import Floats, Ints
from partitioners.grids.adjacency import Side
from partitioners.plans.grid_plan import GridPlan
from partitioners.plans.plan import Plan
from streams.batches import TupleBatch
from streams.errors import InputError

__all__ = [
    "COSTS_FIELDS",
    "STATISTICS",
    "CostReport",
    "LoadReporter",
    "StatisticsKind",
    "StatisticsRequest",
    "make_reporter",
]

COSTS_FIELDS = ("worker", "version", "cost", "queries")


@dataclass(frozen=True, slots=True)
class StatisticsRequest:
    """What a balancer wants evaluators to report."""

    kind: str
    options: Mapping[str, Any] = field(default_factory=dict)


class Counted(Protocol):
    """A core, as far as its load is concerned."""

    def numbers(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Return the numbers of the queries held."""

    def cost(self) -> Cost:
        """Return the work done since it was reset."""

    def load(self) -> Load:
        """Return the aggregates over the fine grid."""

    def weights(self) -> tuple[Ints, Floats]:
        """Return queries and the work that recent objects caused for each."""


class LoadReporter(Protocol):
    """The evaluator's side of a kind of statistics."""

    def report(self, plan: Plan) -> TupleBatch | None:
        """Return what there is to report under a plan; None where the worker has no part in it."""

    def answer(self, plan: Plan, question: Any) -> Any:
        """Answer a question of the policy about the load that was reported last."""

    def snapshot(self) -> dict[str, Any]:
        """Return what is remembered of the last report."""

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a snapshot."""


@dataclass(frozen=True, slots=True)
class CostReport:
    """The work of one evaluator under one plan: candidates examined, and queries held."""

    worker: int
    version: int
    cost: int
    queries: int


class CostReporter:
    """Reports one number for the work, for any core and any plan."""

    def __init__(self, worker: int, core: Counted, _options: Mapping[str, Any]) -> None:
        self._worker, self._core = worker, core

    def report(self, plan: Plan) -> TupleBatch:
        """Return what was examined since the last report."""
        row = (self._worker, plan.version, self._core.cost().candidates, len(self._core.numbers()))
        return TupleBatch.of(COSTS_FIELDS, [row])

    def answer(self, _plan: Plan, _question: Any) -> Any:
        """Have nothing to say."""
        return None

    def snapshot(self) -> dict[str, Any]:
        """Remember nothing."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over nothing."""


def costs_from_batch(batch: TupleBatch) -> Sequence[CostReport]:
    """Read reports of costs."""
    if batch.fields != COSTS_FIELDS:
        raise InputError(f"reports of costs have the fields {list(batch.fields)}, expected {list(COSTS_FIELDS)}")
    return [CostReport(*map(int, row)) for row in batch.rows()]


class WeighedReporter(CostReporter):
    """Reports one number for the work, and names the queries that would shed some of it."""

    def answer(self, _plan: Plan, question: Any) -> list[Any]:
        """Return (numbers, costs) of the fewest queries that make up an amount, and no more.

        The question has the amount, the worker's cost that it is a part of, and how many queries at most. Recent work tells
        which queries are dear; it is scaled to that cost.
        """
        amount, whole, most = question
        numbers, weights = self._core.weights()
        if not weights.sum() > 0:
            return [np.empty(0, np.int64), np.empty(0)]
        costs = weights * (whole / weights.sum())
        chosen = fewest(costs, amount, most)
        return [numbers[chosen], costs[chosen]]


class TornadoReporter:
    """Reports the load of a partition (Tornado, section 4.3) as a summary, or that of all its cells.

    It also chooses where a border is to be cut, from the load that the balancer has decided upon.
    """

    def __init__(self, worker: int, core: Counted, options: Mapping[str, Any], *, by_cell: bool = False) -> None:
        self._worker, self._core, self._knots, self._by_cell = worker, core, options.get("knots", 0), by_cell
        self._load = core.load()

    def report(self, plan: Plan) -> TupleBatch | None:
        """Return the load of the worker's partition; None where it has none."""
        self._load = self._core.load()
        assert isinstance(plan, GridPlan), "Tornado's statistics are about partitions of a grid"
        if self._worker not in Partitions.of(plan).numbers:
            return None
        if self._by_cell:
            return cells_to_batch([CellStatistics.of_load(self._load, plan, self._worker)])
        return summaries_to_batch([summarize(self._load, plan, self._worker, self._knots)])

    def answer(self, plan: Plan, question: Any) -> int | None:
        """Return where to cut for a shift to one side, given the neighbour's cost."""
        side, cost = question
        assert isinstance(plan, GridPlan)
        return shift_position(self._load, Partitions.of(plan).box(self._worker), Side(side), cost)

    def snapshot(self) -> dict[str, Any]:
        """Return the load that was reported last."""
        return {f.name: getattr(self._load, f.name) for f in fields(Load)}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a snapshot."""
        self._load = Load(**state)


def _cell_reporter(worker: int, core: Counted, options: Mapping[str, Any]) -> TornadoReporter:
    return TornadoReporter(worker, core, options, by_cell=True)


@dataclass(frozen=True, slots=True)
class StatisticsKind:
    """A kind of statistics; a report has `worker`, `version` and `cost`.

    Attributes:
        reporter: makes the side of an evaluator.
        read: returns the reports of a batch.
        by_place: it is about partitions of a grid, so cores must count by place, and a worker without one reports nothing.
        by_query: it names queries, so cores must weigh them.
    """

    name: str
    reporter: Callable[[int, Counted, Mapping[str, Any]], LoadReporter]
    read: Callable[[TupleBatch], Sequence[Any]]
    by_place: bool = False
    by_query: bool = False

    def lacks(self, core: type[Any]) -> str | None:
        """Say what a class of cores would have to do for it and does not; None where it does all of it."""
        if self.by_place and not core.counts_by_place:
            return "which count work by place"
        if self.by_query and not getattr(core, "weighs_queries", False):
            return "which weigh single queries"
        return None


#: Name -> kind.
STATISTICS: Mapping[str, StatisticsKind] = {
    kind.name: kind
    for kind in (
        StatisticsKind("costs", CostReporter, costs_from_batch),
        StatisticsKind("weighed", WeighedReporter, costs_from_batch, by_query=True),
        StatisticsKind("summaries", TornadoReporter, summaries_from_batch, by_place=True),
        StatisticsKind("cells", _cell_reporter, cells_from_batch, by_place=True),
    )
}


def make_reporter(request: StatisticsRequest | None, worker: int, core: Counted) -> LoadReporter:
    """Return the reporter that a balancer asks for."""
    asked = request or StatisticsRequest("costs")
    return STATISTICS[asked.kind].reporter(worker, core, asked.options)
