"""The k best among dynamic objects, for many queries of one kind: who finds whom states concern, and who keeps the lists."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from operators.indexes.dynamic.dynamic_index import Floats, Refiller, Slots
from operators.indexes.dynamic.nearest_queries import NearestQueries
from operators.indexes.dynamic.object_table import Changes, ObjectTable
from operators.indexes.dynamic.registry import FINDERS, NEAREST_FINDERS, make_nearest_refiller, make_refiller
from operators.indexes.topk.subscriptions import ScoredSubscriptions
from operators.indexes.topk.topk_index import Messages
from streams.batches import ObjectBatch
from streams.columns import Ints
from streams.geometry import Metric, Rect
from streams.vocabulary import Vocabulary

__all__ = ["DynamicLists", "dynamic_knn", "dynamic_topk"]

_NONE: Ints = np.empty(0, np.int64)


class DynamicLists:
    """Queries by number, over the current states of objects.

    Queries are put into `queries`, with a threshold of inf, and taken out there; their lists begin with `open` and end with
    `close`. In between `fill` and `update` leave all lists as they must be. Where several share a table of objects, whoever
    has that calls `leave` and `enter` of each in place of `update`. Before the first query is opened nothing is kept of
    objects but their states.

    Args:
        objects: the current states.
        queries: makes the queries, told whom to call when their slots have changed.
        refiller: makes who keeps the lists, given objects and queries.

    Attributes:
        queries: the queries.
        refiller: who keeps the lists.
    """

    def __init__(
        self, objects: ObjectTable, queries: Callable[[Callable[[Slots], None]], ScoredSubscriptions],
        refiller: Callable[[ObjectTable, Any], Refiller],
    ) -> None:  # fmt: skip
        self.objects = objects
        self._make = refiller
        self.queries = queries(lambda old: self.refiller.renumber(old))
        self.refiller = refiller(objects, self.queries)
        self._begun = False

    def open(self, numbers: Ints) -> None:
        """Keep lists for queries that are held, from the next `fill` or `update` on."""
        slots = self.queries.slots(numbers)
        if not len(slots):
            return
        self.refiller.open(slots, self.queries.k_of(slots))
        if not self._begun:
            self._begun = True
            self.refiller.arrive(self.objects.held())

    def close(self, numbers: Ints) -> None:
        """Forget the lists of queries that are open."""
        slots = self.queries.slots(numbers)
        if len(slots):
            self.refiller.close(slots)
            self.queries.retune(slots, np.full(len(slots), np.inf))

    def update(self, objects: ObjectBatch) -> Ints:
        """Enter records, in the order of the input; return the queries whose list has changed, ascending."""
        changes = self.objects.compare(objects)
        self.leave(changes)
        self.enter(changes, self.objects.apply(objects, changes), objects.ts)
        return self.fill()

    def leave(self, changes: Changes) -> None:
        """Take old states out, before they are replaced."""
        if self._begun:
            self.refiller.leave(changes.leaving)

    def enter(self, changes: Changes, states: Messages, ts: Ints) -> None:
        """Take in the new states, which the table has by now; `ts` are the times of the records."""
        if self._begun and len(states):
            self.refiller.arrive(changes.arriving)
            hits = self.queries.hits(states, ts[changes.rows])
            self.refiller.enter(changes.arriving[hits.row], hits.slot, hits.score)

    def fill(self) -> Ints:
        """Fill lists that are due; return the queries whose list has changed, ascending."""
        if not self._begun:
            return _NONE
        self.refiller.refill()
        slots = self.refiller.retuned()
        self.queries.retune(slots, self.refiller.theta[slots])
        numbers = self.queries.numbers_of(self.refiller.changed())
        return numbers if np.all(numbers[1:] > numbers[:-1]) else np.sort(numbers)

    def lists(self, numbers: Ints) -> tuple[Ints, Slots, Floats]:
        """Return the lists of queries that are open as ragged rows: offsets, objects and scores, best first."""
        return self.refiller.lists(self.queries.slots(numbers))

    # --- state -------------------------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """Return the queries; lists are made anew from these and the objects."""
        return self.queries.snapshot()

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over a snapshot: all queries are held, none is open."""
        numbers = np.array(state["number"])
        self.queries.restore({**state, "bounds": np.full(len(numbers), np.inf)})
        self.refiller = self._make(self.objects, self.queries)
        self._begun = False


def dynamic_topk(
    index: str, refill: str, space: Rect, metric: Metric, vocabulary: Vocabulary,
    index_options: Mapping[str, Any] | None = None, refill_options: Mapping[str, Any] | None = None,
    objects: ObjectTable | None = None,
) -> DynamicLists:  # fmt: skip
    """Return lists of `topk` queries.

    Args:
        index: who finds the queries that new states concern, one of `FINDERS`.
        refill: who keeps the lists, one of `REFILLERS`.
        space: its diagonal scales the scores.
        metric: what distance means.
        vocabulary: the statistics that keywords are weighed by.
        index_options: of the finder.
        refill_options: of the refiller.
        objects: the states, if they are shared.
    """
    return DynamicLists(
        ObjectTable(vocabulary) if objects is None else objects,
        lambda renumbered: ScoredSubscriptions(
            index, space, metric, vocabulary, known=FINDERS, renumbered=renumbered, **(index_options or {})
        ),
        lambda objects, queries: make_refiller(refill, objects, queries, **(refill_options or {})),
    )


def dynamic_knn(
    index: str, refill: str, space: Rect, metric: Metric, vocabulary: Vocabulary,
    refill_options: Mapping[str, Any] | None = None, objects: ObjectTable | None = None,
) -> DynamicLists:  # fmt: skip
    """Return lists of `knn` queries, whose scores are negative distances.

    Args:
        index: who finds the queries that new states concern, one of `NEAREST_FINDERS`.
        refill: who keeps the lists, one of `NEAREST_REFILLERS`.
        space: where objects and queries are.
        metric: what nearest means.
        vocabulary: the statistics that the table of objects weighs keywords by.
        refill_options: of the refiller.
        objects: the states, if they are shared.
    """
    return DynamicLists(
        ObjectTable(vocabulary) if objects is None else objects,
        lambda renumbered: NearestQueries(
            index, space, metric, vocabulary, known=NEAREST_FINDERS, renumbered=renumbered
        ),
        lambda objects, queries: make_nearest_refiller(refill, objects, queries, **(refill_options or {})),
    )
