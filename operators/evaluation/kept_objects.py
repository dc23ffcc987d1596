"""Objects that are kept, and the answers that they give to queries at instants (SSTD, Section 6.2)."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from operators.evaluation.arrival_log import ArrivalLog
from operators.indexes.objects.object_index import Kept, ObjectIndex, Requests
from streams.batches import OP_UPSERT, TYPE_KNN, TYPE_RANGE, TYPE_TERMS, ObjectBatch, QueryBatch, RankedBatch
from streams.columns import Ids, Ints
from streams.geometry import REGION_CIRCLE

__all__ = ["KeptObjects", "as_objects"]

#: A list that is not cut.
ALL = np.iinfo(np.int32).max

_Items = tuple[Ints, Ints, Ids, NDArray[Any], NDArray[Any]]


class KeptObjects:
    """An index of objects with their times and identifiers.

    Attributes:
        examined, found: objects that were looked at one by one for answers, and items of answers, since `reset`.
    """

    def __init__(self, index: ObjectIndex) -> None:
        self.index, self.log = index, ArrivalLog()
        self.examined = self.found = 0

    def __len__(self) -> int:
        return len(self.log)

    def add(self, objects: ObjectBatch) -> None:
        """Take in objects, in the order of the input."""
        self.log.append(objects)
        self.index.add(objects)

    def before(self, first: int) -> ObjectBatch:
        """Return the objects with ``seq < first``."""
        rows = slice(0, int(np.searchsorted(self.log.seq, first)))
        seq = self.log.seq[rows]
        return as_objects(self.index.kept(0, first), self.log.ts[rows], self.log.ids(seq))

    def after(self, ts: int) -> ObjectBatch:
        """Return the objects that are younger than a time; places in the input stand for identifiers."""
        first = self.log.first_after(ts)
        rows = slice(int(np.searchsorted(self.log.seq, first)), len(self.log))
        seq = self.log.seq[rows]
        if not len(seq):
            return ObjectBatch.empty()
        return as_objects(self.index.kept(first, int(seq[-1]) + 1), self.log.ts[rows].copy(), Ids("int", seq.copy()))

    def drop(self, first: int) -> None:
        """Forget objects with ``seq < first``."""
        self.log.drop(first)
        self.index.drop(first)

    def reset(self) -> None:
        """Start counting work afresh."""
        self.examined = self.found = 0

    def answer(self, queries: QueryBatch, begin: Ints, instants: Ints) -> RankedBatch:
        """Answer queries from objects with ``begin < ts <= instant``; of terms all counts are listed: a merger adds them up."""
        first, stop = self.log.ranges(begin, instants)
        parts = []
        for kind, ask in ((TYPE_RANGE, self._range), (TYPE_KNN, self._knn), (TYPE_TERMS, self._terms)):
            rows = np.flatnonzero(queries.type == kind)
            if len(rows):
                one = queries if len(rows) == len(queries) else queries.take(rows)
                parts.append(_lists(one, instants[rows], *ask(one, Requests.of(one, first[rows], stop[rows]))))
        return RankedBatch.concat(parts or [RankedBatch.empty()])

    def _range(self, queries: QueryBatch, requests: Requests) -> _Items:
        found = self.index.srq(requests)
        self._count(found.examined, len(found.seq))
        uncut = np.full(len(queries), ALL, np.int32)
        return found.off, found.seq, self.log.ids(found.seq), np.zeros(len(found.seq)), uncut

    def _knn(self, queries: QueryBatch, requests: Requests) -> _Items:
        # In the second of two phases the k nearest are known to be inside of a circle.
        reach = np.where(queries.region == REGION_CIRCLE, queries.shape[:, 2], np.inf)
        near = self.index.skq(replace(requests, reach=reach))
        self._count(near.examined, len(near.seq))
        return near.off, near.seq, self.log.ids(near.seq), near.distance, queries.k

    def _terms(self, queries: QueryBatch, requests: Requests) -> _Items:
        counts = self.index.stq(replace(requests, k=np.zeros(len(queries), np.int32)))
        self._count(counts.examined, len(counts.term))
        return counts.off, counts.term, Ids("int", counts.term), counts.count.astype(np.float64), queries.k

    def _count(self, examined: int, found: int) -> None:
        self.examined, self.found = self.examined + examined, self.found + found


def as_objects(kept: Kept, ts: Ints, ids: Ids) -> ObjectBatch:
    """Return kept objects as they came."""
    op = np.full(len(kept), OP_UPSERT, np.uint8)
    return ObjectBatch(kept.seq, ts, kept.x, kept.y, op, kept.kw_off, kept.kw, ids)


def _lists(
    queries: QueryBatch, instants: Ints, off: Ints, item: Ints, ids: Ids, value: NDArray[Any], k: NDArray[Any]
) -> RankedBatch:
    return RankedBatch(
        number=queries.number, ts=instants, type=queries.type, k=k, instant=np.ones(len(queries), np.bool_),
        off=off.astype(np.int32), seq=item, ids=ids, value=value,
    )  # fmt: skip
