"""The core of topk and knn queries over dynamic objects: the k best, or nearest, among the current states of all objects.

All states are here, so a query that comes, or wakes up after a move, is searched for at once. States of the past are not: where
queries end among the objects of an epoch, these are entered in several batches, and each query keeps its list of that moment.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from operators.evaluation.core import Found
from operators.evaluation.division import final_lists
from operators.indexes.dynamic.dynamic_kinds import DynamicKinds, divided_kinds, saved_kinds
from streams.batches import ObjectBatch, QueryBatch, RankedBatch
from streams.columns import Ints, union_of, without

__all__ = ["DynamicCore"]

Floats = NDArray[np.float64]

_NONE: Ints = np.empty(0, np.int64)


class DynamicCore:
    """Queries, the states of objects, and lists.

    A query is *fresh* before its time has come; then it is open, and its list follows the objects; one that has ended, or
    sleeps, has a *final* list, or none.
    """

    remembers: ClassVar = True
    ordered: ClassVar = True  # of two objects with the same score, or as far away, the one first seen is better

    def __init__(self, index: DynamicKinds) -> None:
        self._index = index
        self._fresh, self._open, self._named, self._changed = _NONE, _NONE, _NONE, _NONE
        self._final: RankedBatch = RankedBatch.empty()
        self._now: int | None = None
        self._passed: int | None = None
        self.numbers, self.holds, self.queries = index.numbers, index.holds, index.queries
        self.set_end, self.cost, self.reset_cost = index.set_end, index.cost, index.reset_cost

    @property
    def searches(self) -> int:
        """How often a list was filled from the objects."""
        return self._index.searches

    # --- what comes and goes -----------------------------------------------------------------------------------------

    def insert(self, queries: QueryBatch) -> None:
        """Add queries; they have no list before they are settled."""
        self._index.insert(queries)
        self._fresh = union_of(self._fresh, queries.number)

    def remove(self, numbers: Ints) -> None:
        """Drop queries."""
        numbers = numbers[self.holds(numbers)]
        self._close(numbers)
        self._forget_final(numbers)
        self._fresh, self._named = without(self._fresh, numbers), without(self._named, numbers)
        self._changed = without(self._changed, numbers)
        self._index.remove(numbers)

    def hush(self, numbers: Ints) -> None:
        """Let queries take no part; their lists stay as they are until they are woken."""
        numbers = numbers[self.holds(numbers)]
        self._freeze(numbers)
        self._changed = without(self._changed, numbers)
        self._index.hush(numbers)

    def wake(self, numbers: Ints) -> None:
        """Let queries take part again: the objects are searched for them anew."""
        numbers = numbers[self.holds(numbers)]
        self._index.wake(numbers)
        self._forget_final(numbers)
        self._fresh = union_of(self._fresh, without(numbers, self._open))
        if self._now is not None:
            self._begin(self._now)

    def ended(self, now: int) -> Ints:
        """Return the queries that have ended, each once."""
        named, self._named = self._named, _NONE
        return union_of(named, self._index.ended(now))

    def _forget_final(self, numbers: Ints) -> None:
        if len(self._final):
            self._final = self._final.take(np.flatnonzero(~np.isin(self._final.number, numbers)))

    def _close(self, numbers: Ints) -> None:
        """Keep no list of those that have one."""
        numbers = numbers[np.isin(numbers, self._open)]
        self._index.close(numbers)
        self._open = without(self._open, numbers)

    def _freeze(self, numbers: Ints) -> None:
        """Let lists stay as they are from now on."""
        numbers = numbers[np.isin(numbers, self._open)]
        if len(numbers):
            self._final = RankedBatch.concat([self._final, self._listed(numbers)])
            self._close(numbers)

    # --- objects, and time -------------------------------------------------------------------------------------------

    def take(self, objects: ObjectBatch) -> Found:
        """Enter records; where queries end among them, those before the end first."""
        last = int(objects.ts[-1]) if len(objects) else None
        ended = _NONE if last is None else self._due(last)
        start = 0
        for end in np.unique(self._index.ends(ended)).tolist():
            stop = int(np.searchsorted(objects.ts, end))
            self._update(objects.slice(start, stop))
            self._finish(ended, end)
            start = stop
        self._update(objects.slice(start, len(objects)))
        return Found(changed=self._taken_changes())

    def _update(self, objects: ObjectBatch) -> None:
        if len(objects):
            self._changed = union_of(self._changed, self._index.update(objects))

    def _due(self, until: int) -> Ints:
        """Return the queries that have ended by a time and have no final list yet; they are named from now on."""
        self._passed = until if self._passed is None else max(self._passed, until)
        ended = self._index.ended(until)
        self._named = union_of(self._named, ended)
        return without(without(ended, self._index.asleep()), self._final.number)

    def _finish(self, ended: Ints, end: int) -> None:
        """Keep the final lists of those queries that end just then: all objects before are there, and none after."""
        over = ended[self._index.ends(ended) == end]
        fresh = over[np.isin(over, self._fresh)]
        lives = self._index.starts(fresh) < end  # one that ends as it begins has an empty list
        self._start(fresh[lives])
        never = fresh[~lives]
        self._final = RankedBatch.concat([self._final, self._of(never, np.zeros(len(never) + 1, np.int64))])
        self._fresh = without(self._fresh, never)
        self._freeze(over)
        self._changed = union_of(self._changed, over)

    def _begin(self, now: int) -> None:
        """Open the fresh queries that are awake and have begun by a time."""
        if len(self._fresh):
            awake = without(self._fresh, self._index.asleep())
            self._start(awake[self._index.starts(awake) <= now])

    def _start(self, numbers: Ints) -> None:
        if len(numbers):
            self._index.open(numbers)
            self._fresh, self._open = without(self._fresh, numbers), union_of(self._open, numbers)
            self._changed = union_of(self._changed, self._index.fill(), numbers)

    def settle(self, now: int, until: int | None) -> Found:
        """Begin and end what is due."""
        self._now = now
        ended = _NONE if until is None else self._due(until)
        for end in np.unique(self._index.ends(ended)).tolist():
            self._finish(ended, end)
        self._begin(now)
        return Found(changed=self._taken_changes())

    def _taken_changes(self) -> Ints:
        changed, self._changed = self._changed, _NONE
        return changed

    # --- lists -------------------------------------------------------------------------------------------------------

    def results(self, numbers: Ints) -> RankedBatch:
        """Return lists, in this order; those of fresh queries are empty."""
        lists = self._listed(opened := numbers[np.isin(numbers, self._open)])
        if len(opened) == len(numbers):
            return lists
        rest = without(without(numbers, self._open), self._final.number)
        whole = RankedBatch.concat([lists, self._of(rest, np.zeros(len(rest) + 1, np.int64)), self._final])
        place = np.argsort(whole.number, kind="stable")
        return whole.take(place[np.searchsorted(whole.number[place], numbers)])

    def _listed(self, numbers: Ints) -> RankedBatch:
        """Return the lists of open queries."""
        off, objects, value = self._index.lists(numbers)
        return self._of(numbers, off, objects, value)

    def _of(self, numbers: Ints, off: Ints, objects: Any = None, value: Floats | None = None) -> RankedBatch:
        objects = np.empty(0, np.int32) if objects is None else objects
        count, table = len(numbers), self._index.objects
        return RankedBatch(
            number=numbers, ts=np.zeros(count, np.int64), type=self._index.types(numbers),
            k=self._index.wanted(numbers), instant=np.zeros(count, np.bool_), off=off.astype(np.int32),
            seq=table.first_seen[objects], ids=table.ids(objects), value=np.empty(0) if value is None else value,
        )  # fmt: skip

    def answer(self, numbers: Ints, _instants: Ints) -> RankedBatch:
        """Answer nothing: no query of this kind has an instant."""
        assert not len(numbers), "a query of this kind is answered whenever its list changes"
        return RankedBatch.empty()

    def adopt(self, results: RankedBatch) -> None:
        """Take lists of queries that ended before they were woken here; all others are searched for."""
        unknown = np.isin(results.number, self._index.asleep()) & ~np.isin(results.number, self._final.number)
        self._final = RankedBatch.concat([self._final, results.take(np.flatnonzero(unknown))])
        self._fresh = without(self._fresh, results.number[unknown])

    def bounds(self, numbers: Ints) -> Floats:
        """Say nothing: whoever takes a query has all objects, and so its own thresholds."""
        return np.full(len(numbers), np.nan)

    def bind(self, numbers: Ints, bounds: Floats) -> None:
        """Pass over bounds: there are none."""

    # --- work --------------------------------------------------------------------------------------------------------

    def touching(self, _boxes: Floats) -> Ints:
        """Return the numbers of all: queries are not found by place."""
        return self.numbers()

    def weights(self) -> tuple[Ints, Floats]:
        """Return the work of late by query."""
        return self._index.weights()

    # --- state -------------------------------------------------------------------------------------------------------

    def snapshot(self) -> Mapping[str, Any]:
        """Return queries, states of objects and lists; open ones are searched for anew."""
        return {
            **self._index.snapshot(),
            "results": self.results(without(self.numbers(), self._fresh)),
            "fresh": self._fresh,
            "open": self._open,
            "final": self._final,
            "named": self._named,
            "changed": self._changed,
            "now": self._now,
            "passed": self._passed,
        }

    def restore(self, state: Any) -> None:
        """Take over a snapshot."""
        self._index.restore(state)
        self._fresh, self._final, self._named = state["fresh"], state["final"], state["named"]
        self._now, self._passed = state["now"], state["passed"]
        self._open = _NONE
        self._start(state["open"])
        self._changed = state["changed"]

    @staticmethod
    def saved_queries(state: Mapping[str, Any]) -> QueryBatch:
        """Return the queries of a snapshot."""
        return saved_kinds(state)

    @staticmethod
    def saved_results(state: Mapping[str, Any]) -> RankedBatch:
        """Return the lists of a snapshot; a query that is fresh, as one is that came early, has none."""
        results: RankedBatch = state["results"]
        return results

    @staticmethod
    def divided(like: Mapping[str, Any], queries: QueryBatch, results: RankedBatch) -> dict[str, Any]:
        """Return a snapshot with these queries: those that have ended keep their lists, all others are searched for anew."""
        now, passed = like["now"], like["passed"]
        begun = np.zeros(len(queries), np.bool_) if now is None else queries.ts <= now
        over = np.zeros(len(queries), np.bool_) if passed is None else queries.end <= passed
        final = final_lists(queries.take(np.flatnonzero(over)), results)
        living = ~np.isin(queries.number, final.number)
        return {
            **divided_kinds(like, queries),
            "results": results,
            "fresh": np.sort(queries.number[living & ~begun]),
            "open": np.sort(queries.number[living & begun]),
            "final": final,
            "named": np.sort(final.number),
            "changed": _NONE,
        }
