"""Queries on their way from one evaluator to another while a plan replaces another (Tornado, section 4.4).

The giver copies them in pieces, a bounded number in an epoch, and goes on answering with them; the taker files them as
they come. Registrations of this time reach both, so only what the giver held before has to be copied. Once the new plan is
in force, the giver lets go of what is not its own any more, in pieces as well.
"""

from collections import deque
from dataclasses import replace
from typing import Any

import numpy as np

from operators.balancing.orders import PlanSchedule
from operators.balancing.tornado import moves
from operators.indexes import CellRange, RangeIndex
from operators.sinks.query_ids import QueryIds
from partitioners.plans.grid_plan import GridPlan
from partitioners.plans.plan import Plan
from streams.batches import QueryBatch
from streams.columns import Ints
from streams.geometry import Metric

__all__ = ["Transfers"]


class Transfers:
    """What one evaluator has to give, to take and to drop.

    Attributes:
        sent: how many queries it has given to each taker since the last `begin`.
    """

    def __init__(self, worker: int, schedule: PlanSchedule, metric: Metric, chunk: int) -> None:
        self._worker, self._schedule, self._metric, self._chunk = worker, schedule, metric, chunk
        self._to_give: deque[tuple[int, Ints]] = deque()
        self._to_drop: Ints = np.empty(0, np.int64)
        self._ends: list[tuple[Ints, Ints]] = []
        self._giving = self._taking = False
        self.sent: dict[int, int] = {}

    @property
    def giving(self) -> bool:
        """Whether there is anything to give, until the balancer has been told that it is all sent."""
        return self._giving

    def begin(self, index: RangeIndex) -> None:
        """Find out what the next plan moves from here, before anything of this epoch is registered."""
        assert self._schedule.next is not None
        self._to_give.clear()
        self._ends.clear()
        self.sent = {}
        found = _moves(self._schedule.plan, self._schedule.next)
        self._giving = any(giver == self._worker for giver, _, _ in found)
        self._taking = any(taker == self._worker for _, taker, _ in found)
        for giver, taker, cells in found:
            if giver == self._worker:
                self.sent.setdefault(taker, 0)
                self._to_give.append((taker, index.overlapping(cells)))

    def end(self, index: RangeIndex, before: Plan) -> None:
        """The new plan is in force: what it took away from here may go."""
        self._ends.clear()
        self._giving = self._taking = False
        found = _moves(before, self._schedule.plan)
        gone = [index.overlapping(cells) for giver, _, cells in found if giver == self._worker]
        self._to_drop = np.unique(np.concatenate([self._to_drop, *gone]))

    def next_piece(self, index: RangeIndex, ids: QueryIds) -> list[tuple[int, QueryBatch]]:
        """Return the next queries to give, with their takers; none are left when `giving` turns false."""
        pieces: list[tuple[int, QueryBatch]] = []
        room = self._chunk
        while self._to_give and room > 0:
            taker, numbers = self._to_give.popleft()
            if len(numbers) > room:
                self._to_give.appendleft((taker, numbers[room:]))
                numbers = numbers[:room]
            room -= len(numbers)
            batch = index.queries(numbers)
            if len(batch):
                pieces.append((taker, replace(batch, ids=ids.of(batch.number))))
                self.sent[taker] += len(batch)
        self._giving = bool(self._to_give)
        return pieces

    def note_ends(self, numbers: Ints, ends: Ints) -> None:
        """Remember unregistrations: their queries may be on the way to here."""
        if self._taking:
            self._ends.append((numbers, ends))

    def arrive(self, batch: QueryBatch, index: RangeIndex) -> tuple[QueryBatch, QueryBatch]:
        """File queries that other evaluators gave; return the new ones, and the copies of those that were here already."""
        known = np.isin(batch.number, index.queries(batch.number).number)
        _, first = np.unique(batch.number, return_index=True)
        again = np.ones(len(batch), np.bool_)
        again[first] = False  # two evaluators may give the same query
        known |= again
        new = batch.take(np.flatnonzero(~known))
        index.insert(new)
        for numbers, ends in self._ends:
            late = np.isin(numbers, new.number)
            index.set_end(numbers[late], ends[late])
        return new, batch.take(np.flatnonzero(known))

    def next_drop(self, index: RangeIndex) -> QueryBatch | None:
        """Return the next queries that no plan in force wants here, or None; the caller removes them."""
        if not len(self._to_drop):
            return None
        numbers, self._to_drop = self._to_drop[: self._chunk], self._to_drop[self._chunk :]
        batch = index.queries(numbers)
        off, worker = self._schedule.route_queries(batch, self._metric)
        row = np.repeat(np.arange(len(batch)), np.diff(off))
        wanted = np.zeros(len(batch), np.bool_)
        wanted[row[worker == self._worker]] = True
        return batch.take(np.flatnonzero(~wanted))

    def snapshot(self) -> dict[str, Any]:
        """Return what is under way."""
        return {
            "to_give": [[taker, numbers] for taker, numbers in self._to_give],
            "to_drop": self._to_drop,
            "ends": [list(pair) for pair in self._ends],
            "giving": self._giving,
            "taking": self._taking,
            "sent": [list(item) for item in self.sent.items()],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a snapshot."""
        self._to_give = deque((taker, numbers) for taker, numbers in state["to_give"])
        self._to_drop = state["to_drop"]
        self._ends = [(numbers, ends) for numbers, ends in state["ends"]]
        self._giving, self._taking, self.sent = state["giving"], state["taking"], dict(state["sent"])


def _moves(before: Plan, after: Plan) -> list[tuple[int, int, CellRange]]:
    """Return the cells that change hands, by giver and taker."""
    assert isinstance(before, GridPlan)
    assert isinstance(after, GridPlan), "only grid plans are rebalanced"
    return [(giver, taker, CellRange(*box)) for giver, taker, box in moves(before, after)]
