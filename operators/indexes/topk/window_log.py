"""The messages of a sliding window as they came: who they are, when they came, and which of them the window still holds.

Messages are kept in chunks. A chunk that is full never changes again, so checkpoints write it once; it goes when all of its
messages have left the window.
"""

from hashlib import blake2b
from typing import Any

import numpy as np

from streams.batches import OP_UPSERT, ObjectBatch
from streams.columns import Ids, Ints
from streams.kernel import lean_kernel
from streams.state import Part
from streams.window import Window

__all__ = ["WindowLog"]

#: Messages of a chunk: a look-up goes through all chunks, a checkpoint writes what is in no full one again.
CHUNK = 1 << 16


@lean_kernel
def _names_of(seq: Ints, first: int, names: Ints, out: Ints) -> None:
    """Copy the names of messages: there are as many as all changed lists have, and one look at each is enough."""
    for i in range(seq.shape[0]):
        out[i] = names[np.uint64(seq[i] - first)]


class WindowLog:
    """The messages of a window, by their place in the input.

    Tasks that keep other messages of the same stream give their logs other names.

    Attributes:
        stop: one more than the `seq` of the newest object seen, messages and others.
    """

    def __init__(self, window: Window, name: str = "messages") -> None:
        self._window, self._name = window, name
        self._full: list[ObjectBatch] = []
        self._tail: list[ObjectBatch] = []
        self.stop = 0
        self._joined: tuple[tuple[int, int], Ids] | None = None

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        names = ("seq", "ts", "x", "y", "op", "kw_off", "kw")
        columns = sum(int(getattr(part, name).nbytes) for part in self._parts() for name in names)
        return columns + sum(int(part.ids.values.nbytes) for part in self._parts())

    def _parts(self) -> list[ObjectBatch]:
        return [*self._full, *self._tail]

    def append(self, objects: ObjectBatch) -> ObjectBatch:
        """Take in objects, in the order of the input; return the messages among them: a deletion is none."""
        if not len(objects):
            return objects
        self.stop = int(objects.seq[-1]) + 1
        present = objects.op == OP_UPSERT
        if not present.all():
            objects = objects.take(np.flatnonzero(present))
        if len(objects):
            self._keep(objects)
        return objects

    def _keep(self, messages: ObjectBatch) -> None:
        tail = [*self._tail, messages]
        if sum(map(len, tail)) >= CHUNK:
            whole = ObjectBatch.concat(tail)
            full = len(whole) // CHUNK * CHUNK
            self._full += [whole.slice(start, start + CHUNK) for start in range(0, full, CHUNK)]
            tail = [whole.slice(full, len(whole))] if full < len(whole) else []
        while len(tail) > 1 and len(tail[-2]) < 2 * len(
            tail[-1]
        ):  # parts that halve in size: little is copied, few are there
            tail[-2:] = [ObjectBatch.concat(tail[-2:])]
        self._tail = tail

    def first(self, now: int, stop: int | None = None) -> int:
        """Return the `seq` of the oldest message in the window when all objects before `stop` have come and it is `now`."""
        stop = self.stop if stop is None else stop
        if self._window.objects is not None:
            return max(stop - self._window.objects, 0)
        assert self._window.ms is not None
        oldest = now - self._window.ms
        for part in self._parts():
            if part.ts[-1] > oldest:
                return min(int(part.seq[np.searchsorted(part.ts, oldest, side="right")]), stop)
        return stop

    def stop_at(self, end: int) -> int:
        """Return one more than the `seq` of the last message before a time; 0 where there is none."""
        for part in reversed(self._parts()):
            if part.ts[0] < end:
                return int(part.seq[np.searchsorted(part.ts, end, side="left") - 1]) + 1
        return 0

    def drop(self, first: int) -> None:
        """Forget chunks whose messages all have ``seq < first``."""
        for parts in (self._full, self._tail):
            while parts and parts[0].seq[-1] < first:
                parts.pop(0)
                self._joined = None

    def messages(self) -> list[ObjectBatch]:
        """Return the messages kept, in order; the oldest may have left the window."""
        return self._parts()

    def ids(self, seq: Ints) -> Ids:
        """Return the identifiers of messages that are kept."""
        parts = self._parts()
        if not len(seq) or not parts:
            return Ids("int", np.empty(0, np.int64))
        first, names = int(parts[0].seq[0]), self._names(parts)
        if int(parts[-1].seq[-1]) - first + 1 != len(names):  # some objects are no messages
            return names.take(np.searchsorted(np.concatenate([part.seq for part in parts]), seq))
        if names.kind != "int":
            return names.take(seq - first)
        out = np.empty(len(seq), np.int64)
        _names_of(seq, first, names.values, out)
        return Ids("int", out)

    def _names(self, parts: list[ObjectBatch]) -> Ids:
        """Return the identifiers of all that is kept; they are put together once for each change of the window."""
        if self._joined is None or self._joined[0] != (self.stop, len(parts)):
            self._joined = ((self.stop, len(parts)), Ids.concat([part.ids for part in parts]))
        return self._joined[1]

    # --- state -------------------------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """Return the messages; full chunks are parts, which are written once."""
        full = [Part.of(f"{self._name}-{_digest(part)}", part) for part in self._full]
        return {"full": full, "tail": ObjectBatch.concat([ObjectBatch.empty(), *self._tail]), "stop": self.stop}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a snapshot."""
        self._full = [part.value for part in state["full"]]
        self._tail = [state["tail"]] if len(state["tail"]) else []
        self.stop, self._joined = state["stop"], None


def _digest(part: ObjectBatch) -> str:
    """Return a name for what is in a chunk: which messages a task keeps may be others when a run goes on."""
    return blake2b(np.ascontiguousarray(part.seq).data, digest_size=12).hexdigest()
