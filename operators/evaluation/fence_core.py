"""The core of fences: continuous range queries over dynamic objects, which report who enters, who exits and who stays inside.

All states are here, and who is inside follows from them. So a query that moves to another evaluator takes nothing along: it is
known to everybody which moments have passed, and each begin and end is reported by who is awake for the query when it passes.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from operators.evaluation.core import Found
from operators.evaluation.range_core import RangeCore
from operators.indexes import Cost
from operators.indexes.fences.fences import Fences, Moments, Taken
from partitioners.columns import Floats
from streams.batches import DETECT_ENTER, DETECT_EXIT, FOREVER, CrossingBatch, ObjectBatch, QueryBatch, RankedBatch
from streams.columns import Ints, union_of, without

__all__ = ["FenceCore"]

#: So many events of late are remembered, to tell which queries cause work.
KEPT = 1 << 14

_NONE: Ints = np.empty(0, np.int64)


class FenceCore:
    """Fences, the states of objects, and how far time has passed."""

    remembers: ClassVar = False
    ordered: ClassVar = True  # a state replaces the one before

    def __init__(self, fences: Fences) -> None:
        self._fences, self._index = fences, fences.queries
        index = fences.queries
        self.numbers, self.queries, self.holds, self.touching = (
            index.numbers,
            index.queries,
            index.holds,
            index.touching,
        )
        self.set_end, self.hush, self.wake = index.set_end, index.hush, index.wake
        self._fresh: Moments = Moments(_NONE, _NONE)
        self._named, self._recent = _NONE, _NONE
        self._passed = -FOREVER

    # --- what comes and goes -----------------------------------------------------------------------------------------

    def insert(self, queries: QueryBatch) -> None:
        """Add queries; whoever is inside enters when they begin, unless that has passed: then another has reported it."""
        self._fences.insert(queries)
        self._note_begins(queries)

    def _note_begins(self, queries: QueryBatch) -> None:
        later = np.flatnonzero(queries.ts > self._passed)
        number, at = (np.concatenate(pair) for pair in (
            (self._fresh.number, queries.number[later]), (self._fresh.at, queries.ts[later]),
        ))  # fmt: skip
        order = np.argsort(number)
        self._fresh = Moments(number[order], at[order])

    def remove(self, numbers: Ints) -> None:
        """Drop queries."""
        kept = ~np.isin(self._fresh.number, numbers)
        self._fresh = Moments(self._fresh.number[kept], self._fresh.at[kept])
        self._named = without(self._named, numbers)
        self._index.remove(numbers)

    def ended(self, _now: int) -> Ints:
        """Return the queries whose ends have passed, each once: those of this very moment have not."""
        named, self._named = self._named, _NONE
        return named

    # --- objects, and time -------------------------------------------------------------------------------------------

    def take(self, objects: ObjectBatch) -> Found:
        """Enter records, and pass the moments among them."""
        if (objects.seq[1:] < objects.seq[:-1]).any():
            objects = objects.take(np.argsort(objects.seq, kind="stable"))
        taken = self._fences.update(objects)
        return self._found(CrossingBatch.concat([self._pass(int(objects.ts[-1]), taken), taken.crossings]))

    def settle(self, now: int, _until: int | None) -> Found:
        """Pass the moments up to a time; all records before it have been taken."""
        return self._found(self._pass(now, Taken.nothing()))

    def _pass(self, until: int, taken: Taken) -> CrossingBatch:
        """Return who enters queries that begin, and exits those that end, after what has passed and up to a time.

        An index does not look at the lifetimes of queries that it has named as ended, so the records are matched before.
        """
        due = self._fresh.at <= until
        begins = self._heard(self._fresh.number[due], DETECT_ENTER)
        self._fresh = Moments(self._fresh.number[~due], self._fresh.at[~due])
        ended = self._index.ended(until)
        self._named = union_of(self._named, ended)
        ends = self._heard(np.sort(ended), DETECT_EXIT)
        ends = ends.take(np.flatnonzero(ends.end > self._passed))
        crossed = self._fences.begin_and_end(Moments(begins.number, begins.ts), Moments(ends.number, ends.end), taken)
        self._passed = max(self._passed, until)
        return crossed

    def _heard(self, numbers: Ints, detect: int) -> QueryBatch:
        """Return those of these queries that live at all, are awake and report such events."""
        queries = self.queries(without(numbers, self._index.asleep()))
        return queries.take(np.flatnonzero((queries.end > queries.ts) & (queries.detect & detect > 0)))

    def _found(self, crossed: CrossingBatch) -> Found:
        if not len(crossed):
            return Found()
        self._recent = np.concatenate([self._recent, crossed.number[:: 1 + len(crossed) // KEPT]])[-KEPT:]
        return Found(hits=crossed)

    # --- work --------------------------------------------------------------------------------------------------------

    def cost(self) -> Cost:
        """Return the work done: candidates of new and old states, and of queries that began or ended."""
        cost = self._index.cost()
        return Cost(cost.objects, cost.candidates + self._fences.searched, cost.matches)

    def reset_cost(self) -> None:
        """Start counting work afresh."""
        self._fences.reset_cost()

    def weights(self) -> tuple[Ints, Floats]:
        """Return which queries had events of late, and how many each."""
        numbers, counts = np.unique(self._recent, return_counts=True)
        held = self.holds(numbers)
        return numbers[held], counts[held].astype(np.float64)

    # --- state -------------------------------------------------------------------------------------------------------

    def snapshot(self) -> Mapping[str, Any]:
        """Return queries, states of objects and how far time has passed."""
        return {**self._fences.snapshot(), "named": self._named, "recent": self._recent, "passed": self._passed}

    def restore(self, state: Any) -> None:
        """Take over a snapshot."""
        self._fences.restore(state)
        self._named, self._recent, self._passed = state["named"], state["recent"], state["passed"]
        self._fresh = Moments(_NONE, _NONE)
        self._note_begins(self.queries(self.numbers()))

    @staticmethod
    def saved_queries(state: Mapping[str, Any]) -> QueryBatch:
        """Return the queries of a snapshot."""
        return RangeCore.saved_queries(state["queries"])

    @staticmethod
    def divided(like: Mapping[str, Any], queries: QueryBatch, results: RankedBatch) -> dict[str, Any]:
        """Return a snapshot with these queries and the same states: everybody has all of these."""
        held = RangeCore.divided(like["queries"], queries, results)
        return {**like, "queries": held, "named": _NONE, "recent": _NONE}
