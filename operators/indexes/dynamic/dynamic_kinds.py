"""Queries of two kinds over the same states: `topk` by score, `knn` by distance; each query is known by its number."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from operators.indexes.core.standing_queries import SAVED_COLUMNS, registrations, saved_columns
from operators.indexes.dynamic.dynamic_index import Floats, Slots
from operators.indexes.dynamic.dynamic_lists import DynamicLists, dynamic_knn, dynamic_topk
from operators.indexes.dynamic.object_table import ObjectTable
from operators.indexes.dynamic.registry import NEAREST_FINDERS, NEAREST_REFILLERS
from operators.indexes.range.range_index import Cost
from streams.batches import TYPE_KNN, TYPE_TOPK, ObjectBatch, QueryBatch
from streams.columns import Ints, csr_take, union_of
from streams.geometry import Metric, Rect
from streams.vocabulary import Vocabulary

__all__ = ["DynamicKinds", "divided_kinds", "saved_kinds"]

#: Names of the kinds in states, and the types of query that they hold.
KINDS: Mapping[str, int] = {"topk": TYPE_TOPK, "knn": TYPE_KNN}


class DynamicKinds:
    """The current states of objects, and lists of queries of both kinds.

    Args:
        index: who finds the `topk` queries that new states concern, one of `FINDERS`.
        refill: who keeps their lists, one of `REFILLERS`.
        space: where objects and queries are.
        metric: what distance means.
        vocabulary: the statistics that keywords are weighed by.
        refill_options: of who keeps the lists of `topk` queries.

    Parts that are made for scores have no counterpart for `knn` queries: these have the default in their place.
    """

    def __init__(
        self, index: str, refill: str, space: Rect, metric: Metric, vocabulary: Vocabulary,
        refill_options: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        self.objects = ObjectTable(vocabulary)
        near = index if index in NEAREST_FINDERS else "pyramid", refill if refill in NEAREST_REFILLERS else "buffers"
        self.topk = dynamic_topk(index, refill, space, metric, vocabulary, None, refill_options, self.objects)
        self.knn = dynamic_knn(*near, space, metric, vocabulary, objects=self.objects)
        self._kinds: tuple[DynamicLists, DynamicLists] = self.topk, self.knn
        self._taken = self._searched = 0

    # --- queries -----------------------------------------------------------------------------------------------------

    def _split(self, numbers: Ints) -> list[tuple[DynamicLists, Ints]]:
        """Return kinds and the places of those of these numbers that each holds; kinds that hold none are left out."""
        held = [(kind, np.flatnonzero(kind.queries.holds(numbers))) for kind in self._kinds if len(kind.queries)]
        return [(kind, rows) for kind, rows in held if len(rows)]

    def _of_each(self, numbers: Ints, column: Callable[[DynamicLists, Slots], NDArray[Any]]) -> Ints:
        """Return a column of queries that are held."""
        out = np.zeros(len(numbers), np.int64)
        for kind, rows in self._split(numbers):
            out[rows] = column(kind, kind.queries.slots(numbers[rows]))
        return out

    def insert(self, queries: QueryBatch) -> None:
        """Add queries, which have no lists yet."""
        for kind, type_ in zip(self._kinds, KINDS.values(), strict=True):
            rows = np.flatnonzero(queries.type == type_)
            if len(rows):
                kind.queries.insert(queries if len(rows) == len(queries) else queries.take(rows), np.inf)

    def remove(self, numbers: Ints) -> None:
        """Drop queries, none of which is open."""
        for kind, rows in self._split(numbers):
            kind.queries.remove(numbers[rows])

    def hush(self, numbers: Ints) -> None:
        """Let queries take no part."""
        for kind, rows in self._split(numbers):
            kind.queries.hush(numbers[rows])

    def wake(self, numbers: Ints) -> None:
        """Let queries take part again."""
        for kind, rows in self._split(numbers):
            kind.queries.wake(numbers[rows])

    def set_end(self, numbers: Ints, ends: Ints) -> None:
        """Lower the ends of those that are held."""
        for kind in self._kinds:
            kind.queries.set_end(numbers, ends)

    def numbers(self) -> Ints:
        """Return the numbers of all queries, ascending."""
        return union_of(*(kind.queries.numbers() for kind in self._kinds))

    def asleep(self) -> Ints:
        """Return the numbers of those that take no part, ascending."""
        return union_of(*(kind.queries.asleep() for kind in self._kinds))

    def ended(self, now: int) -> Ints:
        """Return the numbers of the queries with end <= now, ascending, each once."""
        return union_of(*(kind.queries.ended(now) for kind in self._kinds))

    def holds(self, numbers: Ints) -> NDArray[np.bool_]:
        """Tell of each number whether it is held."""
        return self.topk.queries.holds(numbers) | self.knn.queries.holds(numbers)

    def queries(self, numbers: Ints) -> QueryBatch:
        """Return those of these queries that are held, in this order."""
        held = self._split(numbers)
        found = [kind.queries.queries(numbers[rows]) for kind, rows in held]
        if len(found) == 1:
            return found[0]
        whole = QueryBatch.concat([QueryBatch.empty(), *found])
        return whole.take(np.argsort(np.concatenate([np.empty(0, np.int64), *(rows for _, rows in held)])))

    def ends(self, numbers: Ints) -> Ints:
        """Return the ends of queries that are held."""
        return self._of_each(numbers, lambda kind, slots: kind.queries.ends_of(slots))

    def starts(self, numbers: Ints) -> Ints:
        """Return the times from which on queries live that are held."""
        return self._of_each(numbers, lambda kind, slots: kind.queries.starts_of(slots))

    def wanted(self, numbers: Ints) -> Slots:
        """Return k of queries that are held."""
        return self._of_each(numbers, lambda kind, slots: kind.queries.k_of(slots)).astype(np.int32)

    def types(self, numbers: Ints) -> NDArray[np.uint8]:
        """Return the types of queries that are held."""
        return np.where(self.knn.queries.holds(numbers), TYPE_KNN, TYPE_TOPK).astype(np.uint8)

    # --- lists -------------------------------------------------------------------------------------------------------

    def open(self, numbers: Ints) -> None:
        """Keep lists for queries that are held, from the next `fill` or `update` on."""
        for kind, rows in self._split(numbers):
            kind.open(numbers[rows])

    def close(self, numbers: Ints) -> None:
        """Forget the lists of queries that are open."""
        for kind, rows in self._split(numbers):
            kind.close(numbers[rows])

    def update(self, objects: ObjectBatch) -> Ints:
        """Enter records, in the order of the input; return the queries whose list has changed, ascending."""
        changes = self.objects.compare(objects)
        for kind in self._kinds:
            kind.leave(changes)
        states = self.objects.apply(objects, changes)
        self._taken += len(states)
        for kind in self._kinds:
            kind.enter(changes, states, objects.ts)
        return self.fill()

    def fill(self) -> Ints:
        """Fill lists that are due; return the queries whose list has changed, ascending."""
        return union_of(*(kind.fill() for kind in self._kinds))

    def lists(self, numbers: Ints) -> tuple[Ints, Slots, Floats]:
        """Return the lists of queries that are open as ragged rows, best first: offsets, objects, scores or distances."""
        held = self._split(numbers)
        if len(held) == 1:
            return self._valued(held[0][0], numbers)
        parts = [self._valued(kind, numbers[rows]) for kind, rows in held]
        objects = np.concatenate([np.empty(0, np.int32), *(part[1] for part in parts)])
        values = np.concatenate([np.empty(0), *(part[2] for part in parts)])
        counts = np.concatenate([np.empty(0, np.int64), *(np.diff(part[0]) for part in parts)])
        order = np.argsort(np.concatenate([np.empty(0, np.int64), *(rows for _, rows in held)]))
        ends = np.append(0, np.cumsum(counts)).astype(np.int32)
        off, items = csr_take(ends, np.arange(len(objects)), order)
        return off.astype(np.int64), objects[items], values[items]

    def _valued(self, kind: DynamicLists, numbers: Ints) -> tuple[Ints, Slots, Floats]:
        off, objects, score = kind.lists(numbers)
        return off, objects, np.abs(score) if kind is self.knn else score

    # --- work --------------------------------------------------------------------------------------------------------

    @property
    def searches(self) -> int:
        """How often a list was filled from the objects."""
        return sum(kind.refiller.searches for kind in self._kinds)

    @property
    def _examined(self) -> int:
        return sum(kind.refiller.examined for kind in self._kinds)

    def weights(self) -> tuple[Ints, Floats]:
        """Return which queries were looked at of late, and how often each."""
        found = [kind.queries.weights() for kind in self._kinds]
        numbers, weights = (np.concatenate(columns) for columns in zip(*found, strict=True))
        return numbers, weights

    def cost(self) -> Cost:
        """Return the work done: candidates of new states, and what was looked at in order to fill lists."""
        costs = [kind.queries.cost() for kind in self._kinds]
        candidates = sum(cost.candidates for cost in costs) + self._examined - self._searched
        return Cost(self._taken, candidates, sum(cost.matches for cost in costs))

    def reset_cost(self) -> None:
        """Start counting work afresh."""
        self._taken, self._searched = 0, self._examined
        for kind in self._kinds:
            kind.queries.reset_cost()

    # --- state -------------------------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """Return states and queries; lists are made anew from these."""
        kinds = {name: kind.snapshot() for name, kind in zip(KINDS, self._kinds, strict=True)}
        counted = np.array([self._taken, self._examined - self._searched], np.int64)
        return {"objects": self.objects.snapshot(), "kinds": kinds, "counted": counted}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over a snapshot: all queries are held, none is open."""
        self.objects.restore(state["objects"])
        for name, kind in zip(KINDS, self._kinds, strict=True):
            kind.restore(state["kinds"][name])
        taken, searched = (int(number) for number in state["counted"])
        self._taken, self._searched = taken, self._examined - searched


def saved_kinds(state: Mapping[str, Any]) -> QueryBatch:
    """Return the queries of a snapshot."""
    kinds = [state["kinds"][name] for name in KINDS]
    return QueryBatch.concat(
        [registrations({name: np.asarray(kind[name]) for name in SAVED_COLUMNS}) for kind in kinds]
    )


def divided_kinds(like: Mapping[str, Any], queries: QueryBatch) -> dict[str, Any]:
    """Return a snapshot that holds these queries, otherwise like another; work is counted afresh."""
    kinds = {}
    for name, type_ in KINDS.items():
        rows = queries.take(np.flatnonzero(queries.type == type_))
        kinds[name] = {
            **like["kinds"][name],
            **saved_columns(rows),
            "bounds": np.full(len(rows), np.inf),
            "asleep": np.empty(0, np.int64),
            "cost": np.zeros(3, np.int64),
            "recent": np.empty(0, np.int64),
        }
    return {**like, "kinds": kinds, "counted": np.zeros(2, np.int64)}
