"""The core of continuous top-k frequent term queries: an index that keeps objects, and who may answer for what.

Each evaluator answers from the objects that came to it, and a merger adds up (`operators.indexes.terms.terms_index`
says what an answer must contain for that). Where all objects of a query's window have come here, its answer is whole,
and short.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from operators.evaluation.completeness import ALWAYS, NEVER_ALL
from operators.evaluation.core import Found
from operators.indexes.core.growth import grown
from operators.indexes.core.standing_queries import SAVED_COLUMNS, registrations, saved_columns
from operators.indexes.terms.standing_terms import StandingTerms
from operators.indexes.terms.term_window import TermWindow
from streams.batches import ObjectBatch, QueryBatch, RankedBatch
from streams.columns import Ints
from streams.timestamps import MAX_TS

__all__ = ["TermsCore"]

#: Objects that are taken in together where many are.
FILLED = 8192

_NONE: Ints = np.empty(0, np.int64)


class TermsCore:
    """Continuous terms queries: objects are kept, and queries are counted at their instants.

    Attributes:
        looks_back_ms: what is older is forgotten; None: nothing is.
        passed: the time whose windows were kept when objects were forgotten last; None before.
        routed_since: objects that are younger than this have followed the routes of now, older ones may be anywhere.
        speaks: where objects are at every evaluator, tells which queries are answered here; None: all that are held.
    """

    remembers: ClassVar = True
    ordered: ClassVar = True

    def __init__(self, index: StandingTerms, kept_ms: int | None) -> None:
        self._index, self.looks_back_ms = index, kept_ms
        self._answered: int | None = None
        self.passed: int | None = None
        self._since: Ints = _NONE
        self.routed_since = ALWAYS
        self.speaks: Callable[[QueryBatch], NDArray[np.bool_]] | None = None
        self.numbers, self.queries, self.holds = index.numbers, index.queries, index.holds
        self.set_end, self.remove, self.ended = index.set_end, index.remove, index.ended
        self.hush, self.wake, self.touching = index.hush, index.wake, index.touching
        self.cost, self.reset_cost, self.keep = index.cost, index.reset_cost, index.take

    def __len__(self) -> int:
        return len(self._index)

    def insert(self, queries: QueryBatch) -> None:
        """Add registrations; who knows that all of their objects come here says so."""
        self._index.insert(queries)
        self.complete(queries.number, np.full(len(queries), NEVER_ALL))

    def complete(self, numbers: Ints, since: Ints) -> None:
        """Note since when all objects of queries that are held come here: all that are younger than a time."""
        slots = self._index.slots(numbers)
        if len(slots) and int(slots.max()) >= len(self._since):
            self._since = grown(self._since, 2 * int(slots.max()) + 64)
        self._since[slots] = since

    def completeness(self, numbers: Ints) -> Ints:
        """Return since when all objects of queries that are held come here."""
        return self._since[self._index.slots(numbers)]

    def refill(self, objects: ObjectBatch, looks_back_ms: int) -> None:
        """Have these objects in place of those that are here, and look back so far from now on; counts are made anew."""
        numbers = self.numbers()
        since = self.completeness(numbers)
        self._index.restore({**self._index.snapshot(), "window_objects": TermWindow.saved(ObjectBatch.empty())})
        for start in range(0, len(objects), FILLED):  # as they would have come: memory returns by what came together
            self._index.take(objects.slice(start, start + FILLED))
        self.complete(numbers, since)
        self.looks_back_ms = looks_back_ms

    def take(self, _objects: ObjectBatch) -> Found:
        """Find nothing: queries are answered at their instants."""
        return Found()

    def settle(self, _now: int, until: int | None) -> Found:
        """Let time go by: what is due before `until` is answered after this, so what was complete the last time counts."""
        if self._answered is not None and self.looks_back_ms is not None:
            self._index.forget(max(self._answered - self.looks_back_ms, -MAX_TS))
        self.passed, self._answered = self._answered, until
        return Found()

    def answer(self, numbers: Ints, instants: Ints) -> RankedBatch:
        """Answer queries as of instants that have passed."""
        if self.speaks is not None:
            spoken = np.flatnonzero(self.speaks(self._index.queries(numbers)))
            numbers, instants = numbers[spoken], instants[spoken]
            return self._index.answer(numbers, instants)
        begin = instants - self._index.windows_of(numbers)
        return self._index.answer(numbers, instants, begin >= self.completeness(numbers))

    def listed(self, _numbers: Ints) -> Ints:
        """Return none: queries are answered at instants."""
        return _NONE

    # --- what a core has besides: queries take nothing along, because objects stay -----------------------------------

    def results(self, numbers: Ints) -> RankedBatch:
        """Return nothing: what is known of a query follows from the objects."""
        return RankedBatch.empty()

    def adopt(self, results: RankedBatch) -> None:
        """Take nothing over."""

    def bounds(self, numbers: Ints) -> NDArray[np.float64]:
        """Say nothing: every object counts."""
        return np.full(len(numbers), np.nan)

    def bind(self, numbers: Ints, bounds: NDArray[np.float64]) -> None:
        """Pass over bounds: there are none."""

    # --- state -------------------------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """Return queries and objects."""
        return {
            "index": self._index.snapshot(),
            "since": self.completeness(self.numbers()),
            "routed_since": self.routed_since,
            "answered": self._answered,
            "passed": self.passed,
            "everywhere": self.speaks is not None,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over a snapshot."""
        self._index.restore(state["index"])
        self.complete(np.asarray(state["index"]["number"]), np.asarray(state["since"]))
        self._answered, self.routed_since = state["answered"], state["routed_since"]
        self.passed = state.get("passed")

    @staticmethod
    def saved_queries(state: Mapping[str, Any]) -> QueryBatch:
        """Return the queries of a snapshot."""
        return registrations({name: np.asarray(state["index"][name]) for name in SAVED_COLUMNS})

    @staticmethod
    def saved_results(_state: Mapping[str, Any]) -> RankedBatch:
        """Return nothing."""
        return RankedBatch.empty()

    @staticmethod
    def divided(like: Mapping[str, Any], queries: QueryBatch, _results: RankedBatch) -> dict[str, Any]:
        """Return a snapshot with these queries, all awake, and with the objects of another; work is counted afresh."""
        asleep, cost = np.empty(0, np.int64), np.zeros(3, np.int64)
        queries = queries.take(np.argsort(queries.number, kind="stable"))
        index = {**like["index"], **saved_columns(queries), "asleep": asleep, "cost": cost}
        return {**like, "index": index, "since": np.full(len(queries), NEVER_ALL), "routed_since": NEVER_ALL}

    @staticmethod
    def without_objects(state: Mapping[str, Any]) -> dict[str, Any]:
        """Return a snapshot that leaves out objects: whoever restores it has them from elsewhere."""
        return {**state, "index": {**state["index"], "window_objects": TermWindow.saved(ObjectBatch.empty())}}

    @staticmethod
    def with_objects(state: Mapping[str, Any], givers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return a snapshot with the objects of others in place of its own; what several of them have is there once."""
        parts = [TermWindow.saved_objects(giver["index"]["window_objects"]) for giver in givers]
        whole = ObjectBatch.concat([ObjectBatch.empty(), *parts])
        _, rows = np.unique(whole.seq, return_index=True)
        return {**state, "index": {**state["index"], "window_objects": TermWindow.saved(whole.take(rows))}}
