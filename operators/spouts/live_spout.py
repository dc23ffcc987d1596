"""The spout of a topology that lives: it follows a journal, to which another process appends what arrives.

The journal's order is that of time: objects and query operations are in one log, and no time goes back, so one spout
delivers both and needs no clock. Each frame says up to which time nothing more is to come (`floor`), which becomes the
watermark; a frame may say only that.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from operators.operator import Emitter, Epoch, Inputs, Spout, State, TaskContext
from operators.redistribution import Division
from operators.spouts.entry_queue import LIVE_STREAMS, EntryQueue
from operators.spouts.journal import unpack_entry
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
    outputs: ClassVar = LIVE_STREAMS
    adjustable: ClassVar = frozenset({"path"})  # a journal may be moved

    path: Path
    dynamic: bool = False

    def check(self, _settings: Any, _component: Any) -> Iterator[tuple[str, str]]:
        """Yield (key, what is wrong) for a journal that is not there."""
        if not self.path.is_dir():
            yield "path", f"{self.path}: no such folder; 'waterspout serve' makes one"

    def open(self, context: TaskContext) -> None:
        """Begin at the start of the journal."""
        self._queue = EntryQueue(context)
        self._reader = LogReader(self.path)

    def next_epoch(self, epoch: Epoch, inputs: Inputs, emit: Emitter) -> bool:
        """Emit what the journal has, as much as an epoch takes."""
        self._queue.emit(self._read, emit)
        return True

    def _read(self) -> None:
        self._queue.entries.extend(unpack_entry(frame) for frame in self._reader.read(READ_BYTES))

    def snapshot(self) -> State:
        """Return where in the journal the next row is."""
        entries = self._queue.entries
        position = entries[0].position if entries else self._reader.position
        return {"position": position, "taken": self._queue.taken, "floor": self._queue.floor}

    def restore(self, state: State) -> None:
        """Go on there."""
        self._reader.seek(state["position"])
        self._queue.entries.clear()
        self._queue.taken, self._queue.floor = state["taken"], state["floor"]

    def close(self) -> None:
        """Close the journal."""
        self._reader.close()

    @classmethod
    def redistribute(cls, states: Sequence[State], division: Division) -> list[State]:
        """There is one task only."""
        return list(states)
