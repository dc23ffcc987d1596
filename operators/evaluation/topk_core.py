"""The core of top-k subscriptions over a sliding window: Skype in one task (Section 4).

New messages go through the dissemination index into the buffers of the subscriptions that they enter. When time goes by,
old ones leave the buffers, and a buffer that has run dry is filled from the window. All of the window is here, so a
subscription that comes, or wakes up after a move, is searched for at once, and nothing has to be waited for.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from operators.evaluation.core import Found
from operators.evaluation.division import final_lists
from operators.indexes import Cost
from operators.indexes.core.standing_queries import SAVED_COLUMNS, registrations, saved_columns
from operators.indexes.topk.buffers import Buffers
from operators.indexes.topk.subscriptions import ScoredSubscriptions
from operators.indexes.topk.topk_index import MessageIndex, Requests, messages_of
from operators.indexes.topk.topk_lists import TopkLists, Wanted
from operators.indexes.topk.window_log import WindowLog
from streams.batches import ObjectBatch, QueryBatch, RankedBatch
from streams.columns import Ints, union_of, without
from streams.scoring import unit_weights
from streams.vocabulary import Vocabulary

__all__ = ["TopkCore"]

Floats = NDArray[np.float64]

_NONE: Ints = np.empty(0, np.int64)


class TopkCore:
    """Subscriptions, their lists, and the window.

    Attributes:
        searches: how often the window was searched for a subscription.
    """

    remembers: ClassVar = True
    ordered: ClassVar = True  # of two messages with the same score the newer one is better

    def __init__(
        self, table: ScoredSubscriptions, buffers: Buffers, index: MessageIndex, log: WindowLog, words: Vocabulary
    ) -> None:
        self._table, self._buffers, self._index, self._log, self._words = table, buffers, index, log, words
        self._lists = TopkLists(table, buffers, log)
        self._searched = 0
        self.searches = 0
        self._until: int | None = None
        self.numbers, self.holds, self.queries = table.numbers, table.holds, table.queries
        self.set_end, self.results = table.set_end, self._lists.results

    # --- what comes and goes -----------------------------------------------------------------------------------------

    def insert(self, queries: QueryBatch) -> None:
        """Add subscriptions; no message enters one before it is settled."""
        self._table.insert(queries, np.inf)
        self._lists.begin(queries.number)

    def remove(self, numbers: Ints) -> None:
        """Drop subscriptions."""
        numbers = numbers[self.holds(numbers)]
        self._lists.close(numbers)
        self._table.remove(numbers)

    def hush(self, numbers: Ints) -> None:
        """Let subscriptions take no part; their lists stay as they are until they are woken."""
        numbers = numbers[self.holds(numbers)]
        self._lists.freeze(numbers)
        self._table.bind(numbers, np.full(len(numbers), np.inf))
        self._table.hush(numbers)

    def wake(self, numbers: Ints) -> None:
        """Let subscriptions take part again: the window is searched for them anew."""
        numbers = numbers[self.holds(numbers)]
        self._table.wake(numbers)
        self._lists.begin(numbers)

    def ended(self, now: int) -> Ints:
        """Return the subscriptions that have ended, each once."""
        return union_of(self._lists.ended(), self._table.ended(now))

    # --- messages, and time ------------------------------------------------------------------------------------------

    def take(self, objects: ObjectBatch) -> Found:
        """Enter messages into the buffers that they concern."""
        kept = self._log.append(objects)
        messages = messages_of(kept, self._words)
        self._index.add(messages)
        hits = self._table.hits(messages, kept.ts)
        return Found(changed=self._lists.enter(hits.slot, messages.seq[hits.row], hits.score))

    def settle(self, now: int, until: int | None) -> Found:
        """Let old messages leave, and search the window for those that need it."""
        self._until = until
        changed, wanted = self._lists.due(now, until, self._log.stop)
        if len(wanted.numbers):
            self._lists.refill(wanted.numbers, self._search(wanted))
        # What was searched for may have the threshold of a new buffer, which is no news to that but to the table.
        slots = union_of(self._buffers.retuned(), self._table.slots(wanted.numbers[wanted.living]))
        self._table.retune(slots, self._buffers.theta[slots])
        first = self._log.first(now)
        self._index.drop(first)
        self._log.drop(first)
        return Found(changed=union_of(changed, wanted.numbers))

    def _search(self, wanted: Wanted) -> Any:
        queries = self._table.queries(wanted.numbers)
        weight = unit_weights(queries.kw_off, queries.kw, self._words)
        x, y = (np.ascontiguousarray(queries.shape[:, axis]) for axis in (0, 1))
        limits = (wanted.least, wanted.most, wanted.bound, wanted.ratio, wanted.first, wanted.stop)
        answers = self._index.search(Requests(x, y, queries.alpha, queries.kw_off, queries.kw, weight, *limits))
        self._searched += answers.examined
        self.searches += len(wanted.numbers)
        return answers

    # --- what a core has besides -------------------------------------------------------------------------------------

    def answer(self, numbers: Ints, _instants: Ints) -> RankedBatch:
        """Answer nothing: no query of this kind has an instant."""
        assert not len(numbers), "a topk query is answered whenever its list changes"
        return RankedBatch.empty()

    def adopt(self, results: RankedBatch) -> None:
        """Take lists of subscriptions that ended before they were woken here; all others are searched for."""
        self._lists.adopt(results)

    def bounds(self, numbers: Ints) -> Floats:
        """Say nothing: whoever takes a subscription has the window, and so its own thresholds."""
        return np.full(len(numbers), np.nan)

    def bind(self, numbers: Ints, bounds: Floats) -> None:
        """Pass over bounds: there are none."""

    def cost(self) -> Cost:
        """Return the work done: candidates of dissemination, and messages that were looked at in searches."""
        cost = self._table.cost()
        return Cost(cost.objects, cost.candidates + self._searched, cost.matches)

    def reset_cost(self) -> None:
        """Start counting work afresh."""
        self._searched = 0
        self._table.reset_cost()

    def touching(self, _boxes: Floats) -> Ints:
        """Return the numbers of all: subscriptions are not found by place."""
        return self.numbers()

    def weights(self) -> tuple[Ints, Floats]:
        """Return the work of late by subscription."""
        return self._table.weights()

    # --- state -------------------------------------------------------------------------------------------------------

    def snapshot(self) -> Mapping[str, Any]:
        """Return subscriptions, lists and window."""
        return {
            "table": self._table.snapshot(),
            "lists": self._lists.snapshot(),
            "results": self.results(without(self.numbers(), self._lists.fresh)),
            "log": self._log.snapshot(),
            "searched": self._searched,
            "until": self._until,
        }

    def restore(self, state: Any) -> None:
        """Take over a snapshot."""
        self._table.restore(state["table"])
        self._log.restore(state["log"])
        self._lists.restore(state["lists"])
        self._searched, self._until = state["searched"], state["until"]
        for part in self._log.messages():
            self._index.add(messages_of(part, self._words))

    @staticmethod
    def saved_queries(state: Mapping[str, Any]) -> QueryBatch:
        """Return the queries of a snapshot."""
        return registrations({name: np.asarray(state["table"][name]) for name in SAVED_COLUMNS})

    @staticmethod
    def saved_results(state: Mapping[str, Any]) -> RankedBatch:
        """Return the lists of a snapshot; a query that is fresh, as one is that came early, has none."""
        results: RankedBatch = state["results"]
        return results

    @staticmethod
    def divided(like: Mapping[str, Any], queries: QueryBatch, results: RankedBatch) -> dict[str, Any]:
        """Return a snapshot with these queries: those that have ended keep their lists, all others are searched for anew."""
        over = np.zeros(len(queries), np.bool_) if like["until"] is None else queries.end <= like["until"]
        final = final_lists(queries.take(np.flatnonzero(over)), results)
        table = {
            **like["table"],
            **saved_columns(queries),
            "bounds": np.full(len(queries), np.inf),
            "asleep": _NONE,
            "cost": np.zeros(3, np.int64),
            "recent": _NONE,
        }
        lists = {
            "buffers": None,
            "fresh": np.sort(queries.number[~np.isin(queries.number, final.number)]),
            "asked": _NONE,
            "final": final,
            "named": np.sort(final.number),
        }
        return {**like, "table": table, "lists": lists, "results": results, "searched": 0}
