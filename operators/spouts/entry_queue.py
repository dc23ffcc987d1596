"""Entries of a journal on their way into epochs: rows in order, as many as an epoch takes, with the watermark behind them."""

from collections import deque
from collections.abc import Callable

import numpy as np

from operators.operator import Emitter, TaskContext
from operators.spouts.journal import JournalEntry
from streams.batches import OP_REGISTER, ObjectBatch, QueryBatch, RejectBatch, TupleBatch, batch_fields
from streams.reject_reasons import REASON, reason_counts

__all__ = ["LIVE_STREAMS", "EntryQueue"]

#: What a spout emits that delivers objects and query operations alike.
LIVE_STREAMS = {
    "objects": batch_fields(ObjectBatch),
    "queries": batch_fields(QueryBatch),
    "rejects": batch_fields(RejectBatch),
    "words": ("id", "word"),
    "names": ("number", "id", "end"),
    "rebalance": ("ts",),
}


class EntryQueue:
    """Entries that were read and not wholly emitted.

    Attributes:
        entries: these; of the first one, rows may be gone.
        taken: so many.
        floor: no record with a smaller time comes behind what was emitted; None before the first.
    """

    def __init__(self, context: TaskContext) -> None:
        self._context = context
        self._named = bool(context.targets.get("names"))
        self._wants_words = bool(context.targets.get("words"))
        self.entries: deque[JournalEntry] = deque()
        self.taken = 0
        self.floor: int | None = None

    def emit(self, refill: Callable[[], object], emit: Emitter) -> None:
        """Emit what an epoch takes; `refill` is called where there are no entries, and adds some if it can."""
        objects, queries = self._context.epoch_objects, self._context.epoch_queries
        until = None
        taken: tuple[list[ObjectBatch], list[QueryBatch]] = ([], [])
        while (entry := self._first(refill)) is not None:
            rows = objects if len(entry.objects) else queries
            if rows == 0:
                break
            ts = entry.ts[self.taken : self.taken + rows]
            if len(ts) and self._context.epoch_ms is not None:
                until = int(ts[0]) + self._context.epoch_ms if until is None else until
                ts = ts[: int(np.searchsorted(ts, until, side="left"))]
                if not len(ts):
                    break
            self._take(entry, len(ts), taken, emit)
            if len(entry.objects):
                objects -= len(ts)
            else:
                queries -= len(ts)
            if self.taken:
                break
        if taken[0]:
            emit.batch(ObjectBatch.concat(taken[0]), "objects")
        if taken[1]:
            operations = QueryBatch.concat(taken[1])
            emit.batch(operations, "queries")
            if self._named:
                columns = (operations.target, operations.ids, operations.end)
                emit.batch(TupleBatch(LIVE_STREAMS["names"], columns), "names")
        emit.watermark = self.floor

    def _first(self, refill: Callable[[], object]) -> JournalEntry | None:
        if not self.entries:
            refill()
        return self.entries[0] if self.entries else None

    def _take(
        self, entry: JournalEntry, rows: int, taken: tuple[list[ObjectBatch], list[QueryBatch]], emit: Emitter
    ) -> None:
        """Take rows of an entry, and emit what comes with it before the first of them."""
        if self.taken == 0:
            self._emit_beside(entry, emit)
        start, stop = self.taken, self.taken + rows
        if len(entry.objects):
            self._context.count("objects", rows)
            taken[0].append(entry.objects.slice(start, stop))
        elif rows:
            part = entry.queries.slice(start, stop)
            self._context.count("queries", int(np.count_nonzero(part.op == OP_REGISTER)))
            taken[1].append(part)
        if stop < len(entry.ts):
            self.taken, self.floor = stop, int(entry.ts[stop])
        else:
            self.taken, self.floor = 0, entry.floor
            self.entries.popleft()

    def _emit_beside(self, entry: JournalEntry, emit: Emitter) -> None:
        if entry.about == "rebalance":
            emit.batch(TupleBatch.of(LIVE_STREAMS["rebalance"], [(entry.floor,)]), "rebalance")
        if self._wants_words and len(entry.words):
            emit.batch(entry.words, "words")
        if rejected := len(entry.rejects):
            self._context.count("rejected", rejected)
            about = entry.about or ("queries" if len(entry.queries) else "objects")
            self._context.count(f"{about}_rejected", rejected)
            for reason, count in reason_counts(entry.rejects).items():
                self._context.count(f"{REASON}{reason}", count)
            emit.batch(entry.rejects, "rejects")
