"""Fences over the current states of objects: a range index for the queries, a table for the states, and what lies between."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from operators.indexes.core.growth import grown
from operators.indexes.core.query_table import region_box
from operators.indexes.dynamic.object_rows import X, Y
from operators.indexes.dynamic.object_table import ObjectTable
from operators.indexes.fences.crossing_kernels import compare_rows, slots_in_boxes
from operators.indexes.fences.successions import Successions
from operators.indexes.range.range_index import RangeIndex
from operators.indexes.range.registry import make_range_index
from streams.batches import DETECT_INSIDE, DETECTS, FOREVER, OP_UPSERT, CrossingBatch, ObjectBatch, QueryBatch
from streams.columns import Ids, Ints, without
from streams.geometry import Metric, Rect
from streams.vocabulary import Vocabulary

__all__ = ["Fences", "Moments", "Taken"]

Slots = NDArray[np.int32]

_ENTER, _EXIT = DETECTS.index("enter"), DETECTS.index("exit")

#: For so many queries that begin or end at once, objects are looked for in their boxes; for more, all are matched.
FEW = 64


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """Queries that begin, or end, at some time each: numbers ascending, and when."""

    number: Ints
    at: Ints

    def __len__(self) -> int:
        return len(self.number)


@dataclass(frozen=True, slots=True, eq=False)
class Taken:
    """Records that were entered: what they have caused, and the states of the time before.

    Attributes:
        crossings: the events.
        objects: the records.
        replaced: the state that the first record of each object replaced, if there was one.
        by: the row of that record.
    """

    crossings: CrossingBatch
    objects: ObjectBatch
    replaced: ObjectBatch
    by: Ints

    @classmethod
    def nothing(cls) -> "Taken":
        """Return no records."""
        return cls(CrossingBatch.empty(), ObjectBatch.empty(), ObjectBatch.empty(), np.empty(0, np.int64))


class Fences:
    """Continuous range queries over the current states of objects.

    Args:
        index: who finds the queries of a state, one of `operators.indexes.INDEXES`.
        space: where objects are.
        metric: what the radius of a circle means.

    Attributes:
        queries: the queries, by number.
        objects: the states.
    """

    def __init__(self, index: str, space: Rect, metric: Metric) -> None:
        self._space, self._metric = space, metric
        self.queries: RangeIndex = make_range_index(index, space, metric)
        self.objects = ObjectTable(Vocabulary())
        #: Holds the queries that begin or end, while all states are matched with them.
        self._passing: RangeIndex = make_range_index(index, space, metric)
        self._present: NDArray[np.bool_] = np.empty(0, np.bool_)
        self._reports_inside = False

    def insert(self, queries: QueryBatch) -> None:
        """Add registrations."""
        self.queries.insert(queries)
        self._reports_inside |= bool((queries.detect & DETECT_INSIDE).any())

    # --- records ------------------------------------------------------------------------------------------------------

    def update(self, objects: ObjectBatch) -> Taken:
        """Enter records, in the order of the input, and return what each does to the queries that live at its time."""
        before, states = np.full(len(objects), -1, np.int64), [_unnamed(objects)]
        replacing = [np.empty(0, np.int64)]
        rows_so_far = len(objects)
        for rows in Successions.of(objects).rounds():
            part = objects if len(rows) == len(objects) else objects.take(rows)
            slots = self.objects.slots_of(part.ids)
            known = np.flatnonzero(slots >= 0)
            before[rows[known]] = rows_so_far + np.arange(len(known))
            rows_so_far += len(known)
            states.append(self._states(slots[known], part.ts[known]))
            replacing.append(rows[known])
            self._enter(part)
        matches = self.queries.match(ObjectBatch.concat(states))
        row, number, event = compare_rows(matches.off, matches.number, before, self._reports_inside)
        wanted = np.flatnonzero((self.queries.detects(number) >> event) & 1)
        row = row[wanted]
        crossed = CrossingBatch(number[wanted], objects.seq[row], objects.ts[row], objects.ids.take(row), event[wanted])
        return Taken(crossed, objects, states[1], replacing[1])

    def _enter(self, part: ObjectBatch) -> None:
        changes = self.objects.compare(part)
        self.objects.apply(part, changes)
        if self.objects.top > len(self._present):
            held = len(self._present)
            self._present = grown(self._present, 2 * self.objects.top + 64)
            self._present[held:] = False
        self._present[changes.deleted] = False
        self._present[changes.arriving] = True

    def _states(self, slots: Slots, ts: Ints) -> ObjectBatch:
        """Return the current states of objects as records of some times; who they are of is not said."""
        states = self.objects.states(slots)
        return ObjectBatch(
            seq=states.seq, ts=ts, x=states.x, y=states.y, op=np.full(len(slots), OP_UPSERT, np.uint8),
            kw_off=states.kw_off, kw=states.kw, ids=Ids("int", states.seq),
        )  # fmt: skip

    # --- time ---------------------------------------------------------------------------------------------------------

    def begin_and_end(self, begin: Moments, end: Moments, taken: Taken) -> CrossingBatch:
        """Return who is inside of queries when these begin, and enters; and when they end, and exits.

        A moment stands before all records of its time. It may lie among the records that were entered last, so states are those
        of the objects that had none, those that these have replaced, and those of the records, each for its time.
        """
        moments = [(begin, _ENTER, CrossingBatch.BEGINS), (end, _EXIT, CrossingBatch.ENDS)]
        numbers = np.union1d(begin.number, end.number)
        if not len(numbers):
            return CrossingBatch.empty()
        objects = taken.objects
        queries = self.queries.queries(numbers)
        slots = without(self._near(queries), self.objects.slots_of(objects.ids))
        rows = np.flatnonzero(objects.op == OP_UPSERT)
        always = self._states(slots, np.zeros(len(slots), np.int64))
        states = ObjectBatch.concat([always, taken.replaced, _unnamed(objects.take(rows))])
        if not len(states):
            return CrossingBatch.empty()
        ever = len(slots) + len(taken.replaced)
        since = np.append(np.full(ever, -FOREVER), objects.ts[rows])
        until = np.concatenate(
            [np.full(len(slots), FOREVER), objects.ts[taken.by], Successions.of(objects).until[rows]]
        )
        names = Ids.concat([self.objects.ids(slots), objects.ids.take(taken.by), objects.ids.take(rows)])
        pairs = self._inside(queries, replace(states, ts=np.zeros(len(states), np.int64)))
        return CrossingBatch.concat([_crossed(one, *pairs, since, until, names, *what) for one, *what in moments])

    def _near(self, queries: QueryBatch) -> Slots:
        """Return the objects that may be inside of queries."""
        present = self._present[: self.objects.top]
        if len(queries) > FEW:
            return np.flatnonzero(present).astype(np.int32)
        boxes = region_box(queries.region, queries.shape, self._space, self._metric)
        return slots_in_boxes(self.objects.lines, X, Y, present, np.ascontiguousarray(boxes))

    def _inside(self, queries: QueryBatch, states: ObjectBatch) -> tuple[Ints, Ints]:
        """Return the pairs of a state (its row) and a query (its number), whenever either lives."""
        always = np.zeros(len(queries), np.int64), np.full(len(queries), FOREVER)
        self._passing.insert(replace(queries, ts=always[0], end=always[1]))
        matches = self._passing.match(states)
        self._passing.remove(queries.number)
        return matches.object, matches.number

    # --- work and state -----------------------------------------------------------------------------------------------

    @property
    def searched(self) -> int:
        """Candidates that were examined because queries began or ended."""
        return self._passing.cost().candidates

    def reset_cost(self) -> None:
        """Start counting work afresh."""
        self.queries.reset_cost()
        self._passing.reset_cost()

    def snapshot(self) -> dict[str, Any]:
        """Return queries and states."""
        return {"queries": dict(self.queries.snapshot()), "objects": self.objects.snapshot()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over a snapshot."""
        self.queries.restore(state["queries"])
        self.objects.restore(state["objects"])
        self._present = np.zeros(self.objects.top, np.bool_)
        self._present[self.objects.held()] = True
        self._reports_inside = bool((np.asarray(state["queries"]["detect"]) & DETECT_INSIDE).any())


def _unnamed(objects: ObjectBatch) -> ObjectBatch:
    """Return records that are to be matched: texts of identifiers would only be copied."""
    return replace(objects, ids=Ids("int", objects.seq))


def _crossed(
    moments: Moments, row: Ints, number: Ints, since: Ints, until: Ints, names: Ids, event: int, seq: int
) -> CrossingBatch:
    """Return the events of pairs whose state holds at the moment of the query: records of that very time come later."""
    if not len(moments):
        return CrossingBatch.empty()
    place = np.minimum(np.searchsorted(moments.number, number), len(moments) - 1)
    at = moments.at[place]
    happens = np.flatnonzero((moments.number[place] == number) & (since[row] < at) & (at <= until[row]))
    row, count = row[happens], len(happens)
    return CrossingBatch(
        number[happens], np.full(count, seq), at[happens], names.take(row), np.full(count, event, np.uint8)
    )
