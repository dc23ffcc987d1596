"""An index of continuous k-nearest-neighbour queries: a table, the lists, and a structure that finds the balls."""

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from operators.indexes.core.query_table import QueryTable
from operators.indexes.core.refusals import check_nearest
from operators.indexes.core.standing_queries import (
    SAVED_COLUMNS,
    Slots,
    StandingQueries,
    finite_places,
    plain,
    registrations,
    saved_columns,
)
from operators.indexes.core.structure import Probe
from operators.indexes.knn.knn_index import BallStructure, Near
from operators.indexes.knn.nearest_lists import NearestLists
from operators.indexes.range.range_index import Cost
from streams.batches import OP_UPSERT, TYPE_KNN, ObjectBatch, QueryBatch, RankedBatch
from streams.columns import Ints, distinct
from streams.errors import InputError
from streams.geometry import Metric, Rect, distance

__all__ = ["StandingKnn"]

Floats = NDArray[np.float64]

#: So many of the objects that came last are kept, to tell which subscriptions they cost work.
KEPT_OBJECTS = 1024

#: Radii that come from elsewhere: what the structure has of them may stay as it is, too large, until a probe reads it.
_NOTHING_READ = Near(0, 0, np.zeros(1, np.int64), np.empty(0, np.int32), 0)


class StandingKnn(StandingQueries):
    """Subscriptions and their k nearest objects, over any structure."""

    _shape = 2  # a place

    def __init__(
        self, structure: Callable[[QueryTable, NearestLists], BallStructure], space: Rect, metric: Metric
    ) -> None:
        self._make = structure
        self._cost = Cost()
        self._recent: deque[ObjectBatch] = deque()
        self._recent_count = 0
        super().__init__(space, metric)

    def _clear(self) -> None:
        super()._clear()
        self._lists = NearestLists(self._table)
        self._structure = self._make(self._table, self._lists)

    def _check(self, queries: QueryBatch) -> None:
        super()._check(queries)
        check_nearest(queries)

    def _file(self, queries: QueryBatch, slots: Slots) -> None:
        self._lists.open(slots, queries.k)
        self._structure.add(slots)

    def _unfile(self, slots: Slots) -> Slots:
        reusable = self._structure.discard(slots)
        self._lists.close(slots)
        return reusable

    def _rebuild(self) -> None:
        numbers = self.numbers()
        known, bounds = self.results(numbers), self.bounds(numbers)
        super()._rebuild()
        self.adopt(known)
        self.bind(numbers, bounds)

    def take(self, objects: ObjectBatch) -> Ints:
        """Enter objects, in the order of the input, into the lists they belong to; return the numbers of those that changed.

        A deletion changes nothing.
        """
        present = objects.op == OP_UPSERT
        if not present.all():
            objects = objects.take(np.flatnonzero(present))
        if not len(objects):
            return np.empty(0, np.int64)
        if (objects.seq[1:] <= objects.seq[:-1]).any():
            raise InputError("objects out of the order of the input; sort them by 'seq'")
        self._recent.append(objects)
        self._recent_count += len(objects)
        while self._recent_count - len(self._recent[0]) >= KEPT_OBJECTS:
            self._recent_count -= len(self._recent.popleft())
        if not len(self):
            self._cost = Cost(self._cost.objects + len(objects), self._cost.candidates, self._cost.matches)
            return np.empty(0, np.int64)
        probe = self._probe(objects)
        seq, ts = plain(objects.seq, np.int64), plain(objects.ts, np.int64)
        changed = [np.empty(0, np.int32)]
        examined, row = 0, 0
        while row < len(objects):
            near = self._structure.probe(probe, row)
            off, slots = self._admitted(near.first, *self._living(near, ts), objects)
            far = None if self._metric == "euclidean" else self._distances(near.first, off, slots, probe)
            changed.append(self._lists.settle(near.first, off, slots, far, probe, seq, objects.ids))
            self._structure.shrink(changed[-1], near)
            examined, row = examined + near.examined, near.next
        slots = np.concatenate(changed)
        cost = self._cost
        self._cost = Cost(cost.objects + len(objects), cost.candidates + examined, cost.matches + len(slots))
        return distinct(self._table.roster.numbers_of(slots))

    def _probe(self, objects: ObjectBatch) -> Probe:
        x, y = plain(objects.x, np.float64), plain(objects.y, np.float64)
        finite_places(x, y)
        word_off, words = self._table.words.known(plain(objects.kw_off, np.int32), plain(objects.kw, np.int64))
        return Probe(x, y, word_off, words)

    def _living(self, near: Near, ts: Ints) -> tuple[Ints, Slots]:
        """Return pairs without those whose subscription does not live at the object's time."""
        keep = self._table.roster.alive(near.off, near.slots, ts[near.first : near.next])
        return (near.off, near.slots) if keep is None else _kept(near.off, near.slots, keep)

    def _admitted(self, first: int, off: Ints, slots: Slots, objects: ObjectBatch) -> tuple[Ints, Slots]:
        """Return pairs without those whose object has a keyword that the subscription excludes."""
        if not self._table.residuals.live:
            return off, slots
        seen = slice(first, first + len(off) - 1)
        x, y = plain(objects.x[seen], np.float64), plain(objects.y[seen], np.float64)
        words = plain(objects.kw_off[first : first + len(off)], np.int32), plain(objects.kw, np.int64)
        keep = self._table.residuals.keep(off, slots, x, y, *words)
        return (off, slots) if keep is None else _kept(off, slots, keep)

    def _distances(self, first: int, off: Ints, slots: Slots, probe: Probe) -> Floats:
        """Return the distances of pairs as `streams.geometry` has them: a kernel's sine may differ in the last bit."""
        at = np.repeat(np.arange(first, first + len(off) - 1), np.diff(off))
        place = self._table.shape[slots]
        return distance(probe.x[at], probe.y[at], place[:, 0], place[:, 1], self._metric)

    # --- results -----------------------------------------------------------------------------------------------------

    def results(self, numbers: Ints, since: int | None = None) -> RankedBatch:
        """Return the lists of queries that are held, in this order; with `since` only objects from this `seq` on."""
        slots = self.slots(numbers)
        off, seq, ids, far = self._lists.items(slots, since)
        count = len(slots)
        return RankedBatch(
            number=np.asarray(numbers, np.int64), ts=np.zeros(count, np.int64), type=np.full(count, TYPE_KNN, np.uint8),
            k=self._lists.lengths(slots), instant=np.zeros(count, np.bool_), off=off, seq=seq, ids=ids, value=far,
        )  # fmt: skip

    def prints(self, numbers: Ints) -> Ints:
        """Return for each of these queries, which are held, a number that no earlier state of its list had."""
        return self._lists.prints(self.slots(numbers))

    def adopt(self, results: RankedBatch) -> None:
        """Add what others know of the lists of queries that are held."""
        if not len(results):
            return
        slots = self.slots(results.number)
        self._lists.merge(slots, plain(results.off, np.int32), results.seq, results.ids, results.value)
        self._structure.shrink(slots)

    def bounds(self, numbers: Ints) -> Floats:
        """Return the radius of each query's ball; NaN where it has no end."""
        radius = self._lists.radius[self.slots(numbers)]
        return np.where(np.isinf(radius), np.nan, radius)

    def bind(self, numbers: Ints, bounds: Floats) -> None:
        """Use the radii of others for queries whose lists are still to come."""
        shrunk = self._lists.bind(self.slots(numbers), plain(bounds, np.float64))
        self._structure.shrink(shrunk, _NOTHING_READ)

    # --- work --------------------------------------------------------------------------------------------------------

    def cost(self) -> Cost:
        """Return the counters of work done."""
        return self._cost

    def reset_cost(self) -> None:
        """Start counting work afresh."""
        self._cost = Cost()

    def weights(self) -> tuple[Ints, Floats]:
        """Return which subscriptions the objects that came last are compared with, and how often each."""
        found = [np.empty(0, np.int32)]
        for objects in self._recent:
            probe, row = self._probe(objects), 0
            while row < len(objects):
                near = self._structure.probe(probe, row, everything=True)
                found.append(near.slots)
                row = near.next
        slots, counts = np.unique(np.concatenate(found), return_counts=True)
        return self._table.roster.numbers_of(slots), counts.astype(np.float64)

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        return self._table.nbytes + self._lists.nbytes + self._structure.nbytes + self._expiry.nbytes

    # --- state -------------------------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """Return subscriptions, lists and counters."""
        numbers = self.numbers()
        cost = self._cost
        return {
            **saved_columns(self.queries(numbers)),
            "results": self.results(numbers),
            "bounds": self.bounds(numbers),
            "asleep": self.asleep(),
            "cost": np.array([cost.objects, cost.candidates, cost.matches], np.int64),
            "recent": list(self._recent),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Become the index that made this snapshot."""
        self._clear()
        self.insert(registrations({name: np.array(state[name]) for name in SAVED_COLUMNS}))
        self.adopt(state["results"])
        self.bind(np.array(state["number"]), state["bounds"])
        self.hush(state["asleep"])
        self._cost = Cost(*(int(number) for number in state["cost"]))
        self._recent = deque(state["recent"])
        self._recent_count = sum(map(len, self._recent))


def _kept(off: Ints, slots: Slots, keep: NDArray[np.bool_]) -> tuple[Ints, Slots]:
    """Return pairs without those that are not kept."""
    before = np.zeros(len(keep) + 1, np.int64)
    np.cumsum(keep, out=before[1:])
    return before[off], slots[keep]
