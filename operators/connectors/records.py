"""Messages as entries of a journal: judged as records of files are, each with its place in time. No I/O, no clock.

The order of messages is that of time. An object is never older than what came before it, and an operation that comes behind an
object takes effect after that object's time: operations of a time are before its objects. What comes too late is rejected.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from operators.connectors.messages import Kind, Received
from operators.operator import TaskContext
from operators.spouts.journal import NO_WORDS, JournalEntry
from streams.batches import QueryBatch, RejectBatch, TupleBatch
from streams.columns import Ids, Ints
from streams.files.file_blocks import cut_records_of
from streams.files.object_bodies import STAMPED_FORM, read_object_body
from streams.files.object_form import PLAIN_FORM
from streams.files.open_queries import OpenQueries
from streams.files.query_columns import json_queries
from streams.files.query_files import QueryGate
from streams.files.query_records import QueryRules
from streams.vocabulary import Encoder

__all__ = ["Records", "TimeOf"]

#: Whether records bring their time, or get that of the message where they have none.
TimeOf = Literal["given", "arrival"]

#: So long after a message that was stamped nothing can come any more with the same stamp.
SETTLED_MS = 50

#: The floor before the first record.
NEVER = int(np.iinfo(np.int64).min)


class Records:
    """Judges messages one after the other.

    Attributes:
        floor: no record with a smaller time is accepted; None before the first.
        seq: the number of the next object.
        number: that of the next query operation.
    """

    def __init__(self, context: TaskContext, source: str, time: TimeOf, dynamic: bool) -> None:
        self._context, self._source, self._time, self._dynamic = context, source, time, dynamic
        self._tracks_words = bool(context.targets.get("words"))
        self._encoder = Encoder(context.word_statistics, track_words=self._tracks_words, remember=context.limits.words)
        self._rules = QueryRules(context.space, context.metric, context.limits.keywords, context.limits.id_bytes)
        self._open = OpenQueries(context.limits.live_queries)
        self.floor: int | None = None
        self.seq = self.number = 0
        self._object_time: int | None = None
        self._newest: int | None = None  # the stamp that the newest record got, if it has no time of its own

    def entries(self, messages: Sequence[Received]) -> Iterator[JournalEntry]:
        """Yield an entry for each stretch of messages of one kind."""
        for kind, alike in groupby(messages, lambda message: message.kind):
            stretch = list(alike)
            if (entry := self._entry_of(kind, stretch)) is not None:
                yield entry

    def _entry_of(self, kind: Kind, messages: list[Received]) -> JournalEntry | None:
        data = b"\n".join(message.payload for message in messages)
        lines = np.array([message.payload.count(b"\n") + 1 for message in messages], np.int64)
        stamps = np.repeat(np.array([message.stamp for message in messages], np.int64), lines)
        parts = self._objects(data, stamps) if kind == "objects" else self._operations(data, stamps)
        rejects = self._placed(RejectBatch.concat([*_faults(messages, lines), parts.pop("rejects")]), messages, lines)
        if not len(rejects) and not any(map(len, parts.values())):
            return None
        words = self._encoder.new_words() if self._tracks_words else []
        named = TupleBatch.of(("id", "word"), words) if words else NO_WORDS
        floor = NEVER if self.floor is None else self.floor
        return JournalEntry(floor, self.seq, self.number, self._object_time, rejects=rejects, words=named, **parts)

    def _placed(self, rejects: RejectBatch, messages: Sequence[Received], lines: Ints) -> RejectBatch:
        """Say of each reject in which message it is, and on which line of that."""
        if not len(rejects):
            return rejects
        ends = np.cumsum(lines)
        place = np.searchsorted(ends, rejects.line, side="left")
        named = [f"{self._source} {messages[i].part} {messages[i].at}" for i in place.tolist()]
        return RejectBatch(
            Ids("text", pa.array(named, pa.string())), rejects.line - (ends - lines)[place], rejects.reason
        )

    # --- objects and operations ------------------------------------------------------------------------------------

    def _objects(self, data: bytes, stamps: Ints) -> dict[str, Any]:
        body = read_object_body(
            data,
            source=self._source,
            space=self._context.space,
            encoder=self._encoder,
            arrival=stamps,
            watermark=self.floor,
            first=self.seq,
            dynamic=self._dynamic,
            words=len(self._encoder.vocabulary),
            limits=self._context.limits,
            form=STAMPED_FORM if self._time == "arrival" else PLAIN_FORM,
        )
        if len(body.batch):
            self.seq += len(body.batch)
            self.floor = self._object_time = int(body.batch.ts[-1])
            self._newest = None if body.last_given else self.floor
        return {"objects": body.batch, "rejects": body.rejects}

    def _operations(self, data: bytes, stamps: Ints) -> dict[str, Any]:
        limits = self._context.limits
        after = self.floor
        if after is not None and self._object_time is not None:
            after = max(after, self._object_time + 1)
        stamped = False
        if self._time == "arrival":
            data, stamped = _stamped(data, stamps, after)
        gate = QueryGate(self._open, self._context.answers or None, self._context.kept_ms, after)
        batches, rejects = [QueryBatch.empty()], [RejectBatch.empty()]
        for block in cut_records_of(data, limits=limits):
            read = json_queries(block, self._rules, self._encoder, limits.line_bytes)
            batches.append(gate.admit(read.batch, read.objections, self.number))
            self.number += len(block)
            refused = sorted(read.objections.reasons)
            reasons = [read.objections.reasons[row] for row in refused]
            rejects.append(RejectBatch.of(self._source, block.line[refused].tolist(), reasons))
        batch = QueryBatch.concat(batches)
        if len(batch):
            self.floor = int(batch.ts[-1])
            self._newest = self.floor if stamped else None
        return {"queries": batch, "rejects": RejectBatch.concat(rejects)}

    # --- time that goes by -----------------------------------------------------------------------------------------

    def passing(self, quiet_ms: int) -> JournalEntry | None:
        """Return the entry that says how late it is, when nothing has come for a while; None where that is not known.

        By the server's own clock: its time is at least that of the newest stamp and what has gone by since. Where records
        bring their own times, only they say how late it is.
        """
        if self._newest is None or quiet_ms < SETTLED_MS or self.floor is None:
            return None
        return self._until(max(self._newest + 1, self._newest + quiet_ms - SETTLED_MS))

    def ending(self) -> JournalEntry | None:
        """Return the entry that closes the newest time, because nothing comes any more."""
        return None if self.floor is None else self._until(self.floor + 1)

    def _until(self, floor: int) -> JournalEntry | None:
        if self.floor is not None and floor <= self.floor:
            return None
        self.floor = floor
        return JournalEntry(floor, self.seq, self.number, self._object_time)

    # --- state -----------------------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """Return what the next message is judged by."""
        return {
            "floor": self.floor,
            "seq": self.seq,
            "number": self.number,
            "object_time": self._object_time,
            "newest": self._newest,
            "open": self._open.snapshot(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over a snapshot."""
        self.floor, self.seq, self.number = state["floor"], state["seq"], state["number"]
        self._object_time, self._newest = state["object_time"], state["newest"]
        self._open.restore(state["open"])


def _faults(messages: Sequence[Received], lines: Ints) -> list[RejectBatch]:
    """Return the messages that cannot be used at all, by their first lines."""
    found = [
        (line, m.fault) for m, line in zip(messages, (np.cumsum(lines) - lines + 1).tolist(), strict=True) if m.fault
    ]
    return [RejectBatch.of("", [line for line, _ in found], [fault for _, fault in found])] if found else []


def _stamped(data: bytes, stamps: Ints, after: int | None) -> tuple[bytes, bool]:
    """Give operations without a time that of their message, or that of what came before; return whether the last one got it."""
    lines = data.split(b"\n")
    last = False
    for place, (line, stamp) in enumerate(zip(lines, stamps.tolist(), strict=True)):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue  # the reader says what is wrong with it
        if not isinstance(record, dict):
            continue
        if last := record.get("ts") is None:
            after = stamp if after is None else max(stamp, after)
            lines[place] = json.dumps({**record, "ts": after}).encode()
        elif type(record["ts"]) is int:
            after = record["ts"] if after is None else max(record["ts"], after)
    return b"\n".join(lines), last
