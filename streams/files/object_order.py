"""Objects in the order of time, from an input in which some come late.

An object is accepted if it is at most `lateness_ms` older than the newest one accepted before it, and it is passed on when
that is certain for all others: in the order of time, equal times in input order. What is accepted depends on the records
alone, never on how they are cut into chunks, so whoever reads an input reads the same.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streams.batches import ObjectBatch
from streams.columns import Ints
from streams.files.object_columns import ObjectColumns
from streams.files.order_kernels import COUNT, FLOOR, NEVER, TOP, judge_times
from streams.files.read_limits import DEFAULT_LIMITS

__all__ = ["ObjectOrder", "merged_orders"]

Flags = NDArray[np.bool_]


class ObjectOrder:
    """A bounded buffer between a reader and whoever needs objects in the order of time.

    In the buffer, and in states, `seq` is the number of an object's record; an object gets its place when it is passed on.
    """

    def __init__(
        self, lateness_ms: int = 0, most: int = DEFAULT_LIMITS.reordered, watermark: int | None = None
    ) -> None:
        """Take how late an object may be, how many may wait, and the largest time that was accepted already."""
        self.lateness_ms, self._most = lateness_ms, most
        start = NEVER if watermark is None else watermark
        self._cursor = np.array([start, NEVER if watermark is None else start - lateness_ms, 0], np.int64)
        # Without lateness the floor is the newest time, and the ring never matters.
        self._tops = np.empty(most if lateness_ms else 1, np.int64)
        self._runs: list[tuple[ObjectBatch, Flags]] = []  # each in order of time, in the order in which they came
        self._ready: tuple[ObjectBatch, Flags] = (ObjectBatch.empty(), np.empty(0, np.bool_))

    def judge(self, columns: ObjectColumns) -> None:
        """Note the objects of a block that come too late."""
        rows = len(columns)
        late, before = np.zeros(rows, np.bool_), np.zeros(rows, np.int64)
        bad = columns.objections.bad
        judge_times(columns.ts, bad, self.lateness_ms, self._cursor, self._tops, late, before)
        why = "which came before; expected non-decreasing ts, or a lateness_ms of the spout that allows for it"
        if self.lateness_ms:
            why = f"up to which objects were passed on; lateness_ms is {self.lateness_ms}"

        def reasons(rows: Ints) -> list[str]:
            times = zip(columns.ts[rows].tolist(), before[rows].tolist(), strict=True)
            return [f"ts {ts} is older than {newest}, {why}" for ts, newest in times]

        columns.objections.note_many(late, reasons)

    def add(self, batch: ObjectBatch, mine: Flags) -> None:
        """Take the accepted objects of a chunk, in input order."""
        if len(batch) == 0:
            return
        ts = batch.ts
        if (ts[1:] < ts[:-1]).any():
            order = np.argsort(ts, kind="stable")
            batch, mine = batch.take(order), mine[order]
        self._runs.append((batch, mine))

    def next(self, rows: int, *, ended: bool = False) -> tuple[ObjectBatch, Flags]:
        """Remove and return the next objects, at most so many, whose order is certain; all others if the input has ended."""
        if not len(self._ready[0]):
            self._ready = self._certain(ended)
        batch, mine = self._ready
        self._ready = batch.slice(rows, len(batch)), mine[rows:]
        return batch.slice(0, rows), mine[:rows]

    def _certain(self, ended: bool) -> tuple[ObjectBatch, Flags]:
        floor = int(self._cursor[FLOOR])
        found, left = [], []
        for batch, mine in self._runs:
            stop = len(batch) if ended else int(np.searchsorted(batch.ts, floor, side="right"))
            if stop:
                found.append((batch.slice(0, stop), mine[:stop]))
            if stop < len(batch):
                left.append((batch.slice(stop, len(batch)), mine[stop:]))
        self._runs = left
        return _in_order(found)

    @property
    def certain(self) -> bool:
        """Whether there are objects left to pass on of those whose order is certain."""
        return len(self._ready[0]) > 0

    @property
    def waiting(self) -> int:
        """Return how many objects are in the buffer."""
        return len(self._ready[0]) + sum(len(batch) for batch, _ in self._runs)

    def snapshot(self) -> dict[str, Any]:
        """Return what waits, and what later objects are judged by."""
        batch, mine = _in_order([self._ready, *self._runs])
        return {"cursor": self._cursor.copy(), "tops": self._remembered(), "rows": batch, "mine": mine}

    def _remembered(self) -> Ints:
        """Return the ring from its oldest entry on, without those that cannot raise the floor any more."""
        if not self.lateness_ms:
            return np.empty(0, np.int64)
        count, room = int(self._cursor[COUNT]), len(self._tops)
        held = self._tops[np.arange(max(count - room, 0), count) % room]
        return np.asarray(held[np.searchsorted(held, self._cursor[FLOOR], side="right") :])

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over a snapshot; where fewer may wait now, the oldest are passed on earlier from here on."""
        self._cursor = np.array(state["cursor"], np.int64)
        if self.lateness_ms:
            held, room = state["tops"][-len(self._tops) :], len(self._tops)
            count = int(self._cursor[COUNT])
            self._tops[:] = NEVER  # what is not remembered raises nothing
            self._tops[np.arange(count - len(held), count) % room] = held
        self._runs = [(state["rows"], np.asarray(state["mine"], np.bool_))] if len(state["rows"]) else []
        self._ready = self._certain(ended=False)

    @property
    def watermark(self) -> int | None:
        """Return the largest time accepted, None before the first."""
        return None if self._cursor[TOP] == NEVER else int(self._cursor[TOP])


def _in_order(parts: Sequence[tuple[ObjectBatch, Flags]]) -> tuple[ObjectBatch, Flags]:
    """Put parts, each in the order of time, together in the order of time; of equal times, earlier parts go first."""
    parts = [part for part in parts if len(part[0])]
    if not parts:
        return ObjectBatch.empty(), np.empty(0, np.bool_)
    batch, mine = ObjectBatch.concat([part for part, _ in parts]), np.concatenate([flags for _, flags in parts])
    if len(parts) > 1 and (batch.ts[1:] < batch.ts[:-1]).any():
        order = np.argsort(batch.ts, kind="stable")
        batch, mine = batch.take(order), mine[order]
    return batch, mine


def merged_orders(states: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Put together what waits at the readers of one input, each with the keywords of its own rows only."""
    rows = ObjectBatch.concat([state["rows"].take(np.flatnonzero(state["mine"])) for state in states])
    whole = rows.take(np.lexsort((rows.seq, rows.ts)))
    return {**states[0], "rows": whole, "mine": np.ones(len(whole), np.bool_)}
