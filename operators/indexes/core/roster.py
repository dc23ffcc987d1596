"""Who is in the index: numbers and lifetimes by slot, and the way from a number to its slot.

A slot is a row of the index's tables, used again after its query has gone. Numbers and times are kept as 32-bit
distances from the first one seen for as long as they fit (2^31 ms are 24 days), as 64-bit values from then on; ends are
kept from the first query on that has one. So a query takes eight or twelve bytes here instead of 24. The map from
numbers to slots is a flat hash of slots; the key is in the slot's row.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from operators.indexes.core.growth import grown
from streams.batches import FOREVER
from streams.flat_hash import place_of
from streams.kernel import lean_kernel
from streams.prefetch import prefetch

__all__ = ["Roster"]

Ints = NDArray[np.int64]
Slots = NDArray[np.int32]

#: Slots over places of the hash: where it grows, and where it is put after growing.
FULLEST, ROOMIEST = 0.8, 0.55
_AHEAD = 12
#: Places of the hash whose numbers are asked for ahead of time: most searches end within so many.
_CLUSTER = 3
_NO_CODES = np.empty(0, np.int32)


@lean_kernel
def _hint(number_far: int, number_near: int, table: Slots, number: Any) -> None:
    """Ask for the first place of a number far ahead, and for the numbers that a nearer one is compared with."""
    size = table.shape[0]
    prefetch(table, place_of(number_far, size))
    place = place_of(number_near, size)
    for near in range(place, min(place + _CLUSTER, size)):
        if table[near] < 0:
            break
        prefetch(number, np.int64(table[near]))


@lean_kernel
def _find(numbers: Ints, table: Slots, number: Any, base: int, out: Slots) -> None:
    size = table.shape[0]
    for i in range(numbers.shape[0]):
        if i + _AHEAD < numbers.shape[0]:
            _hint(numbers[i + _AHEAD], numbers[i + _AHEAD // 2], table, number)
        place = place_of(numbers[i], size)
        while table[place] >= 0 and number[table[place]] + base != numbers[i]:
            place = place + 1 if place + 1 < size else 0
        out[i] = table[place]


@lean_kernel
def _enter(slots: Slots, table: Slots, number: Any, base: int) -> None:
    """Enter slots, those below 0 are none: so the places of another table may be given."""
    size = table.shape[0]
    for i in range(slots.shape[0]):
        if i + 2 * _AHEAD < slots.shape[0]:
            prefetch(number, np.int64(slots[i + 2 * _AHEAD]))
            if slots[i + _AHEAD] >= 0:
                prefetch(table, place_of(number[slots[i + _AHEAD]] + base, size))
        if slots[i] < 0:
            continue
        place = place_of(number[slots[i]] + base, size)
        while table[place] >= 0:
            place = place + 1 if place + 1 < size else 0
        table[place] = slots[i]


@lean_kernel
def _withdraw(numbers: Ints, table: Slots, number: Any, base: int, out: Slots) -> int:
    """Take numbers out; what follows in the same cluster moves back, so no tombstones are needed."""
    size = table.shape[0]
    count = 0
    for i in range(numbers.shape[0]):
        if i + _AHEAD < numbers.shape[0]:
            _hint(numbers[i + _AHEAD], numbers[i + _AHEAD // 2], table, number)
        hole = place_of(numbers[i], size)
        while table[hole] >= 0 and number[table[hole]] + base != numbers[i]:
            hole = hole + 1 if hole + 1 < size else 0
        if table[hole] < 0:
            continue
        out[count] = table[hole]
        count += 1
        place = hole + 1 if hole + 1 < size else 0
        while table[place] >= 0:
            home = place_of(number[table[place]] + base, size)
            gone = place - hole if place >= hole else place - hole + size
            if (place - home if place >= home else place - home + size) >= gone:
                table[hole] = table[place]
                hole = place
            place = place + 1 if place + 1 < size else 0
        table[hole] = -1
    return count


@lean_kernel
def _spans(numbers: Ints, ts: Ints, end: Ints) -> Any:
    """Return the least and largest number, start and finite end; a batch without a finite end has its starts there."""
    low = high = numbers[0]
    first = last = ts[0]
    soonest, latest = np.int64(FOREVER), ts[0]
    for i in range(numbers.shape[0]):
        low, high = min(low, numbers[i]), max(high, numbers[i])
        first, last = min(first, ts[i]), max(last, ts[i])
        if end[i] != FOREVER:
            soonest, latest = min(soonest, end[i]), max(latest, end[i])
    return low, high, first, last, soonest, latest


@lean_kernel
def _write(
    slots: Slots, numbers: Ints, ts: Ints, end: Ints, number: Any, start: Any, stop: Any, number_base: int,
    time_base: int, forever: int,
) -> None:  # fmt: skip
    for i in range(slots.shape[0]):
        number[slots[i]] = numbers[i] - number_base
        start[slots[i]] = ts[i] - time_base
        if stop.shape[0] > 0:
            stop[slots[i]] = forever if end[i] == FOREVER else end[i] - time_base


@lean_kernel
def _living(
    off: Ints, slots: Slots, time: Any, number: Any, base: int, ts: Any, end: Any, timed: bool, out_off: Ints, out: Ints
) -> int:
    """Write the numbers of the slots whose lifetime contains the object's time; return how many."""
    count = 0
    for i in range(off.shape[0] - 1):
        out_off[i] = count
        now = time[i] if timed else time.dtype.type(0)
        for p in range(off[i], off[i + 1]):
            slot = slots[p]
            if p + 2 * _AHEAD < slots.shape[0]:
                prefetch(number, slots[p + 2 * _AHEAD])
            if not timed or (ts[slot] <= now and (end.shape[0] == 0 or now < end[slot])):
                out[count] = number[slot] + base
                count += 1
    out_off[off.shape[0] - 1] = count
    return count


@lean_kernel
def _alive(off: Ints, slots: Slots, time: Any, ts: Any, end: Any, out: NDArray[np.bool_]) -> None:
    """Tell of each slot whether its lifetime contains the object's time."""
    for i in range(off.shape[0] - 1):
        for p in range(off[i], off[i + 1]):
            if p + _AHEAD < slots.shape[0]:
                prefetch(ts, np.int64(slots[p + _AHEAD]))
                prefetch(end, np.int64(slots[p + _AHEAD]))
            out[p] = ts[slots[p]] <= time[i] and (end.shape[0] == 0 or time[i] < end[slots[p]])


class Roster:
    """Numbers, lifetimes and slots; see the module."""

    def __init__(self) -> None:
        self.top = 0
        self.live = 0
        self.number: NDArray[Any] = np.empty(0, np.int32)
        self.ts: NDArray[Any] = np.empty(0, np.int32)
        self.end: NDArray[Any] = np.empty(0, np.int32)
        self._number_base = self._time_base = 0
        self._table: Slots = np.full(8, -1, np.int32)
        self._free: Slots = np.empty(0, np.int32)
        self._free_count = 0
        self._latest_start, self._earliest_end = -FOREVER, FOREVER
        self._largest = np.iinfo(np.int64).min

    @property
    def nbytes(self) -> int:
        """Bytes in use; capacity that was never touched is address space, not memory."""
        columns = 2 + (len(self.end) > 0)
        return columns * self.number.dtype.itemsize * self.top + self._table.nbytes + 4 * self._free_count

    def find(self, numbers: Ints) -> Slots:
        """Return the slot of each number, -1 where it is not held."""
        out = np.empty(len(numbers), np.int32)
        _find(numbers, self._table, self.number, self._number_base, out)
        return out

    def holds(self, numbers: Ints) -> NDArray[np.bool_]:
        """Tell of each number whether it is held; numbers that go on after the largest one seen need no search."""
        if len(numbers) and numbers.min() > self._largest:
            return np.zeros(len(numbers), np.bool_)
        return self.find(numbers) >= 0

    def admit(self, numbers: Ints, ts: Ints, end: Ints) -> Slots:
        """Give slots to new queries (at least one): used ones first, then the next in order."""
        if self.top == 0:
            self._number_base, self._time_base = int(numbers[0]), int(ts[0])
        low, high, first, last, soonest, latest = (int(bound) for bound in _spans(numbers, ts, end))
        near = _near(low, high, self._number_base) and _near(min(first, soonest), max(last, latest), self._time_base)
        if self.number.dtype == np.int32 and not near:
            self._widen()
        slots = self._take(len(numbers))
        if soonest != FOREVER:
            self._keep_ends()
        columns = (self.number, self.ts, self.end)
        _write(slots, numbers, ts, end, *columns, self._number_base, self._time_base, np.iinfo(self.end.dtype).max)
        self._latest_start, self._largest = max(self._latest_start, last), max(self._largest, high)
        self._earliest_end = min(self._earliest_end, soonest)
        self.live += len(slots)
        if self.live > FULLEST * len(self._table):
            old, self._table = self._table, np.full(int(self.live / ROOMIEST) + 8, -1, np.int32)
            _enter(old, self._table, self.number, self._number_base)
        _enter(slots, self._table, self.number, self._number_base)
        return slots

    def withdraw(self, numbers: Ints) -> Slots:
        """Forget queries and return the slots of those that were held, each once; they stay taken until `recycle`."""
        out = np.empty(len(numbers), np.int32)
        count = _withdraw(numbers, self._table, self.number, self._number_base, out)
        self.live -= count
        return out[:count]

    def recycle(self, slots: Slots) -> None:
        """Let the slots of dropped queries be used again."""
        count = self._free_count + len(slots)
        if count > len(self._free):
            self._free = grown(self._free[: self._free_count], count + count // 2)
        self._free[self._free_count : count] = slots
        self._free_count = count

    def held(self) -> Slots:
        """Return the slots of all queries, in no particular order."""
        return self._table[self._table >= 0]

    def numbers_of(self, slots: Slots) -> Ints:
        """Return the numbers of slots."""
        return self.number.take(slots).astype(np.int64) + self._number_base

    def starts_of(self, slots: Slots) -> Ints:
        """Return the first instants of slots."""
        return self.ts[slots].astype(np.int64) + self._time_base

    def ends_of(self, slots: Slots) -> Ints:
        """Return the (exclusive) ends of slots."""
        if not len(self.end):
            return np.full(len(slots), FOREVER, np.int64)
        codes = self.end[slots]
        ends = codes.astype(np.int64)
        ends[codes != np.iinfo(codes.dtype).max] += self._time_base
        ends[codes == np.iinfo(codes.dtype).max] = FOREVER
        return ends

    def set_ends(self, slots: Slots, ends: Ints) -> None:
        """Give slots other ends."""
        if len(slots) == 0:
            return
        finite = ends[ends != FOREVER]
        if self.number.dtype == np.int32 and len(finite) and not _near(finite.min(), finite.max(), self._time_base):
            self._widen()
        self._keep_ends()
        forever = np.iinfo(self.end.dtype).max
        self.end[slots] = np.where(ends == FOREVER, forever, ends - self._time_base).astype(self.end.dtype)
        self._earliest_end = min(self._earliest_end, int(ends.min()))

    def living(self, off: Ints, slots: Slots, time: Ints) -> tuple[Ints, Ints]:
        """Keep of each object's slots those that live at its time; return offsets and numbers.

        Where every lifetime contains every time of the batch, as bounds over both tell, no lifetime is looked at.
        """
        timed = self._timed(time)
        codes: NDArray[Any] = self._codes(time) if timed or self.number.dtype == np.int64 else _NO_CODES
        out_off, out = np.empty(len(off), np.int64), np.empty(len(slots), np.int64)
        count = _living(off, slots, codes, self.number, self._number_base, self.ts, self.end, timed, out_off, out)
        return out_off, out if count == len(out) else out[:count].copy()

    def alive(self, off: Ints, slots: Slots, time: Ints) -> NDArray[np.bool_] | None:
        """Tell of each object's slots whether they live at its time; None where all do, as bounds over both tell."""
        if not self._timed(time):
            return None
        out = np.empty(len(slots), np.bool_)
        _alive(off, slots, self._codes(time), self.ts, self.end, out)
        return out

    def _timed(self, time: Ints) -> bool:
        return bool(len(time)) and not (time.min() >= self._latest_start and time.max() < self._earliest_end)

    def _codes(self, time: Ints) -> NDArray[Any]:
        """Return times as lifetimes have them."""
        if self.number.dtype == np.int64:
            return time
        low, high = self._time_base - 2**31, self._time_base + 2**31 - 2
        return (np.clip(time, max(low, -FOREVER), min(high, FOREVER)) - self._time_base).astype(np.int32)

    def may_end(self, now: int) -> bool:
        """Tell whether some query may have ended by now, from a bound that only `tighten` moves up."""
        return now >= self._earliest_end

    def tighten(self, earliest_end: int) -> None:
        """Take note that no query ends before this."""
        self._earliest_end = earliest_end

    def _take(self, count: int) -> Slots:
        kept = max(self._free_count - count, 0)
        again = self._free[kept : self._free_count]
        self._free_count = kept
        fresh = count - len(again)
        slots = np.concatenate([again, np.arange(self.top, self.top + fresh, dtype=np.int32)])
        self.top += fresh
        if self.top > len(self.number):
            room = 3 * self.top + 64
            self.number, self.ts = grown(self.number, room), grown(self.ts, room)
            if len(self.end):
                self.end = grown(self.end, room)
        return slots

    def _keep_ends(self) -> None:
        if not len(self.end):
            self.end = np.full(len(self.number), np.iinfo(self.end.dtype).max, self.end.dtype)

    def _widen(self) -> None:
        everything = np.arange(self.top, dtype=np.int32)
        room = len(self.number)
        number, ts, end = self.numbers_of(everything), self.starts_of(everything), self.ends_of(everything)
        self._number_base = self._time_base = 0
        self.number, self.ts = grown(number, room), grown(ts, room)
        self.end = grown(end, room) if len(self.end) else np.empty(0, np.int64)


def _near(low: int, high: int, base: int) -> bool:
    return int(low) - base > -(2**31) and int(high) - base < 2**31 - 1
