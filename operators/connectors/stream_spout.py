"""The spout of a stream of messages, whatever server it comes from: objects and query operations, in the stream's order.

How far it has read is part of its state, with what was read and not emitted; so a run that goes on from a checkpoint goes on
behind it. The server is sent an acknowledgement when a checkpoint covers a message, and no sooner; without checkpoints, when
the epoch of the message is complete.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from operators.connectors.messages import ConnectionLostError, Position, Source
from operators.connectors.reader import Reader
from operators.connectors.records import Records, TimeOf
from operators.operator import Emitter, Epoch, Inputs, Spout, State, TaskContext
from operators.redistribution import Division
from operators.spouts.entry_queue import LIVE_STREAMS, EntryQueue
from operators.spouts.journal import JournalEntry
from streams.errors import DeclarationError

__all__ = ["StreamSpout"]

#: What is kept of an entry that was read and not wholly emitted.
_KEPT = ("floor", "seq", "number", "object_time", "objects", "queries", "rejects", "words")


@dataclass(kw_only=True)
class StreamSpout(Spout):
    """Delivers objects and query operations of a stream.

    Options:
        objects: where objects come from: lines of an objects file, one or more in a message.
        queries: where query operations come from.
        time: ``given``: records bring their time; ``arrival``: those that have none get that of their message.
        dynamic: the records are states of objects, which a later record may replace or delete.
        prefetch: so many messages are read ahead, and
        prefetch_bytes: so many bytes.
        reconnect_seconds: the server may be gone for so long before the run ends.
        end_after: the input has ended when nothing has come for so many seconds; without, it never ends.
    """

    timed = True
    single: ClassVar = True
    single_because: ClassVar = "reads one stream in order"
    addressed: ClassVar = frozenset()
    revives: ClassVar = True  # a run that is resumed goes on with what has come since its end
    outputs: ClassVar = LIVE_STREAMS

    adjustable: ClassVar = frozenset(
        "url servers credentials settings prefetch prefetch_bytes reconnect_seconds end_after in_flight session_lost".split()
    )

    #: Which option says where the server is.
    address_key: ClassVar = "url"

    objects: str | None = None
    queries: str | None = None
    time: TimeOf = "given"
    dynamic: bool = False
    prefetch: int = 10_000
    prefetch_bytes: int = 64 << 20
    reconnect_seconds: float = 60.0
    end_after: float | None = None

    def __post_init__(self) -> None:
        if not self.objects and not self.queries:
            raise DeclarationError("neither 'objects' nor 'queries' is given, so there is nothing to read")
        if self.objects == self.queries:
            raise DeclarationError("is where objects come from; give query operations one of their own", ("queries",))
        for key, least in (("prefetch", 1), ("prefetch_bytes", 1), ("reconnect_seconds", 0), ("end_after", 0)):
            found = getattr(self, key)
            if found is not None and not found >= least:
                raise DeclarationError(f"found {found}, expected {least} or more", (key,))
        self.where()

    def where(self) -> str:
        """Return what errors and rejects call the stream: its address, without secrets."""
        raise NotImplementedError

    def source(self) -> Source:
        """Return a source of messages that is not connected yet."""
        raise NotImplementedError

    def open(self, context: TaskContext) -> None:
        """Start without a connection: a spout that goes on from a checkpoint must know from where."""
        if context.injections:
            raise DeclarationError(
                f"hotspots are put into files, and '{context.component}' reads a stream; leave [[inject]] out",
                ("inject",),
            )
        self._context = context
        self._queue = EntryQueue(context)
        self._records = Records(context, self.where(), self.time, self.dynamic)
        self._reader: Reader | None = None
        self._restored: State | None = None
        self._epoch = -1
        self._cuts: deque[tuple[int, Position]] = deque()
        self._reconnects = 0

    def _connected(self) -> Reader:
        if self._reader is None:
            reader = Reader(
                self.source(),
                self.where(),
                prefetch=self.prefetch,
                prefetch_bytes=self.prefetch_bytes,
                reconnect_seconds=self.reconnect_seconds,
            )
            restored = self._restored or {"read_to": None, "memory": None}
            try:
                reader.start(restored["read_to"], restored["memory"], patient=self._restored is not None)
            except ConnectionLostError as error:
                raise DeclarationError(
                    f"{self.where()} cannot be reached: {error}; start the server, or mend the address",
                    ("spout", self._context.component, self.address_key),
                ) from None
            self._reader, self._restored = reader, None
        return self._reader

    def next_epoch(self, epoch: Epoch, inputs: Inputs, emit: Emitter) -> bool:
        """Emit what has come, as much as an epoch takes."""
        reader = self._connected()
        self._queue.emit(self._read, emit)
        self._epoch = epoch.number
        more = self._go_on(reader, emit)
        if not self._context.checkpoints:
            self._cuts.append((self._epoch, dict(reader.position)))
        if new := reader.reconnects - self._reconnects:
            self._reconnects += new
            self._context.count("reconnects", new)
        return more

    def _read(self) -> None:
        self._queue.entries.extend(self._records.entries(self._connected().take(self._context.epoch_objects)))

    def _go_on(self, reader: Reader, emit: Emitter) -> bool:
        """Let time go by where nothing comes, and tell whether anything may."""
        if self._queue.entries or (quiet := reader.idle_seconds) <= 0:
            return True
        ended = self.end_after is not None and quiet >= self.end_after
        entry = self._records.ending() if ended else self._records.passing(int(quiet * 1e3))
        if entry is not None:
            self._queue.floor = emit.watermark = entry.floor
        return not ended

    # --- acknowledgements and state --------------------------------------------------------------------------------

    def ack(self, epoch: int) -> None:
        """Without checkpoints, what an epoch has brought is done with."""
        if not self._context.checkpoints:
            self._acknowledge(epoch)

    def saved(self, epoch: int) -> None:
        """What a checkpoint covers is never needed again."""
        self._acknowledge(epoch)

    def _acknowledge(self, epoch: int) -> None:
        known = None
        while self._cuts and self._cuts[0][0] <= epoch:
            at, position = self._cuts.popleft()
            known = position if at == epoch or not self._context.checkpoints else known
        if known is not None and self._reader is not None:
            self._reader.acknowledge(known)

    def snapshot(self) -> State:
        """Return how far the stream was read, what was read and not emitted, and what records are judged by."""
        reader = self._connected()
        if self._context.checkpoints:
            self._cuts.append((self._epoch, dict(reader.position)))
        return {
            "read_to": dict(reader.position),
            "memory": reader.memory(),
            "records": self._records.snapshot(),
            "entries": [[getattr(entry, name) for name in _KEPT] for entry in self._queue.entries],
            "taken": self._queue.taken,
            "floor": self._queue.floor,
            "epoch": self._epoch,
        }

    def restore(self, state: State) -> None:
        """Go on there, at the first epoch."""
        self._restored = state
        self._records.restore(state["records"])
        self._queue.entries.clear()
        for kept in state["entries"]:
            self._queue.entries.append(JournalEntry(**dict(zip(_KEPT, kept, strict=True))))
        self._queue.taken, self._queue.floor, self._epoch = state["taken"], state["floor"], state["epoch"]

    def close(self) -> None:
        """End the thread and the connection."""
        if self._reader is not None:
            self._reader.close()

    @classmethod
    def redistribute(cls, states: Sequence[State], division: Division) -> list[State]:
        """There is one task only."""
        return list(states)
