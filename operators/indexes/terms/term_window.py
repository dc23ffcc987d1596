"""The objects that an index of frequent terms counts, as they came: a row for each, and the way from a time to a row."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from operators.indexes.core.growth import grown
from operators.indexes.topk.window_log import WindowLog
from streams.batches import ObjectBatch
from streams.columns import Ids
from streams.errors import InputError
from streams.window import Window

__all__ = ["TermWindow"]

Ints = NDArray[np.int64]


class TermWindow:
    """Rows `first` to `stop` of all objects that were taken, in the order of the input.

    How long an object is kept is the owner's business. Indexes that keep other objects of the same stream give their
    windows other names.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self.clear()

    def clear(self) -> None:
        """Forget all objects, and start with row 0."""
        self._log = WindowLog(Window(ms=1), self._name)
        self.first = self.stop = 0
        self._base = 0
        self._ts: Ints = np.empty(0, np.int64)

    def __len__(self) -> int:
        return self.stop - self.first

    @property
    def last(self) -> int:
        """The `seq` of the newest object seen, -1 before the first."""
        return self._log.stop - 1

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        return self._log.nbytes + 8 * (self.stop - self._base)

    def append(self, objects: ObjectBatch) -> int:
        """Take in objects, in the order of the input, and return how many there are: a deletion is none.

        Identifiers are not kept: terms are counted, not objects.
        """
        if (objects.seq[1:] <= objects.seq[:-1]).any() or (len(objects) and objects.seq[0] < self._log.stop):
            raise InputError("objects out of the order of the input; sort them by 'seq'")
        kept = self._log.append(replace(objects, ids=Ids("int", objects.seq)))
        self._note(kept.ts)
        return len(kept)

    def _note(self, ts: Ints) -> None:
        used, more = self.stop - self._base, len(ts)
        if used + more > len(self._ts):
            live = self._ts[self.first - self._base : used]
            self._ts = grown(live, 2 * (len(live) + more) + 64)
            self._base, used = self.first, len(live)
        self._ts[used : used + more] = ts
        self.stop += more

    def rows_upto(self, times: Ints) -> Ints:
        """Return for each time how many rows there are up to it, those that are not kept any more included."""
        live = self._ts[self.first - self._base : self.stop - self._base]
        return np.searchsorted(live, times, side="right").astype(np.int64) + self.first

    def objects(self, first: int, stop: int) -> ObjectBatch:
        """Return the objects of some rows that are kept."""
        parts = self._log.messages()
        row = self.stop - sum(map(len, parts))
        found = [ObjectBatch.empty()]
        for part in parts:
            low, high = max(first - row, 0), min(stop - row, len(part))
            if low < high:
                found.append(part.slice(low, high))
            row += len(part)
        return ObjectBatch.concat(found)

    def forget(self, first: int) -> None:
        """Forget the rows before one; memory returns by chunks."""
        self.first = min(max(self.first, first), self.stop)
        parts = self._log.messages()
        row = self.stop - sum(map(len, parts))
        for part in parts:
            row += len(part)
            if row <= self.first:
                self._log.drop(int(part.seq[-1]) + 1)

    # --- state -------------------------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """Return the objects; full chunks are parts of a state, which are written once."""
        gone = self.first - (self.stop - sum(map(len, self._log.messages())))
        return {**self._log.snapshot(), "gone": gone}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a snapshot; rows are numbered anew."""
        self.clear()
        self._log.restore(state)
        for part in self._log.messages():
            self._note(part.ts)
        self.forget(state["gone"])

    @staticmethod
    def saved_objects(state: dict[str, Any]) -> ObjectBatch:
        """Return the objects of a snapshot."""
        parts = [part.value for part in state["full"]]
        whole = ObjectBatch.concat([ObjectBatch.empty(), *parts, state["tail"]])
        return whole.slice(state["gone"], len(whole))

    @staticmethod
    def saved(objects: ObjectBatch) -> dict[str, Any]:
        """Return a snapshot with these objects."""
        stop = int(objects.seq[-1]) + 1 if len(objects) else 0
        return {"full": [], "tail": objects, "stop": stop, "gone": 0}
