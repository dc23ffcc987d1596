"""An index of continuous top-k frequent term queries: a table, the window of objects, and a structure that counts."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from operators.indexes.core.growth import grown
from operators.indexes.core.query_table import QueryTable
from operators.indexes.core.standing_queries import (
    SAVED_COLUMNS,
    Slots,
    StandingQueries,
    finite_places,
    registrations,
    saved_columns,
)
from operators.indexes.range.range_index import Cost
from operators.indexes.terms.term_window import TermWindow
from operators.indexes.terms.terms_index import Asked, CountStructure
from streams.batches import OP_UPSERT, TYPE_TERMS, ObjectBatch, QueryBatch, RankedBatch
from streams.columns import Ids, Ints
from streams.errors import InputError
from streams.files.query_records import MAX_K
from streams.geometry import Metric, Rect

__all__ = ["StandingTerms"]


#: So many objects wait, at most, to be taken in together: many cost little more than a few, and nobody may ask for long.
TOGETHER = 2048


class StandingTerms(StandingQueries):
    """Queries and the objects that they count, over any structure."""

    def __init__(
        self,
        structure: Callable[[QueryTable, TermWindow], CountStructure],
        space: Rect,
        metric: Metric,
        name: str = "terms",
    ) -> None:
        self._make = structure
        self._window = TermWindow(name)
        self._cost = Cost()
        self._waiting: list[ObjectBatch] = []
        self._waiting_count, self._last = 0, -1
        super().__init__(space, metric)

    def _clear(self) -> None:
        super()._clear()
        #: By slot: k, window and slide of each query.
        self._wanted: NDArray[np.int64] = np.empty((0, 3), np.int64)
        #: The longest slide of all that are shorter than their window.
        self._slack = 0
        self._structure = self._make(self._table, self._window)
        if len(self._window):
            self._structure.append(self._window.first)

    def _check(self, queries: QueryBatch) -> None:
        super()._check(queries)
        right = (queries.k >= 1) & (queries.k <= MAX_K) & (queries.window >= 1) & (queries.slide >= 1)
        wrong = np.flatnonzero(~right | (queries.type != TYPE_TERMS) | ~queries.continuous)
        if len(wrong):
            row = int(wrong[0])
            raise InputError(
                f"query {queries.number[row]} (row {row} of the batch) has k = {queries.k[row]}, window = "
                f"{queries.window[row]}, slide = {queries.slide[row]}; expected a continuous terms query with k from 1 to "
                f"{MAX_K}, window and slide of at least 1 ms"
            )

    def _file(self, queries: QueryBatch, slots: Slots) -> None:
        if self._table.roster.top > len(self._wanted):
            self._wanted = grown(self._wanted, 3 * self._table.roster.top + 64)
        self._wanted[slots] = np.column_stack([queries.k, queries.window, queries.slide])
        sliding = queries.slide[queries.slide < queries.window]
        self._slack = max(self._slack, int(sliding.max(initial=0)))
        self._enter()
        self._structure.add(slots)

    def _unfile(self, slots: Slots) -> Slots:
        self._enter()
        return self._structure.discard(slots)

    # --- objects and answers -----------------------------------------------------------------------------------------

    def take(self, objects: ObjectBatch) -> int:
        """Take in objects, in the order of the input; return how many count. A deletion does not."""
        finite_places(objects.x, objects.y)
        if (objects.seq[1:] <= objects.seq[:-1]).any() or (len(objects) and objects.seq[0] <= self._last):
            raise InputError("objects out of the order of the input; sort them by 'seq'")
        self._waiting.append(objects)
        self._last = int(objects.seq[-1]) if len(objects) else self._last
        self._waiting_count += len(objects)
        if self._waiting_count >= TOGETHER:
            self._enter()
        count, cost = int(np.count_nonzero(objects.op == OP_UPSERT)), self._cost
        self._cost = Cost(cost.objects + count, cost.candidates, cost.matches)
        return count

    def _enter(self) -> None:
        """Take in the objects that wait."""
        if not self._waiting:
            return
        objects, before = ObjectBatch.concat(self._waiting), self._window.stop
        self._waiting, self._waiting_count = [], 0
        if self._window.append(objects):
            self._structure.append(before)

    def forget(self, before: int) -> None:
        """Forget objects: no instant will be asked for whose window begins before this time.

        Those that have left a window since the last slide are kept, because structures count what leaves.
        """
        first = int(self._window.rows_upto(np.array([before - self._slack], np.int64))[0])
        if first > self._window.first:
            self._structure.forget(first)
            self._window.forget(first)

    def answer(self, numbers: Ints, instants: Ints, whole: NDArray[np.bool_] | None = None) -> RankedBatch:
        """Return the counts of queries that are held, each as of an instant, in this order.

        All objects up to the instants have been taken. Without `whole`, all objects of the queries are here.
        """
        self._enter()
        slots = self.slots(numbers)
        k, windows, _ = self._wanted[slots].T
        first, stop = self._window.rows_upto(instants - windows), self._window.rows_upto(instants)
        k, count, cost = k.astype(np.int32), len(slots), self._cost
        found = self._structure.count(
            Asked(slots, first, stop, k, np.ones(count, np.bool_) if whole is None else whole)
        )
        self._cost = Cost(cost.objects, cost.candidates + found.examined, cost.matches + found.counted)
        return RankedBatch(
            number=np.asarray(numbers, np.int64), ts=np.asarray(instants, np.int64),
            type=np.full(count, TYPE_TERMS, np.uint8), k=k, instant=np.ones(count, np.bool_),
            off=found.off.astype(np.int32), seq=found.term, ids=Ids("int", found.term),
            value=found.count.astype(np.float64),
        )  # fmt: skip

    def windows_of(self, numbers: Ints) -> Ints:
        """Return how far back queries that are held look."""
        windows: Ints = self._wanted[self.slots(numbers), 1]
        return windows

    # --- work and state ----------------------------------------------------------------------------------------------

    @property
    def window(self) -> TermWindow:
        """The objects that are kept."""
        self._enter()
        return self._window

    def cost(self) -> Cost:
        """Return the counters of work done: objects taken, looked at for answers, and counted."""
        return self._cost

    def reset_cost(self) -> None:
        """Start counting work afresh."""
        self._cost = Cost()

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        self._enter()
        rows = 24 * self._table.roster.top
        return self._table.nbytes + rows + self._structure.nbytes + self._expiry.nbytes + self._window.nbytes

    def snapshot(self) -> dict[str, Any]:
        """Return queries, objects and counters."""
        self._enter()
        cost = self._cost
        return {
            **saved_columns(self.queries(self.numbers())),
            "asleep": self.asleep(),
            "window_objects": self._window.snapshot(),
            "cost": np.array([cost.objects, cost.candidates, cost.matches], np.int64),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Become the index that made this snapshot; counts are made anew from the objects."""
        self._waiting, self._waiting_count = [], 0
        self._window.clear()
        self._clear()
        self.insert(registrations({name: np.array(state[name]) for name in SAVED_COLUMNS}))
        self.hush(state["asleep"])
        self._window.restore(state["window_objects"])
        self._last = self._window.last
        if len(self._window):
            self._structure.append(self._window.first)
        self._cost = Cost(*(int(number) for number in state["cost"]))
