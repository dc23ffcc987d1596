"""Who has which subscription, and what it costs there: the table of a main server, for tens of millions of them.

Rows stand in chunks, by number. A chunk's numbers, costs and ends never change; only the worker of a row does, when its
subscription moves or ends. So a checkpoint writes a full chunk once, and later the rows whose worker has changed. A
subscription takes 10 bytes, 16 if it has an end (4 more for numbers or ends that 32 bits do not reach). Numbers nearly always
ascend; where they do not, the chunk that they belong to is made anew.
"""

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partitioners.columns import Floats, Ints, Workers
from streams.batches import FOREVER
from streams.state import Part

__all__ = ["CHUNK", "SubscriptionBook"]

#: Rows of a full chunk: a place in it fits into 16 bits.
CHUNK = 1 << 16

#: Ends that are looked at together.
_LOOKED_AT = 1 << 10

#: The worker of a row whose subscription has ended.
GONE = -1

_NONE: Ints = np.empty(0, np.int64)

Places = NDArray[np.uint16]


class _Codes:
    """Whole numbers as distances from the least one, in 32 bits where they fit; `FOREVER` has a code of its own."""

    def __init__(self, base: int, code: NDArray[Any]) -> None:
        self.base, self.code = base, code

    @classmethod
    def of(cls, values: Ints) -> "_Codes":
        finite = values[values != FOREVER]
        if not len(finite):
            return cls(0, np.empty(0, np.int32))  # no column at all: every value is FOREVER
        base, top = int(finite.min()), int(finite.max())
        if top - base >= 2**31 - 1:
            return cls(0, values.copy())
        return cls(base, np.where(values == FOREVER, 2**31 - 1, values - base).astype(np.int32))

    def places(self, values: Ints) -> Ints:
        """Return where values, none of them below the base, stand, the codes ascending; -1 where they are not there."""
        code = values - self.base
        if self.code.dtype == np.int32:  # of the same type, or the whole column would be converted
            code = np.minimum(code, 2**31 - 1).astype(np.int32)
        place = np.minimum(self.code.searchsorted(code), len(self.code) - 1)
        place[self.code[place] != code] = -1
        return place

    def values(self, rows: Any, count: int) -> Ints:
        """Return the values of rows; `count` is how many there are of them."""
        if not len(self.code):
            return np.full(count, FOREVER, np.int64)
        code = self.code[rows].astype(np.int64)
        return code if self.code.dtype == np.int64 else np.where(code == 2**31 - 1, FOREVER, code + self.base)


class _Chunk:
    """Some subscriptions, by number, ascending.

    Attributes:
        first, last: the least and the largest number.
        worker: who has each, `GONE` where it has ended.
        live: how many have not ended.
        earliest: none of them ends before this.
    """

    def __init__(self, number: _Codes, cost: NDArray[np.float32], end: _Codes, worker: NDArray[np.int16]) -> None:
        self._number, self.cost, self._end, self.worker = number, cost, end, worker
        self.first, self.last = (int(number.values(slice(at, at + 1), 1)[0]) for at in (0, len(worker) - 1))
        self.live = int(np.count_nonzero(worker != GONE))
        self.earliest = int(end.values(worker != GONE, self.live).min(initial=FOREVER))
        self._order: Places | None = None
        self._passed = 0
        self._written: Part | None = None
        self._workers: Part | None = None
        self._touched: list[Places] = []

    @classmethod
    def of(cls, number: Ints, cost: NDArray[np.float32], end: Ints, worker: NDArray[np.int16]) -> "_Chunk":
        return cls(_Codes.of(number), cost, _Codes.of(end), worker)

    def __len__(self) -> int:
        return len(self.worker)

    @property
    def nbytes(self) -> int:
        order = 0 if self._order is None else self._order.nbytes
        return self._number.code.nbytes + self.cost.nbytes + self._end.code.nbytes + self.worker.nbytes + order

    def live_rows(self) -> Sequence[NDArray[Any]]:
        """Return numbers, costs, ends and workers of what has not ended."""
        rows = np.flatnonzero(self.worker != GONE)
        number, end = (codes.values(rows, len(rows)) for codes in (self._number, self._end))
        return number, self.cost[rows], end, self.worker[rows]

    def find(self, numbers: Ints) -> Ints:
        """Return the row of each number, -1 where it is not there, or has ended."""
        row = self._number.places(numbers)
        row[self.worker[row] == GONE] = -1
        return row

    def set_worker(self, rows: Ints, workers: Any) -> None:
        """Give rows, which live, another worker, or none."""
        self.worker[rows] = workers
        if workers is GONE:
            self.live -= len(rows)
        if self._workers is not None:
            self._touched.append(rows.astype(np.uint16))

    def due(self, now: int) -> Ints:
        """Return the rows that end by now, and have not; they are to be given up then.

        A full chunk knows the order of its ends, so that it is not looked through every time one of them has come.
        """
        if self._order is None and len(self) < CHUNK:
            rows = np.flatnonzero(self.worker != GONE)
            ends = self._end.values(rows, len(rows))
            self.earliest = int(ends[ends > now].min(initial=FOREVER))
            return rows[ends <= now]
        if self._order is None:
            self._order = np.argsort(self._end.values(slice(None), len(self)), kind="stable").astype(np.uint16)
        begin, self.earliest = self._passed, FOREVER
        while self._passed < len(self):
            ends = self._end.values(self._order[self._passed : self._passed + _LOOKED_AT], _LOOKED_AT)
            passed = int(np.searchsorted(ends, now, side="right"))
            self._passed += passed
            if passed < len(ends):
                self.earliest = int(ends[passed])
                break
        come = self._order[begin : self._passed].astype(np.int64)
        return np.compress(self.worker[come] != GONE, come)

    # --- state ---

    def snapshot(self) -> dict[str, Any]:
        """Return the rows; of a full chunk what was written before is referred to."""
        if len(self) < CHUNK:
            return {"columns": self._columns(), "workers": self.worker.copy(), "touched": _NONE, "as": self.worker[:0]}
        if self._written is None:
            self._written = _part("subscriptions", self._columns())
        if self._workers is None or sum(map(len, self._touched)) > CHUNK // 8:
            self._workers, self._touched = _part("workers", [self.worker.copy()]), []
        touched = np.unique(np.concatenate([np.empty(0, np.uint16), *self._touched])).astype(np.int64)
        return {"columns": self._written, "workers": self._workers, "touched": touched, "as": self.worker[touched]}

    def _columns(self) -> list[Any]:
        return [self._number.base, self._number.code, self.cost, self._end.base, self._end.code]

    @classmethod
    def restored(cls, state: dict[str, Any]) -> "_Chunk":
        """Return the chunk of a snapshot."""
        parts = isinstance(state["columns"], Part)
        base, code, cost, end_base, end_code = state["columns"].value if parts else state["columns"]
        worker = (state["workers"].value[0] if parts else state["workers"]).copy()
        worker[state["touched"]] = state["as"]
        chunk = cls(_Codes(base, code), cost, _Codes(end_base, end_code), worker)
        if parts:
            chunk._written, chunk._workers = state["columns"], state["workers"]
            chunk._touched = [state["touched"].astype(np.uint16)]
        return chunk


def _joined(one: Sequence[NDArray[Any]], other: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    """Return columns one after the other."""
    return [np.concatenate(pair) for pair in zip(one, other, strict=True)]


def _chunks_of(columns: Sequence[NDArray[Any]]) -> list[_Chunk]:
    """Return rows, which ascend, in chunks."""
    starts = range(0, len(columns[0]), CHUNK)
    return [_Chunk.of(*(column[at : at + CHUNK].copy() for column in columns)) for at in starts]


def _part(what: str, columns: list[Any]) -> Part:
    digest = hashlib.blake2b(digest_size=16)
    for column in columns:
        digest.update(repr(column).encode() if isinstance(column, int) else np.ascontiguousarray(column).data)
    return Part.of(f"{what}-{digest.hexdigest()}", columns)


class SubscriptionBook:
    """Numbers, workers, costs and ends of all subscriptions that live.

    Attributes:
        load: C(w), the cost of what each worker has.
        held: how many subscriptions each worker has.
    """

    def __init__(self, workers: int) -> None:
        self.load: Floats = np.zeros(workers)
        self.held: Ints = np.zeros(workers, np.int64)
        self._chunks: list[_Chunk] = []
        self._first: Ints = _NONE

    def __len__(self) -> int:
        return int(self.held.sum())

    @property
    def nbytes(self) -> int:
        """Bytes of the table."""
        return sum(chunk.nbytes for chunk in self._chunks)

    def add(self, numbers: Ints, workers: Workers, costs: Floats, ends: Ints) -> None:
        """Enter subscriptions, none of which is there."""
        order = np.argsort(numbers, kind="stable")
        new: list[NDArray[Any]] = [
            numbers[order],
            costs[order].astype(np.float32),
            ends[order],
            workers[order].astype(np.int16),
        ]
        self._count(new[3], new[1], 1)
        behind = np.searchsorted(new[0], self._chunks[-1].last) if self._chunks else 0
        if behind < len(order):
            self._append([column[behind:] for column in new])
        if behind:
            new = [column[:behind] for column in new]
            chunk = np.maximum(np.searchsorted(self._first, new[0], side="right") - 1, 0)
            for which in np.unique(chunk)[::-1].tolist():
                self._insert(which, [column[chunk == which] for column in new])
        self._first = np.array([one.first for one in self._chunks], np.int64)

    def _append(self, columns: list[NDArray[Any]]) -> None:
        """Put rows behind all others. What is new is kept in a small chunk, so that not all of a large one is copied."""
        for most in (CHUNK // 16, CHUNK):
            if self._chunks and len(self._chunks[-1]) < most and (len(columns[0]) >= CHUNK // 16 or most < CHUNK):
                columns = _joined(self._chunks.pop().live_rows(), columns)
        self._chunks += _chunks_of(columns)

    def _insert(self, which: int, new: list[NDArray[Any]]) -> None:
        """Put rows between those of a chunk."""
        columns = _joined(self._chunks[which].live_rows(), new)
        order = np.argsort(columns[0], kind="stable")
        self._chunks[which : which + 1] = _chunks_of([column[order] for column in columns])

    def workers_of(self, numbers: Ints) -> Workers:
        """Return who has each subscription, -1 where it is not there."""
        found = np.full(len(numbers), -1, np.int32)
        for chunk, at, rows in self._rows_of(numbers):
            found[at] = chunk.worker[rows]
        return found

    def remove(self, numbers: Ints) -> Workers:
        """Give up subscriptions, each named once, and their costs; return who had them, -1 where they are not there."""
        found, given_up = np.full(len(numbers), -1, np.int32), []
        for chunk, at, rows in self._rows_of(numbers):
            found[at] = chunk.worker[rows]
            given_up.append((chunk, rows))
        self._give_up(given_up)
        return found

    def expire(self, now: int) -> int:
        """Give up subscriptions that end by now; return how many."""
        before = len(self)
        self._give_up([(chunk, chunk.due(now)) for chunk in self._chunks if chunk.earliest <= now])
        return before - len(self)

    def move(self, numbers: Ints, workers: Workers) -> int:
        """Give those of these subscriptions that are there to other workers, with their costs; return how many were moved."""
        moved = 0
        for chunk, at, rows in self._rows_of(numbers):
            other = chunk.worker[rows] != workers[at]
            rows, new = rows[other], workers[at][other].astype(np.int16)
            self._count(chunk.worker[rows], chunk.cost[rows], -1)
            self._count(new, chunk.cost[rows], 1)
            chunk.set_worker(rows, new)
            moved += len(rows)
        return moved

    def _rows_of(self, numbers: Ints) -> Sequence[tuple[_Chunk, Ints, Ints]]:
        """Return the rows of numbers that are there, by chunk: the chunk, their places in `numbers`, and its rows."""
        chunk = np.searchsorted(self._first, numbers, side="right") - 1
        order = np.argsort(chunk, kind="stable")
        which, starts = np.unique(chunk[order], return_index=True)
        found = []
        for one, at in zip(which.tolist(), np.split(order, starts[1:]), strict=False):
            if one >= 0:
                rows = self._chunks[one].find(numbers[at])
                found.append((self._chunks[one], at[rows >= 0], rows[rows >= 0]))
        return [entry for entry in found if len(entry[2])]

    def _give_up(self, ended: Sequence[tuple[_Chunk, Ints]]) -> None:
        if not ended:
            return
        workers, costs = (
            np.concatenate(part) for part in zip(*((c.worker[r], c.cost[r]) for c, r in ended), strict=True)
        )
        self._count(workers, costs, -1)
        for chunk, rows in ended:
            chunk.set_worker(rows, GONE)
        self._thin()

    def _count(self, workers: NDArray[np.int16], costs: NDArray[np.float32], sign: int) -> None:
        self.held += sign * np.bincount(workers, minlength=len(self.held))
        self.load += sign * np.bincount(workers, costs.astype(np.float64), minlength=len(self.load))
        self.load[(self.held == 0) | (self.load < 0)] = 0.0  # what sums of floats leave behind is no load

    def _thin(self) -> None:
        """Forget chunks without subscriptions, and put neighbours together where few are left in them."""
        kept: list[_Chunk] = []
        for chunk in self._chunks:
            both = chunk.live + (kept[-1].live if kept else 0)
            if kept and chunk.live and both <= CHUNK - CHUNK // 4 and len(kept[-1]) + len(chunk) > CHUNK:
                kept[-1] = _Chunk.of(*_joined(kept[-1].live_rows(), chunk.live_rows()))
            elif chunk.live:
                kept.append(chunk)
        if len(kept) < len(self._chunks):
            self._first = np.array([one.first for one in kept], np.int64)
        self._chunks = kept

    def snapshot(self) -> dict[str, Any]:
        """Return the table."""
        return {"load": self.load.copy(), "held": self.held.copy(), "chunks": [one.snapshot() for one in self._chunks]}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a snapshot."""
        self.load, self.held = state["load"].copy(), state["held"].copy()
        self._chunks = [_Chunk.restored(one) for one in state["chunks"]]
        self._first = np.array([one.first for one in self._chunks], np.int64)
