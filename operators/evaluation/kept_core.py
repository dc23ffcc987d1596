"""The core of queries that are answered at instants, from objects that are kept (SSTD, Sections 6.1 and 6.2).

Snapshots of `range`, `knn` and `terms` queries, and continuous `terms` queries at every slide. Each evaluator answers from
the objects that came to it; whoever may have objects of a query holds it, and a merger puts the answers together.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from operators.evaluation.arrival_log import ArrivalLog
from operators.evaluation.kept_objects import KeptObjects
from operators.evaluation.object_storage import ObjectStorage
from operators.evaluation.passing_queries import PassingQueries
from operators.indexes import Cost
from operators.indexes.core.standing_queries import SAVED_COLUMNS, Slots, StandingQueries, registrations, saved_columns
from operators.indexes.objects.kept_parts import united
from operators.indexes.objects.object_index import ObjectIndex
from streams.batches import NO_WINDOW, ObjectBatch, QueryBatch, RankedBatch
from streams.columns import Ints
from streams.errors import InputError
from streams.geometry import Metric, Rect

__all__ = ["KeptCore"]

#: Work behind the scenes that an epoch without objects may do, in postings.
TENDED = 1 << 16

#: So many of the latest questions are remembered for statistics.
ASKED = 4096

_BEGINNING = np.iinfo(np.int64).min


class KeptCore(StandingQueries):
    """Queries, the objects that came here, and the answers that these give.

    Attributes:
        refusals: why answers were refused since they were last taken from here: stored files that cannot be read.

    Args:
        space: where objects are.
        metric: how far things are from each other.
        index: the index of kept objects.
        keep_ms, keep_objects: what is older, or more, leaves memory; None: nothing does.
        storage: where it goes; without, it is forgotten.
        late: how many times `forget` may be called before a question comes that was due before the first of them.
    """

    def __init__(
        self,
        space: Rect,
        metric: Metric,
        index: ObjectIndex,
        keep_ms: int | None = None,
        keep_objects: int | None = None,
        storage: ObjectStorage | None = None,
        late: int = 1,
    ) -> None:
        super().__init__(space, metric)
        self._passing = PassingQueries()
        self._here, self._storage = KeptObjects(index), storage
        self._keep_ms, self._keep_objects = keep_ms, keep_objects
        self._kept = self._stored_examined = 0
        self._asked: deque[QueryBatch] = deque()
        self._asked_count = 0
        self._marks: list[int | None] = []
        self._late = late
        self._quiet = True
        self.refusals: list[str] = []

    def _file(self, queries: QueryBatch, slots: Slots) -> None:
        """File nothing: queries are looked at when they are due."""

    def _unfile(self, slots: Slots) -> Slots:
        return slots

    # --- queries: snapshots are apart from those that stay -----------------------------------------------------------

    def __len__(self) -> int:
        return super().__len__() + len(self._passing)

    def numbers(self) -> Ints:
        """Return the numbers of all queries held, ascending."""
        return np.sort(np.concatenate([super().numbers(), self._passing.numbers()]))

    def holds(self, numbers: Ints) -> NDArray[np.bool_]:
        """Tell of each number whether it is held."""
        passing = self._passing.holds(numbers)
        return passing | super().holds(numbers) if len(self._table) else passing

    def insert(self, queries: QueryBatch) -> None:
        """Add registrations."""
        self._passing.insert(queries.where(~queries.continuous))
        super().insert(queries.where(queries.continuous))

    def set_end(self, numbers: Ints, ends: Ints) -> int:
        """Lower the ends of queries."""
        return self._passing.set_end(numbers, ends) + super().set_end(numbers, ends)

    def remove(self, numbers: Ints) -> int:
        """Drop queries."""
        return self._passing.remove(numbers) + (super().remove(numbers) if len(self._table) else 0)

    def ended(self, now: int) -> Ints:
        """Return the numbers of the queries with end <= now."""
        return np.concatenate([self._passing.ended(now), super().ended(now)])

    def queries(self, numbers: Ints) -> QueryBatch:
        """Return those of these queries that are held, in this order."""
        passing = self._passing.holds(numbers)
        if passing.all():
            return self._passing.queries(numbers)
        if not passing.any():
            return super().queries(numbers)
        staying = np.flatnonzero(super().holds(numbers))
        rows = np.concatenate([np.flatnonzero(passing), staying])
        found = QueryBatch.concat([self._passing.queries(numbers[passing]), super().queries(numbers[staying])])
        return found.take(np.argsort(rows, kind="stable"))

    # --- objects -----------------------------------------------------------------------------------------------------

    def keep(self, objects: ObjectBatch) -> None:
        """Take in objects, in the order of the input."""
        self._here.add(objects)
        self._kept += len(objects)
        self._quiet = self._quiet and not len(objects)

    def after(self, ts: int | None) -> ObjectBatch:
        """Return the objects in memory that are younger than a time, without their identifiers; None: all of them."""
        return self._here.after(_BEGINNING if ts is None else max(ts, _BEGINNING))

    def forget(self, until: int | None) -> None:
        """Let objects leave memory, into the storage where there is one.

        What is due before `until` is answered after this, or even later, so what was complete some time ago counts: no
        question can reach further back than what is kept since then.
        """
        if (oldest := self._oldest()) is not None:
            first = self._here.log.first_after(oldest - 1)
            if self._storage is not None and len(self._here) and first > self._here.log.seq[0]:
                self._storage.store(self._here.before(first))
            self._here.drop(first)
        self._marks = [*self._marks, until][-self._late :]
        if self._quiet:  # else the objects that came have done their part of the work that waits, which is enough
            self._here.index.tend(TENDED)
        self._quiet = True

    def _oldest(self) -> int | None:
        """Return the time before which objects leave memory now; in a storage they are together by interval."""
        answered = self._marks[0] if len(self._marks) == self._late else None
        if answered is None:
            return None
        leaving = [] if self._keep_ms is None else [answered - self._keep_ms + 1]
        if self._keep_objects is not None and len(self._here) > self._keep_objects:
            leaving.append(min(int(self._here.log.ts[-self._keep_objects]), answered))
        if not leaving:
            return None
        return (
            max(leaving)
            if self._storage is None
            else max(leaving) // self._storage.interval_ms * self._storage.interval_ms
        )

    # --- questions ---------------------------------------------------------------------------------------------------

    def answer(self, numbers: Ints, instants: Ints) -> RankedBatch:
        """Answer queries from the objects of their windows: a list from memory, and one from each file that has some.

        Where a file cannot be read, the list is a refusal (k < 0): the merger gives no answer.
        """
        queries = self.queries(numbers)
        self._remember(queries)
        begin = np.where(queries.window == NO_WINDOW, _BEGINNING, instants - queries.window)
        lists = [self._here.answer(queries, begin, instants)]
        if self._storage is not None:
            for file, rows in self._storage.needed(queries, begin, instants):
                part = queries.take(rows), begin[rows], instants[rows]
                try:
                    stored = self._storage.objects(file)
                except InputError as error:
                    self.refusals.append(str(error))
                    lists.append(_refusals(part[0], part[2]))
                    continue
                lists.append(stored.answer(*part))
                self._stored_examined += stored.examined
                stored.reset()
        return RankedBatch.concat(lists)

    def reach(self, queries: QueryBatch) -> NDArray[np.float64]:
        """Return how far away the kth object of snapshots is among those in memory: the true one is no farther."""
        begin = np.where(queries.window == NO_WINDOW, _BEGINNING, queries.ts - queries.window)
        lists = self._here.answer(queries, begin, queries.ts)
        whole = np.diff(lists.off) == lists.k
        far = np.full(len(lists), np.inf)
        far[whole] = lists.value[lists.off[1:][whole] - 1]
        return far

    def _remember(self, queries: QueryBatch) -> None:
        self._asked.append(queries)
        self._asked_count += len(queries)
        while self._asked_count - len(self._asked[0]) >= ASKED:
            self._asked_count -= len(self._asked.popleft())

    def asked(self) -> QueryBatch:
        """Return the latest questions since the costs were reset."""
        return QueryBatch.concat([QueryBatch.empty(), *self._asked])

    def cost(self) -> Cost:
        """Return the counters of work done."""
        return Cost(self._kept, self._here.examined + self._stored_examined, self._here.found)

    def reset_cost(self) -> None:
        """Start counting work afresh."""
        self._here.reset()
        self._kept = self._stored_examined = self._asked_count = 0
        self._asked.clear()

    @property
    def nbytes(self) -> int:
        """Bytes of objects and their index."""
        return self._here.log.nbytes + self._here.index.nbytes

    # --- state -------------------------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """Return queries and objects; what never changes of these is in parts."""
        return {
            **saved_columns(self.queries(self.numbers())),
            "asleep": self.asleep(),
            "cost": np.array([self._kept, self._here.examined, self._here.found, self._stored_examined], np.int64),
            "asked": self.asked(),
            "marks": list(self._marks),
            "log": self._here.log.snapshot(),
            "objects": self._here.index.snapshot(),
            "stored": [] if self._storage is None else self._storage.snapshot(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over a snapshot, into an empty core."""
        self.insert(self.saved_queries(state))
        self.hush(np.asarray(state["asleep"]))
        self._kept, self._here.examined, self._here.found, self._stored_examined = np.asarray(state["cost"]).tolist()
        self._asked, self._asked_count = deque([state["asked"]]), len(state["asked"])
        self._marks = list(state["marks"])
        self._here.log.restore(state["log"])
        self._here.index.restore(state["objects"])
        if self._storage is not None:
            self._storage.restore(state["stored"])

    @staticmethod
    def saved_queries(state: Mapping[str, Any]) -> QueryBatch:
        """Return the queries of a snapshot."""
        return registrations({name: np.asarray(state[name]) for name in SAVED_COLUMNS})

    @staticmethod
    def divided(like: Mapping[str, Any], queries: QueryBatch, givers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return a snapshot with these queries and the objects of others, otherwise like another."""
        if len(givers) == 1:
            log, objects = givers[0]["log"], givers[0]["objects"]
        else:
            log = ArrivalLog.united([giver["log"] for giver in givers])
            objects = united([giver["objects"] for giver in givers])
        return {
            **saved_columns(queries),
            "asleep": np.empty(0, np.int64),
            "cost": np.zeros(4, np.int64),
            "asked": QueryBatch.empty(),
            "marks": like["marks"],
            "log": log,
            "objects": objects,
            "stored": [file for giver in givers for file in giver["stored"]],
        }


def _refusals(queries: QueryBatch, instants: Ints) -> RankedBatch:
    """Return lists that say that there is no answer."""
    return RankedBatch.without_items(queries.number, -1, instants, queries.type, instant=True)
