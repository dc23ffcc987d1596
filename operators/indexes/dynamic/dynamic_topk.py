"""The k best among dynamic objects, for many queries: states, who finds whom they concern, and who keeps the lists."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from operators.indexes.dynamic.dynamic_index import Floats, Slots
from operators.indexes.dynamic.object_table import ObjectTable
from operators.indexes.dynamic.registry import FINDERS, make_refiller
from operators.indexes.topk.subscriptions import ScoredSubscriptions
from streams.batches import ObjectBatch
from streams.columns import Ints
from streams.geometry import Metric, Rect
from streams.vocabulary import Vocabulary

__all__ = ["DynamicTopk"]


class DynamicTopk:
    """Queries by number, over the current states of objects.

    Queries are put into `queries`, with a threshold of inf, and taken out there; their lists begin with `open` and end with
    `close`. In between `fill` and `update` leave all lists as they must be.

    Args:
        index: who finds the queries that new states concern, one of `FINDERS`.
        refill: who keeps the lists, one of `REFILLERS`.
        space: its diagonal scales the scores.
        metric: what distance means.
        vocabulary: the statistics that keywords are weighed by.
        index_options, refill_options: of the two.
    """

    def __init__(
        self, index: str, refill: str, space: Rect, metric: Metric, vocabulary: Vocabulary,
        index_options: Mapping[str, Any] | None = None, refill_options: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        self.objects = ObjectTable(vocabulary)
        self.queries = ScoredSubscriptions(
            index, space, metric, vocabulary, known=FINDERS, renumbered=self._renumber, **(index_options or {})
        )
        self._refill = refill, dict(refill_options or {})
        self.refiller = make_refiller(refill, self.objects, self.queries, **self._refill[1])

    def open(self, numbers: Ints) -> None:
        """Keep lists for queries that are held, from the next `fill` or `update` on."""
        slots = self.queries.slots(numbers)
        if len(slots):
            self.refiller.open(slots, self.queries.k_of(slots))

    def close(self, numbers: Ints) -> None:
        """Forget the lists of queries that are open."""
        slots = self.queries.slots(numbers)
        if len(slots):
            self.refiller.close(slots)
            self.queries.retune(slots, np.full(len(slots), np.inf))

    def update(self, objects: ObjectBatch) -> Ints:
        """Enter records, in the order of the input; return the queries whose list has changed, ascending."""
        changes = self.objects.compare(objects)
        self.refiller.leave(changes.leaving)
        states = self.objects.apply(objects, changes)
        if len(states):
            self.refiller.arrive(changes.arriving)
            hits = self.queries.hits(states, objects.ts[changes.rows])
            self.refiller.enter(changes.arriving[hits.row], hits.slot, hits.score)
        return self.fill()

    def fill(self) -> Ints:
        """Fill lists that are due; return the queries whose list has changed, ascending."""
        self.refiller.refill()
        slots = self.refiller.retuned()
        self.queries.retune(slots, self.refiller.theta[slots])
        numbers = self.queries.numbers_of(self.refiller.changed())
        return numbers if np.all(numbers[1:] > numbers[:-1]) else np.sort(numbers)

    def lists(self, numbers: Ints) -> tuple[Ints, Slots, Floats]:
        """Return the lists of queries that are open as ragged rows: offsets, objects and scores, best first."""
        return self.refiller.lists(self.queries.slots(numbers))

    def _renumber(self, old: Slots) -> None:
        self.refiller.renumber(old)

    # --- state -------------------------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """Return states and queries; lists are made anew from these."""
        return {"objects": self.objects.snapshot(), "queries": self.queries.snapshot()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over a snapshot: all queries are held, none is open."""
        self.objects.restore(state["objects"])
        numbers = np.array(state["queries"]["number"])
        self.queries.restore({**state["queries"], "bounds": np.full(len(numbers), np.inf)})
        self.refiller = make_refiller(self._refill[0], self.objects, self.queries, **self._refill[1])
        self.refiller.arrive(self.objects.held())
