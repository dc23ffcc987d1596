"""What evaluators report of their load: the kinds by name, each with the side that reports and the side that reads.

A policy names the kind that it decides by. The evaluators learn which one from there, so the two cannot disagree.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np

from operators.balancing.dkm.selection import fewest
from operators.balancing.dskype.unit_costs import Work, unit_costs
from operators.balancing.sstd.leaf_counts import leaves_from_batch
from operators.balancing.sstd.leaf_reporter import LeafReporter
from operators.balancing.tornado.cells import CellStatistics
from operators.balancing.tornado.partition_loads import load_of_partition
from operators.balancing.tornado.partitions import Partitions
from operators.balancing.tornado.shift_positions import shift_position
from operators.balancing.tornado.wire import (
    cells_from_batch,
    cells_to_batch,
    loads_from_batch,
    loads_to_batch,
)
from operators.indexes import Cost, Load
from partitioners.columns import Floats, Ints
from partitioners.costs.statistics import thinned
from partitioners.grids.adjacency import Side
from partitioners.plans.divisible import Divisible
from partitioners.plans.grid_plan import GridPlan
from partitioners.plans.meeting import regions_of
from partitioners.plans.plan import Plan
from streams.batches import ObjectBatch, QueryBatch, TupleBatch
from streams.errors import InputError
from streams.geometry import Metric

__all__ = [
    "COSTS_FIELDS",
    "STATISTICS",
    "CostReport",
    "LoadReporter",
    "StatisticsKind",
    "StatisticsRequest",
    "make_reporter",
]

#: Queries without work that are looked at for how many a unit has; of more, so many are taken for all.
_COUNTED = 65_536

COSTS_FIELDS = ("worker", "version", "cost")


@dataclass(frozen=True, slots=True)
class StatisticsRequest:
    """What a balancer wants evaluators to report."""

    kind: str
    options: Mapping[str, Any] = field(default_factory=dict)


class Counted(Protocol):
    """A core, as far as its load is concerned."""

    def numbers(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Return the numbers of the queries held."""

    def queries(self, numbers: Ints) -> QueryBatch:
        """Return those of these queries that are held, in this order."""

    def cost(self) -> Cost:
        """Return the work done since it was reset."""


@runtime_checkable
class PlaceCounting(Protocol):
    """What a core may offer besides: it counts its work by cell of the fine grid."""

    def load(self) -> Load:
        """Return the aggregates over the fine grid."""


@runtime_checkable
class Weighing(Protocol):
    """What a core may offer besides: it knows which queries its work is for, so that a policy can move dear ones."""

    def weights(self) -> tuple[Ints, Floats]:
        """Return numbers of queries and the work that recent objects caused for each; those without any are left out.

        Asked seldom; any unit will do.
        """


@runtime_checkable
class WordWeighing(Protocol):
    """What a core may offer besides: it knows for which keywords of its queries work was done."""

    def weights_by_word(self) -> tuple[Ints, Ints, Floats]:
        """Return what `weights` does, by query and keyword; the keyword is -1 where it is not known."""


class LoadReporter(Protocol):
    """The evaluator's side of a kind of statistics."""

    def saw(self, plan: Plan, objects: ObjectBatch) -> None:
        """Look at objects that the evaluator is about to take."""

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
    """The work of one evaluator under one plan: candidates examined."""

    worker: int
    version: int
    cost: int


class CostReporter:
    """Reports one number for the work, for any core and any plan."""

    def __init__(self, worker: int, core: Counted, _options: Mapping[str, Any], metric: Metric) -> None:
        self._worker, self._core, self._metric = worker, core, metric

    def saw(self, plan: Plan, objects: ObjectBatch) -> None:
        """Count work, not objects."""

    def report(self, plan: Plan) -> TupleBatch:
        """Return what was examined since the last report."""
        return TupleBatch.of(COSTS_FIELDS, [(self._worker, plan.version, self._core.cost().candidates)])

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
        numbers, weights = cast(Weighing, self._core).weights()
        if not weights.sum() > 0:
            return [[], []]
        costs = weights * (whole / weights.sum())
        chosen = fewest(costs, amount, most)
        return [numbers[chosen].tolist(), costs[chosen].tolist()]


class UnitReporter(CostReporter):
    """Reports one number for the work, and says what each unit of the plan has of it."""

    def answer(self, plan: Plan, question: Any) -> list[Any]:
        """Return `UnitCosts` of this worker; the question is the worker's cost, which recent work is scaled to."""
        if isinstance(self._core, WordWeighing):
            owner, words, weights = self._core.weights_by_word()
        else:
            owner, weights = cast(Weighing, self._core).weights()
            words = np.full(len(owner), -1)
        numbers, row = np.unique(owner, return_inverse=True)
        idle = np.setdiff1d(self._core.numbers(), numbers)
        some = thinned(len(idle), _COUNTED)
        queries = self._core.queries(np.concatenate([numbers, idle[some]]))
        work = Work(row, words, weights * (question / max(weights.sum(), 1e-9)))
        count = np.append(np.ones(len(numbers)), np.full(len(some), len(idle) / max(len(some), 1)))
        divisible = cast(Divisible, plan)
        regions = regions_of(plan, queries, self._metric)
        cell = divisible.grid.cells_of(regions.at_x, regions.at_y)
        return unit_costs(divisible, self._worker, divisible.filed(regions), cell, work, count).answer()


class TornadoReporter:
    """Reports the load of a partition (Tornado, section 4.3) in a few numbers, or that of all its cells.

    It also chooses where a border is to be cut, from the load that the balancer has decided upon.
    """

    def __init__(
        self, worker: int, core: Counted, options: Mapping[str, Any], _metric: Metric, *, by_cell: bool = False
    ) -> None:
        self._worker, self._knots, self._by_cell = worker, options.get("knots", 0), by_cell
        self._core = cast(PlaceCounting, core)
        self._load = self._core.load()

    def saw(self, plan: Plan, objects: ObjectBatch) -> None:
        """Leave it to the index to count by place."""

    def report(self, plan: Plan) -> TupleBatch | None:
        """Return the load of the worker's partition; None where it has none."""
        self._load = self._core.load()
        assert isinstance(plan, GridPlan), "Tornado's statistics are about partitions of a grid"
        if self._worker not in Partitions.of(plan).numbers:
            return None
        if self._by_cell:
            return cells_to_batch([CellStatistics.of_load(self._load, plan, self._worker)])
        return loads_to_batch([load_of_partition(self._load, plan, self._worker, self._knots)])

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


def _cell_reporter(worker: int, core: Counted, options: Mapping[str, Any], metric: Metric) -> TornadoReporter:
    return TornadoReporter(worker, core, options, metric, by_cell=True)


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
    reporter: Callable[[int, Counted, Mapping[str, Any], Metric], LoadReporter]
    read: Callable[[TupleBatch], Sequence[Any]]
    by_place: bool = False
    by_query: bool = False

    def lacks(self, core: type[Any]) -> str | None:
        """Say what a class of cores would have to do for it and does not; None where it does all of it."""
        if self.by_place and not issubclass(core, PlaceCounting):
            return "which count work by place"
        if self.by_query and not issubclass(core, Weighing):
            return "which weigh single queries"
        return None


#: Name -> kind.
STATISTICS: Mapping[str, StatisticsKind] = {
    kind.name: kind
    for kind in (
        StatisticsKind("costs", CostReporter, costs_from_batch),
        StatisticsKind("weighed", WeighedReporter, costs_from_batch, by_query=True),
        StatisticsKind("units", UnitReporter, costs_from_batch, by_query=True),
        StatisticsKind("leaves", LeafReporter, leaves_from_batch),
        StatisticsKind("partitions", TornadoReporter, loads_from_batch, by_place=True),
        StatisticsKind("cells", _cell_reporter, cells_from_batch, by_place=True),
    )
}


def make_reporter(
    request: StatisticsRequest | None, worker: int, core: Counted, metric: Metric = "euclidean"
) -> LoadReporter:
    """Return the reporter that a balancer asks for."""
    asked = request or StatisticsRequest("costs")
    return STATISTICS[asked.kind].reporter(worker, core, asked.options, metric)
