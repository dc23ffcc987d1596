"""The spout of a topology that lives: it follows a journal, to which another process appends what arrives.

The journal's order is that of time: objects and query operations are in one log, and no time goes back, so one spout
delivers both and needs no clock. Each frame says up to which time nothing more is to come (`floor`), which becomes the
watermark; a frame may say only that.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from operators.operator import Emitter, Epoch, Inputs, Spout, State, TaskContext
from operators.redistribution import Division
from operators.spouts.journal import JournalEntry, unpack_entry
from streams.batches import OP_REGISTER, ObjectBatch, QueryBatch, RejectBatch, TupleBatch, batch_fields
from streams.reject_reasons import REASON, reason_counts
from streams.segment_log import LogReader

__all__ = ["LiveSpout"]

#: About so many bytes of the journal are read at a time.
READ_BYTES = 4 << 20


@dataclass
class LiveSpout(Spout):
    """Delivers objects and query operations of a journal, as they are appended.

    An epoch takes what is there, up to the topology's limits for an epoch; where nothing is, it is empty.

    Options:
        path: the folder of the journal.
        dynamic: the records are states of objects, which a later record may replace or delete.
    """

    timed = True
    single: ClassVar = True
    single_because: ClassVar = "follows one journal"
    addressed: ClassVar = frozenset()
    outputs: ClassVar = {
        "objects": batch_fields(ObjectBatch),
        "queries": batch_fields(QueryBatch),
        "rejects": batch_fields(RejectBatch),
        "words": ("id", "word"),
        "names": ("number", "id", "end"),
    }

    path: Path
    dynamic: bool = False

    def check(self, _settings: Any, _component: Any) -> Iterator[tuple[str, str]]:
        """Yield (key, what is wrong) for a journal that is not there."""
        if not self.path.is_dir():
            yield "path", f"{self.path}: no such folder; 'waterspout serve' makes one"

    def open(self, context: TaskContext) -> None:
        """Begin at the start of the journal."""
        self._context = context
        self._named = bool(context.targets.get("names"))
        self._wants_words = bool(context.targets.get("words"))
        self._reader = LogReader(self.path)
        self._entries: deque[JournalEntry] = deque()
        self._taken = 0
        self._floor: int | None = None

    def next_epoch(self, epoch: Epoch, inputs: Inputs, emit: Emitter) -> bool:
        """Emit what the journal has, as much as an epoch takes."""
        objects, queries = self._context.epoch_objects, self._context.epoch_queries
        until = None
        taken: tuple[list[ObjectBatch], list[QueryBatch]] = ([], [])
        while (entry := self._first()) is not None:
            rows = objects if len(entry.objects) else queries
            if rows == 0:
                break
            ts = entry.ts[self._taken : self._taken + rows]
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
            if self._taken < len(entry.ts):
                break
        if taken[0]:
            emit.batch(ObjectBatch.concat(taken[0]), "objects")
        if taken[1]:
            operations = QueryBatch.concat(taken[1])
            emit.batch(operations, "queries")
            if self._named:
                columns = (operations.target, operations.ids, operations.end)
                emit.batch(TupleBatch(("number", "id", "end"), columns), "names")
        emit.watermark = self._floor
        return True

    def _first(self) -> JournalEntry | None:
        if not self._entries:
            self._entries.extend(unpack_entry(frame) for frame in self._reader.read(READ_BYTES))
        return self._entries[0] if self._entries else None

    def _take(
        self, entry: JournalEntry, rows: int, taken: tuple[list[ObjectBatch], list[QueryBatch]], emit: Emitter
    ) -> None:
        """Take rows of an entry, and emit what comes with it before the first of them."""
        if self._taken == 0:
            self._emit_beside(entry, emit)
        start, stop = self._taken, self._taken + rows
        if len(entry.objects):
            self._context.count("objects", rows)
            taken[0].append(entry.objects.slice(start, stop))
        elif rows:
            part = entry.queries.slice(start, stop)
            self._context.count("queries", int(np.count_nonzero(part.op == OP_REGISTER)))
            taken[1].append(part)
        if stop < len(entry.ts):
            self._taken, self._floor = stop, int(entry.ts[stop])
        else:
            self._taken, self._floor = 0, entry.floor
            self._entries.popleft()

    def _emit_beside(self, entry: JournalEntry, emit: Emitter) -> None:
        if self._wants_words and len(entry.words):
            emit.batch(entry.words, "words")
        if rejected := len(entry.rejects):
            self._context.count("rejected", rejected)
            self._context.count("objects_rejected" if not len(entry.queries) else "queries_rejected", rejected)
            for reason, count in reason_counts(entry.rejects).items():
                self._context.count(f"{REASON}{reason}", count)
            emit.batch(entry.rejects, "rejects")

    def snapshot(self) -> State:
        """Return where in the journal the next row is."""
        position = self._entries[0].position if self._entries else self._reader.position
        return {"position": position, "taken": self._taken, "floor": self._floor}

    def restore(self, state: State) -> None:
        """Go on there."""
        self._reader.seek(state["position"])
        self._entries.clear()
        self._taken, self._floor = state["taken"], state["floor"]

    def close(self) -> None:
        """Close the journal."""
        self._reader.close()

    @classmethod
    def redistribute(cls, states: Sequence[State], division: Division) -> list[State]:
        """There is one task only."""
        return list(states)
