"""The core of queries that are answered at instants, from objects that are kept (SSTD, Sections 6.1 and 6.2).

Snapshots of `range`, `knn` and `terms` queries, and continuous `terms` queries at every slide. Each evaluator answers from
the objects that came to it; whoever may have objects of a query holds it, and a merger puts the answers together.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from operators.evaluation.arrival_log import ArrivalLog
from operators.indexes import Cost
from operators.indexes.core.standing_queries import SAVED_COLUMNS, Slots, StandingQueries, registrations, saved_columns
from operators.indexes.objects.kept_parts import restored, saved
from operators.indexes.objects.object_index import Kept, ObjectIndex, Requests
from streams.batches import NO_WINDOW, TYPE_KNN, TYPE_RANGE, TYPE_TERMS, ObjectBatch, QueryBatch, RankedBatch
from streams.columns import Ids, Ints, Offsets
from streams.geometry import Metric, Rect

__all__ = ["KeptCore"]

#: A list that is not cut.
ALL = np.iinfo(np.int32).max

#: Work behind the scenes that an epoch without objects may do, in postings.
TENDED = 1 << 16

#: So many of the latest questions are remembered for statistics.
ASKED = 4096

_BEGINNING = np.iinfo(np.int64).min


class KeptCore(StandingQueries):
    """Queries, the objects that came here, and the answers that these give.

    Args:
        space: where objects are.
        metric: how far things are from each other.
        index: the index of kept objects.
        kept_ms: objects are kept for so long; None: as long as there are any.
    """

    def __init__(self, space: Rect, metric: Metric, index: ObjectIndex, kept_ms: int | None) -> None:
        super().__init__(space, metric)
        self._index, self._kept_ms = index, kept_ms
        self._log = ArrivalLog()
        self._cost = Cost()
        self._asked: list[QueryBatch] = []
        self._answered: int | None = None

    def _file(self, queries: QueryBatch, slots: Slots) -> None:
        """File nothing: queries are looked at when they are due."""

    def _unfile(self, slots: Slots) -> Slots:
        return slots

    # --- objects -----------------------------------------------------------------------------------------------------

    def keep(self, objects: ObjectBatch) -> None:
        """Take in objects, in the order of the input."""
        self._log.append(objects)
        self._index.add(objects)
        self._cost = replace(self._cost, objects=self._cost.objects + len(objects))

    def forget(self, until: int | None) -> None:
        """Forget objects that no question can reach any more: what is due before `until` is answered after this.

        So what was complete the last time counts.
        """
        if self._answered is not None and self._kept_ms is not None:
            first = self._log.first_after(self._answered - self._kept_ms)
            self._log.drop(first)
            self._index.drop(first)
        self._answered = until
        self._index.tend(TENDED)

    # --- questions ---------------------------------------------------------------------------------------------------

    def answer(self, numbers: Ints, instants: Ints) -> RankedBatch:
        """Answer queries from the objects of their windows; of terms all counts are listed, for the merger to add up."""
        queries = self.queries(numbers)
        self._remember(queries)
        begin = np.where(queries.window == NO_WINDOW, _BEGINNING, instants - queries.window)
        first, stop = self._log.ranges(begin, instants)
        parts = []
        for kind, ask in ((TYPE_RANGE, self._range), (TYPE_KNN, self._knn), (TYPE_TERMS, self._terms)):
            rows = np.flatnonzero(queries.type == kind)
            if len(rows):
                one = queries.take(rows)
                parts.append(_lists(one, instants[rows], *ask(one, Requests.of(one, first[rows], stop[rows]))))
        return RankedBatch.concat(parts)

    def _range(self, queries: QueryBatch, requests: Requests) -> tuple[Ints, Ints, Ids, NDArray[Any], NDArray[Any]]:
        found = self._index.srq(requests)
        self._examined(found.examined, len(found.seq))
        uncut = np.full(len(queries), ALL, np.int32)
        return found.off, found.seq, self._log.ids(found.seq), np.zeros(len(found.seq)), uncut

    def _knn(self, queries: QueryBatch, requests: Requests) -> tuple[Ints, Ints, Ids, NDArray[Any], NDArray[Any]]:
        near = self._index.skq(requests)
        self._examined(near.examined, len(near.seq))
        return near.off, near.seq, self._log.ids(near.seq), near.distance, queries.k

    def _terms(self, queries: QueryBatch, requests: Requests) -> tuple[Ints, Ints, Ids, NDArray[Any], NDArray[Any]]:
        counts = self._index.stq(replace(requests, k=np.zeros(len(queries), np.int32)))
        self._examined(counts.examined, len(counts.term))
        return counts.off, counts.term, Ids("int", counts.term), counts.count.astype(np.float64), queries.k

    def _examined(self, candidates: int, matches: int) -> None:
        cost = self._cost
        self._cost = Cost(cost.objects, cost.candidates + candidates, cost.matches + matches)

    def _remember(self, queries: QueryBatch) -> None:
        self._asked.append(queries)
        while sum(map(len, self._asked[1:])) >= ASKED:
            self._asked.pop(0)

    def asked(self) -> QueryBatch:
        """Return the latest questions since the costs were reset."""
        return QueryBatch.concat([QueryBatch.empty(), *self._asked])

    def cost(self) -> Cost:
        """Return the counters of work done."""
        return self._cost

    def reset_cost(self) -> None:
        """Start counting work afresh."""
        self._cost, self._asked = Cost(), []

    @property
    def nbytes(self) -> int:
        """Bytes of objects and their index."""
        return self._log.nbytes + self._index.nbytes

    # --- state -------------------------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """Return queries and objects; what never changes of these is in parts."""
        return {
            **saved_columns(self.queries(self.numbers())),
            "asleep": self.asleep(),
            "cost": np.array([self._cost.objects, self._cost.candidates, self._cost.matches], np.int64),
            "asked": self.asked(),
            "answered": self._answered,
            "log": self._log.snapshot(),
            "objects": self._index.snapshot(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over a snapshot, into an empty core."""
        self.insert(self.saved_queries(state))
        self.hush(np.asarray(state["asleep"]))
        self._cost = Cost(*np.asarray(state["cost"]).tolist())
        self._asked = [state["asked"]] if len(state["asked"]) else []
        self._answered = state["answered"]
        self._log.restore(state["log"])
        self._index.restore(state["objects"])

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
            parts = [part for giver in givers for part in restored(giver["objects"])]
            kept = Kept.concat([Kept.empty(), *parts])
            kept = kept.take(np.argsort(kept.seq, kind="stable"))
            objects = saved((), kept, 0, int(kept.seq[-1]) if len(kept) else -1)
            log = ArrivalLog.united([giver["log"] for giver in givers])
        return {
            **saved_columns(queries),
            "asleep": np.empty(0, np.int64),
            "cost": np.zeros(3, np.int64),
            "asked": QueryBatch.empty(),
            "answered": like["answered"],
            "log": log,
            "objects": objects,
        }


def _lists(
    queries: QueryBatch, instants: Ints, off: Ints, item: Ints, ids: Ids, value: NDArray[Any], k: NDArray[Any]
) -> RankedBatch:
    count = len(queries)
    offsets: Offsets = off.astype(np.int32)
    return RankedBatch(
        number=queries.number, ts=instants, type=queries.type, k=k, instant=np.ones(count, np.bool_), off=offsets,
        seq=item, ids=ids, value=value,
    )  # fmt: skip
