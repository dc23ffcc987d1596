"""An evaluator's share of the work, and how it changes: orders in, statistics and queries out (Tornado, section 4)."""

from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from operators.balancing.orders import Order, PlanSchedule, orders_of
from operators.balancing.tornado import (
    CellStatistics,
    Partitions,
    cells_to_batch,
    shift_position,
    summaries_to_batch,
    summarize,
)
from operators.evaluation.transfers import Transfers
from operators.indexes import Load, RangeIndex
from operators.operator import Emitter, TaskContext
from operators.sinks.query_ids import QueryIds
from partitioners.grids.adjacency import Side
from partitioners.plans.grid_plan import GridPlan
from streams.batches import QueryBatch, TupleBatch

__all__ = ["REPLY_FIELDS", "STATISTICS", "BalancedShare"]

#: What an evaluator can tell of its load.
STATISTICS = ("summaries", "cells")

#: What evaluators answer: ``position`` (where to cut for a shift, or None) and ``sent`` (pairs of taker and queries given).
REPLY_FIELDS = ("kind", "worker", "value")


class BalancedShare:
    """Which plan an evaluator works under, what it is about to give away, and what it has to tell of its load."""

    def __init__(self, context: TaskContext, index: RangeIndex, chunk: int, statistics: str, knots: int) -> None:
        self._worker, self._index = context.index, index
        self._statistics, self._knots = statistics, knots
        assert context.plan is not None
        self.schedule = PlanSchedule(context.plan)
        self.transfers = Transfers(context.index, self.schedule, context.metric, chunk)
        self._load = index.load()

    def follow(self, batches: Iterable[TupleBatch], emit: Emitter) -> None:
        """Follow what the balancer has ordered."""
        for order in orders_of(batches):
            if order.kind == "shift":
                if order.worker == self._worker:
                    emit("position", self._worker, self._position(order), stream="replies")
                continue
            before = self.schedule.plan
            self.schedule.follow(order)
            if order.kind == "prepare":
                self.transfers.begin(self._index)
            else:
                self.transfers.end(self._index, before)
                self._index.reset_cost()

    def _position(self, order: Order) -> int | None:
        """Choose where to cut, from the load that the balancer has decided upon."""
        side, cost = order.payload
        box = Partitions.of(self._plan).box(self._worker)
        return shift_position(self._load, box, Side(side), cost)

    @property
    def _plan(self) -> GridPlan:
        assert isinstance(self.schedule.plan, GridPlan), "only grid plans are rebalanced"
        return self.schedule.plan

    def give(self, ids: QueryIds, emit: Emitter) -> list[tuple[int, QueryBatch]]:
        """Return what to give in this epoch, by taker; the balancer hears when that was all."""
        if not self.transfers.giving:
            return []
        pieces = self.transfers.next_piece(self._index, ids)
        if not self.transfers.giving:
            emit("sent", self._worker, sorted(self.transfers.sent.items()), stream="replies")
        return pieces

    def send_statistics(self, emit: Emitter) -> None:
        """Send what the balancer decides by, and start counting afresh; a worker without a partition has nothing to tell."""
        self._load = self._index.load()
        if self._worker in Partitions.of(self._plan).numbers:
            emit.batch(self._statistics_batch(), "statistics")
        self._index.reset_cost()

    def _statistics_batch(self) -> TupleBatch:
        if self._statistics == "cells":
            return cells_to_batch([CellStatistics.of_load(self._load, self._plan, self._worker)])
        return summaries_to_batch([summarize(self._load, self._plan, self._worker, self._knots)])

    def snapshot(self) -> dict[str, Any]:
        """Return plans, transfers and the load that was told last."""
        load = {field.name: getattr(self._load, field.name) for field in fields(Load)}
        return {"schedule": self.schedule.snapshot(), "transfers": self.transfers.snapshot(), "load": load}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a snapshot."""
        self.schedule.restore(state["schedule"])
        self.transfers.restore(state["transfers"])
        self._load = Load(**state["load"])
