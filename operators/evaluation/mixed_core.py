"""The core of SSTD's workers: queries of six kinds, each held by the part that answers it (Section 6).

Continuous `range` queries report matches, continuous `knn` queries have lists that live, and everything that is answered at
instants (snapshots, continuous `terms` queries) is answered from the objects that are kept.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from operators.evaluation.core import Found
from operators.evaluation.kept_core import KeptCore
from operators.evaluation.knn_core import KnnCore
from operators.evaluation.range_core import RangeCore
from operators.indexes import Cost, Load
from partitioners.columns import Floats
from streams.batches import TYPE_KNN, ObjectBatch, QueryBatch, RankedBatch
from streams.columns import Ints

__all__ = ["MixedCore"]

_NONE: Ints = np.empty(0, np.int64)


class MixedCore:
    """Three cores as one: a query is where its kind belongs."""

    remembers: ClassVar = True
    ordered: ClassVar = True
    counts_by_place: ClassVar = False
    weighs_queries: ClassVar = False

    def __init__(self, matching: RangeCore, nearest: KnnCore, kept: KeptCore) -> None:
        self._matching, self._nearest, self._kept = matching, nearest, kept
        self._parts: tuple[Any, ...] = (matching, nearest, kept)
        self.answer, self.asked, self.keep = kept.answer, kept.asked, kept.keep

    def _split(self, queries: QueryBatch) -> list[tuple[Any, Ints]]:
        """Return the parts, and which rows belong to each."""
        return [(part, np.flatnonzero(_part_of(queries) == place)) for place, part in enumerate(self._parts)]

    # --- queries -----------------------------------------------------------------------------------------------------

    def numbers(self) -> Ints:
        """Return the numbers of all queries held, ascending."""
        return np.sort(np.concatenate([part.numbers() for part in self._parts]))

    def holds(self, numbers: Ints) -> NDArray[np.bool_]:
        """Tell of each number whether it is held."""
        held: NDArray[np.bool_] = np.logical_or.reduce([part.holds(numbers) for part in self._parts])
        return held

    def touching(self, boxes: Floats) -> Ints:
        """Return the range queries that touch some boxes, and all others."""
        others = (self._nearest.numbers(), self._kept.numbers())
        return np.sort(np.concatenate([self._matching.touching(boxes), *others]))

    def queries(self, numbers: Ints) -> QueryBatch:
        """Return those of these queries that are held, in this order."""
        rows = [np.flatnonzero(part.holds(numbers)) for part in self._parts]
        found = [part.queries(numbers[held]) for part, held in zip(self._parts, rows, strict=True)]
        return QueryBatch.concat(found).take(np.argsort(np.concatenate(rows), kind="stable"))

    def insert(self, queries: QueryBatch) -> None:
        """Add registrations."""
        for part, rows in self._split(queries):
            if len(rows):
                part.insert(queries if len(rows) == len(queries) else queries.take(rows))

    def set_end(self, numbers: Ints, ends: Ints) -> None:
        """Lower ends."""
        for part in self._parts:
            part.set_end(numbers, ends)

    def remove(self, numbers: Ints) -> None:
        """Drop queries."""
        for part in self._parts:
            part.remove(numbers)

    def ended(self, now: int) -> Ints:
        """Return the numbers of the queries with end <= now."""
        return np.concatenate([part.ended(now) for part in self._parts])

    def hush(self, numbers: Ints) -> None:
        """Let queries take no part."""
        for part in self._parts:
            part.hush(numbers)

    def wake(self, numbers: Ints) -> None:
        """Let queries take part again."""
        for part in self._parts:
            part.wake(numbers)

    # --- objects and answers -----------------------------------------------------------------------------------------

    def take(self, objects: ObjectBatch) -> Found:
        """Return the matches, and the lists that have changed."""
        return Found(self._matching.take(objects).matches, self._nearest.take(objects).changed)

    def settle(self, _now: int, until: int | None) -> Found:
        """Let time go by: objects that nobody can ask for any more are forgotten."""
        self._kept.forget(until)
        return Found()

    def results(self, numbers: Ints) -> RankedBatch:
        """Return the lists of those of these queries that have any."""
        return self._nearest.results(numbers[self._nearest.holds(numbers)])

    def adopt(self, results: RankedBatch) -> None:
        """Unite lists with those that another evaluator had."""
        self._nearest.adopt(results)

    def bounds(self, numbers: Ints) -> NDArray[np.float64]:
        """Return what an object must come up to, for queries with lists."""
        bounds = np.full(len(numbers), np.nan)
        listed = self._nearest.holds(numbers)
        bounds[listed] = self._nearest.bounds(numbers[listed])
        return bounds

    def bind(self, numbers: Ints, bounds: NDArray[np.float64]) -> None:
        """Use the bounds of others, for queries with lists."""
        listed = self._nearest.holds(numbers)
        self._nearest.bind(numbers[listed], bounds[listed])

    # --- work --------------------------------------------------------------------------------------------------------

    def cost(self) -> Cost:
        """Return the work of all parts; an object is looked at by each of them."""
        costs = [part.cost() for part in self._parts]
        return Cost(costs[0].objects, sum(one.candidates for one in costs), sum(one.matches for one in costs))

    def reset_cost(self) -> None:
        """Start counting work afresh."""
        for part in self._parts:
            part.reset_cost()

    def load(self) -> Load:
        """Refuse: only a part of the work is counted by place."""
        raise NotImplementedError("queries of several kinds are not counted by place")

    def weights(self) -> tuple[Ints, Floats]:
        """Refuse: only a part of the work is counted by query."""
        raise NotImplementedError("queries of several kinds are not weighed one by one")

    # --- state -------------------------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """Return the states of all parts."""
        return {name: part.snapshot() for name, part in zip(_NAMES, self._parts, strict=True)}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over a snapshot."""
        for name, part in zip(_NAMES, self._parts, strict=True):
            part.restore(state[name])

    @staticmethod
    def saved_queries(state: Mapping[str, Any]) -> QueryBatch:
        """Return the queries of a snapshot."""
        return QueryBatch.concat([kind.saved_queries(state[name]) for name, kind in zip(_NAMES, _KINDS, strict=True)])

    @staticmethod
    def saved_results(state: Mapping[str, Any]) -> RankedBatch:
        """Return the lists of a snapshot."""
        return KnnCore.saved_results(state["nearest"])

    @staticmethod
    def divided(like: Mapping[str, Any], queries: QueryBatch, results: RankedBatch) -> dict[str, Any]:
        """Return a snapshot with these queries and lists, and with the objects of another."""
        matching, nearest, kept = (queries.take(np.flatnonzero(_part_of(queries) == place)) for place in range(3))
        return {
            "matching": RangeCore.divided(like["matching"], matching, results),
            "nearest": KnnCore.divided(like["nearest"], nearest, results),
            "kept": KeptCore.divided(like["kept"], kept, [like["kept"]]),
        }

    @staticmethod
    def with_objects(state: Mapping[str, Any], givers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return a snapshot with the objects of others in place of its own."""
        queries = KeptCore.saved_queries(state["kept"])
        kept = KeptCore.divided(state["kept"], queries, [giver["kept"] for giver in givers])
        return {**state, "kept": kept}


_NAMES = ("matching", "nearest", "kept")
_KINDS: tuple[Any, ...] = (RangeCore, KnnCore, KeptCore)


def _part_of(queries: QueryBatch) -> NDArray[np.int64]:
    """Return the place of each query's part."""
    return np.where(queries.at_instants, 2, np.where(queries.type == TYPE_KNN, 1, 0))
