"""How far the stream has come, for bolts that see all objects: which of them are of a complete time, and what time it is."""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from operators.operator import Epoch
from streams.batches import ObjectBatch
from streams.columns import Ints

__all__ = ["CompleteInput", "LateRequests", "in_order", "united_input"]


class CompleteInput:
    """Up to where the input is complete: an epoch may end between two objects of one time.

    All tasks that see all objects agree on `stop` and `now`, whatever else they are sent.

    Attributes:
        stop: one more than the `seq` of the last object whose time is complete.
        now: the last time that is complete, just before that of the next record; None before there is one.
        last: the time of the last complete record that was seen here.
    """

    def __init__(self) -> None:
        self.stop = 0
        self.now: int | None = None
        self.last: int | None = None
        self._rest = (np.empty(0, np.int64), np.empty(0, np.int64))
        self._noted: Ints = np.empty(0, np.int64)

    @property
    def come(self) -> int:
        """One more than the `seq` of the last object that has come, or `stop`, if its time is complete."""
        return int(self._rest[0][-1]) + 1 if len(self._rest[0]) else self.stop

    def advance(self, epoch: Epoch, objects: ObjectBatch) -> None:
        """Take note of an epoch's objects, in the order of the input."""
        seq, ts = np.append(self._rest[0], objects.seq), np.append(self._rest[1], objects.ts)
        mark = epoch.watermark
        count = len(seq) if mark is None else int(np.searchsorted(ts, mark, side="left"))
        self._rest = seq[count:], ts[count:]
        if count:
            self.stop = int(seq[count - 1]) + 1
            self._see(int(ts[count - 1]))
        self.now = self.last if mark is None else mark - 1

    def note(self, times: Ints, epoch: Epoch) -> None:
        """Take note of the times of query operations."""
        noted = np.append(self._noted, times)
        complete = np.full(len(noted), True) if epoch.watermark is None else noted < epoch.watermark
        if complete.any():
            self._see(int(noted[complete].max()))
        self._noted = noted[~complete]

    def _see(self, time: int) -> None:
        self.last = time if self.last is None else max(time, self.last)

    def snapshot(self) -> dict[str, Any]:
        """Return how far it is."""
        rest = {"seq": self._rest[0], "ts": self._rest[1], "noted": self._noted}
        return {"stop": self.stop, "now": self.now, "last": self.last, **rest}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a snapshot."""
        self.stop, self.now, self.last = state["stop"], state["now"], state["last"]
        self._rest, self._noted = (state["seq"], state["ts"]), state["noted"]


class LateRequests:
    """Which messages may still be asked for: a request for the window of a subscription that has ended is some epochs old."""

    def __init__(self, feedback: int) -> None:
        self._firsts: deque[int] = deque(maxlen=feedback + 2)

    def first(self, first: int) -> int:
        """Note where the window begins in this epoch; return where what must be kept begins."""
        self._firsts.append(first)
        return self._firsts[0]

    def snapshot(self) -> list[int]:
        """Return where the window began in the last epochs."""
        return list(self._firsts)

    def restore(self, state: Iterable[int]) -> None:
        """Take over a snapshot."""
        self._firsts.extend(state)


def in_order(batches: Sequence[ObjectBatch]) -> ObjectBatch:
    """Return objects of several senders in the order of the input."""
    objects = ObjectBatch.concat([ObjectBatch.empty(), *batches])
    if (objects.seq[1:] < objects.seq[:-1]).any():
        objects = objects.take(np.argsort(objects.seq, kind="stable"))
    return objects


def united_input(states: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the state of one that has seen the query operations of several; all have seen all objects."""
    seen = [state["last"] for state in states if state["last"] is not None]
    return {
        **states[0],
        "last": max(seen, default=None),
        "noted": np.concatenate([state["noted"] for state in states]),
    }
