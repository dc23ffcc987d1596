"""Kernels of the lists of nearest objects. `operators.indexes.knn.nearest_lists` says what they are; this is the layout.

radius      float64 by slot: what is not nearer cannot enter
heads       int32 rows by slot: where the list's block of entries begins; its length, k, the class of its block, and whether
            all of several keywords are wanted, packed
entries     far (float64) and row (int32) in blocks, nearest first, of equal ones the smaller `seq` first
free        int32 by class of blocks: the first free one, which has the next in its first row
state       int64: see the constants
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from operators.indexes.core.query_table import ASLEEP
from operators.indexes.knn.blocks import EXACT, class_of, room_of
from streams.kernel import lean_kernel
from streams.prefetch import prefetch

__all__ = [
    "bind", "close", "gather", "lengths", "mark", "merge", "places", "prints", "recent_places", "renumber", "settle"
]  # fmt: skip

Int = Any  # a machine integer, numpy's or Python's
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Slots = NDArray[np.int32]
Bytes = NDArray[np.uint8]

#: Places in `state`: end of the entries in use; entries that must be made room for; rows of objects; the serial number
#: of the object that words are stamped with.
TOP, NEED, OBJECTS, SERIAL = range(4)
STATE_SIZE = 4

#: Length and k have so many bits each in a head; the class of the block is above them.
BITS = 10
LENGTH = (1 << BITS) - 1
#: The class has so many bits; above them one tells that all of several keywords are wanted.
CLASS_BITS = 6
_CLASS, SEVERAL = (1 << CLASS_BITS) - 1, 1 << (2 * BITS + CLASS_BITS)

#: Pairs that go through the stages together, and lists that are asked for ahead of time.
TOGETHER = 32
_AHEAD = 16


@lean_kernel
def _take_block(block_class: Int, row: Slots, free: Slots, state: Ints) -> Int:
    """Return the start of a block, or -1 where the entries must grow first."""
    head = np.int64(free[block_class])
    if head >= 0:
        free[block_class] = row[head]
        return head
    room = room_of(block_class)
    if state[TOP] + room > row.shape[0]:
        state[NEED] = room
        return np.int64(-1)
    head = state[TOP]
    state[TOP] += room
    return head


@lean_kernel
def _give_block(start: Int, block_class: Int, row: Slots, free: Slots) -> None:
    if block_class > 0:
        row[start] = free[block_class]
        free[block_class] = start


@lean_kernel
def close(slots: Slots, heads: Slots, row: Slots, free: Slots) -> None:
    """Give back the entries of lists."""
    for i in range(slots.shape[0]):
        packed = np.int64(heads[slots[i], 1])
        _give_block(heads[slots[i], 0], (packed >> (2 * BITS)) & _CLASS, row, free)
        heads[slots[i], 1] = 0


@lean_kernel
def _enter(
    slot: Int, distance: float, number: Int, object_row: Int, radius: Floats, heads: Slots, far: Floats, row: Slots,
    free: Slots, seq: Ints, state: Ints,
) -> Int:  # fmt: skip
    """Enter an object into a list; return 1 if it is now in it and was not, 0 if not, -1 where entries must grow first."""
    packed = np.int64(heads[slot, 1])
    filled, most = packed & LENGTH, (packed >> BITS) & LENGTH
    base = np.int64(heads[slot, 0])
    place = filled
    while place > 0 and (
        far[base + place - 1] > distance or (far[base + place - 1] == distance and seq[row[base + place - 1]] > number)
    ):
        place -= 1
    if place == most or (place > 0 and far[base + place - 1] == distance and seq[row[base + place - 1]] == number):
        return 0
    block_class = (packed >> (2 * BITS)) & _CLASS
    if filled == most:
        filled -= 1
    else:
        if filled == room_of(block_class):
            larger = class_of(min(most, max(EXACT, 2 * filled)))
            block = _take_block(larger, row, free, state)
            if block < 0:
                return -1
            for e in range(filled):
                far[block + e] = far[base + e]
                row[block + e] = row[base + e]
            _give_block(base, block_class, row, free)
            heads[slot, 0] = block
            base, block_class = block, larger
    for e in range(base + filled, base + place, -1):
        far[e] = far[e - 1]
        row[e] = row[e - 1]
    far[base + place] = distance
    row[base + place] = object_row
    heads[slot, 1] = (packed & SEVERAL) | (block_class << (2 * BITS)) | (most << BITS) | (filled + 1)
    if filled + 1 == most:
        radius[slot] = min(radius[slot], far[base + filled])
    return 1


@lean_kernel
def _has_all(slot: Int, kw: Slots, pool: Slots, stamp: Slots, serial: Int) -> bool:
    if stamp[kw[slot, 0]] != serial or stamp[kw[slot, 1]] != serial:
        return False
    if kw[slot, 2] >= 0:
        return bool(stamp[kw[slot, 2]] == serial)
    if kw[slot, 2] < -1:
        head = -2 - np.int64(kw[slot, 2])
        for j in range(head + 1, head + 1 + pool[head]):
            if stamp[pool[j]] != serial:
                return False
    return True


@lean_kernel
def _settle(
    first: Int, sleepers: bool, off: Ints, slots: Slots, given: Floats, x: Floats, y: Floats, number: Ints, word_off: Ints,
    words: Slots, stamp: Slots, traits: Bytes, shape: Floats, kw: Slots, pool: Slots, radius: Floats, heads: Slots, far: Floats,
    row: Slots, free: Slots, seq: Ints, row_of: Slots, changed: Slots, state: Ints, done: Ints, distances: Floats,
) -> bool:  # fmt: skip
    """Enter objects into the lists of slots whose ball they may be in; return whether all are done.

    `off` and `slots` are pairs by object, from object `first` of the batch on; `given` has their distances, or nothing where
    they are Euclidean. `done` says where to begin, and to go on when entries have grown: pair, object, entries of `changed`.
    Pairs go through the stages in small numbers together, their `distances` are kept from one to the next: what one stage asks
    for has come when the next one reads it.
    """
    pairs, there = slots.shape[0], done[2]
    i, stamped = done[1], np.int64(-1)
    serial = np.int32(0)
    base = done[0]
    while base < pairs:
        stop = min(base + TOGETHER, pairs)
        for p in range(base, stop):
            slot = np.int64(slots[p])
            prefetch(radius, slot)
            prefetch(heads, 2 * slot)
            if sleepers:
                prefetch(traits, slot)
            if given.shape[0] == 0:
                prefetch(shape, 2 * slot)
        j = i
        for p in range(base, stop):
            while off[j + 1] <= p:
                j += 1
            slot = np.int64(slots[p])
            if given.shape[0] > 0:
                distances[p - base] = given[p]
            else:
                dx, dy = x[first + j] - shape[slot, 0], y[first + j] - shape[slot, 1]
                distances[p - base] = np.sqrt(dx * dx + dy * dy)
            if distances[p - base] < radius[slot]:
                start, length = np.int64(heads[slot, 0]), np.int64(heads[slot, 1]) & LENGTH
                for e in range(start, start + length + 7, 8):
                    prefetch(far, e)
                prefetch(row, start)
                prefetch(row, start + length)
                if heads[slot, 1] & SEVERAL != 0:
                    prefetch(kw, 3 * slot)
        for p in range(base, stop):
            while off[i + 1] <= p:
                i += 1
            slot, o = np.int64(slots[p]), first + i
            distance = distances[p - base]
            if not distance < radius[slot] or (sleepers and traits[slot] & ASLEEP != 0):
                continue
            if heads[slot, 1] & SEVERAL != 0:
                if stamped != i:
                    state[SERIAL] += 1
                    serial = np.int32(state[SERIAL])
                    stamped = np.int64(i)
                    for w in range(word_off[o], word_off[o + 1]):
                        stamp[words[w]] = serial
                if not _has_all(slot, kw, pool, stamp, serial):
                    continue
            r: Int = np.int64(row_of[o])
            if r < 0:
                r = state[OBJECTS]
                seq[r] = number[o]
            entered = _enter(slot, distance, number[o], r, radius, heads, far, row, free, seq, state)
            if entered < 0:
                done[0], done[1], done[2] = p, i, there
                return False
            if entered > 0:
                if row_of[o] < 0:
                    row_of[o] = r
                    state[OBJECTS] += 1
                changed[there] = slot
                there += 1
        base = stop
    done[0], done[1], done[2] = pairs, i, there
    return True


@lean_kernel
def _merge(
    begin: Int, slots: Slots, off: Slots, distances: Floats, numbers: Ints, rows: Slots, radius: Floats, heads: Slots,
    far: Floats, row: Slots, free: Slots, seq: Ints, state: Ints, gained: NDArray[np.bool_],
) -> Int:  # fmt: skip
    """Enter lists of others, item by item from `begin` on; return where to go on when entries have grown, or the end.

    `gained` tells of each list whether something entered.
    """
    for i in range(slots.shape[0]):
        if i + _AHEAD < slots.shape[0]:
            prefetch(heads, 2 * np.int64(slots[i + _AHEAD]))
        if i + _AHEAD // 2 < slots.shape[0]:
            ahead = np.int64(slots[i + _AHEAD // 2])
            start, length = np.int64(heads[ahead, 0]), np.int64(heads[ahead, 1]) & LENGTH
            prefetch(far, start)
            prefetch(far, start + length)
            prefetch(row, start + length)
        for p in range(max(np.int64(off[i]), begin), off[i + 1]):
            entered = _enter(slots[i], distances[p], numbers[p], rows[p], radius, heads, far, row, free, seq, state)
            if entered < 0:
                return p
            if entered > 0:
                gained[i] = True
    return np.int64(off[off.shape[0] - 1])


@lean_kernel
def bind(slots: Slots, bounds: Floats, radius: Floats, out: Slots) -> Int:
    """Lower radii to bounds, NaN is none; write the slots whose radius is another now, and return how many."""
    count = 0
    for i in range(slots.shape[0]):
        if bounds[i] < radius[slots[i]]:
            radius[slots[i]] = bounds[i]
            out[count] = slots[i]
            count += 1
    return count


#: Their arguments come as tuples of arrays, which a type checker cannot count.
settle: Any = _settle
merge: Any = _merge


@lean_kernel
def lengths(slots: Slots, heads: Slots, out: Slots) -> None:
    """Write k of lists."""
    for i in range(slots.shape[0]):
        if i + _AHEAD < slots.shape[0]:
            prefetch(heads, 2 * np.int64(slots[i + _AHEAD]))
        out[i] = (heads[slots[i], 1] >> BITS) & LENGTH


@lean_kernel
def places(slots: Slots, heads: Slots, off: Slots) -> None:
    """Write where lists begin if they are copied one after the other, and where the last one ends."""
    off[0] = 0
    for i in range(slots.shape[0]):
        if i + _AHEAD < slots.shape[0]:
            prefetch(heads, 2 * np.int64(slots[i + _AHEAD]))
        off[i + 1] = off[i] + (heads[slots[i], 1] & LENGTH)


@lean_kernel
def recent_places(since: Int, slots: Slots, heads: Slots, row: Slots, seq: Ints, off: Slots) -> None:
    """Do the same with only the entries whose object has a `seq` of `since` or more."""
    off[0] = 0
    for i in range(slots.shape[0]):
        if i + _AHEAD < slots.shape[0]:
            ahead = np.int64(slots[i + _AHEAD])
            prefetch(row, np.int64(heads[ahead, 0]))
        base, count = np.int64(heads[slots[i], 0]), 0
        for e in range(base, base + (np.int64(heads[slots[i], 1]) & LENGTH)):
            count += seq[row[e]] >= since
        off[i + 1] = off[i] + count


@lean_kernel
def gather(
    since: Int, slots: Slots, heads: Slots, far: Floats, row: Slots, seq: Ints, ids: Ints, off: Slots, out: Floats,
    rows: Slots, numbers: Ints, names: Ints,
) -> None:  # fmt: skip
    """Copy lists, with the `seq` of their objects; `off` has their places, of whole lists or of entries from `since` on.

    Identifiers are copied too where they are numbers; where there are none, `names` has no room either.
    """
    for i in range(slots.shape[0]):
        if i + _AHEAD < slots.shape[0]:
            ahead = np.int64(slots[i + _AHEAD])
            start, length = np.int64(heads[ahead, 0]), np.int64(heads[ahead, 1]) & LENGTH
            for e in range(start, start + length + 7, 8):
                prefetch(far, e)
            prefetch(row, start)
            prefetch(row, start + length)
        base, length = np.int64(heads[slots[i], 0]), np.int64(heads[slots[i], 1]) & LENGTH
        whole, to = off[i + 1] - off[i] == length, np.int64(off[i])
        for e in range(base, base + length):
            if whole or seq[row[e]] >= since:
                out[to] = far[e]
                rows[to] = row[e]
                to += 1
    for p in range(rows.shape[0]):
        if p + _AHEAD < rows.shape[0]:
            prefetch(seq, np.int64(rows[p + _AHEAD]))
            prefetch(ids, np.int64(rows[p + _AHEAD]))
        numbers[p] = seq[rows[p]]
        if names.shape[0] > 0:
            names[p] = ids[rows[p]]


@lean_kernel
def prints(slots: Slots, heads: Slots, far: Floats, bits: Any, out: Any) -> None:
    """Write a number for each list that no earlier state of it had; `bits` are those of the distances, an empty list has 0.

    What enters a full list is nearer than its last entry, which leaves: so either the last distance is another then, or
    fewer entries have it. A list that is not full has one entry more.
    """
    for i in range(slots.shape[0]):
        if i + 2 * _AHEAD < slots.shape[0]:
            prefetch(heads, 2 * np.int64(slots[i + 2 * _AHEAD]))
        if i + _AHEAD < slots.shape[0]:
            ahead = np.int64(slots[i + _AHEAD])
            prefetch(far, np.int64(heads[ahead, 0]) + (np.int64(heads[ahead, 1]) & LENGTH) - 1)
        base, length = np.int64(heads[slots[i], 0]), np.int64(heads[slots[i], 1]) & LENGTH
        out[i] = 0
        if length > 0:
            last = base + length - 1
            alike = last
            while alike > base and far[alike - 1] == far[last]:
                alike -= 1
            z = bits[last] + np.uint64((length << BITS) | (last - alike)) * np.uint64(0x9E3779B97F4A7C15)
            z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            out[i] = z ^ (z >> np.uint64(31))


@lean_kernel
def _ask_for_rows(i: Int, slots: Slots, heads: Slots, row: Slots) -> None:
    """Ask for the entries of a list some places on."""
    if i + _AHEAD < slots.shape[0]:
        start = np.int64(heads[slots[i + _AHEAD], 0])
        prefetch(row, start)
        prefetch(row, start + (np.int64(heads[slots[i + _AHEAD], 1]) & LENGTH))


@lean_kernel
def mark(slots: Slots, heads: Slots, row: Slots, named: NDArray[np.bool_]) -> None:
    """Mark the rows of objects that lists name."""
    for i in range(slots.shape[0]):
        _ask_for_rows(i, slots, heads, row)
        base = np.int64(heads[slots[i], 0])
        for e in range(base, base + (np.int64(heads[slots[i], 1]) & LENGTH)):
            named[row[e]] = True


@lean_kernel
def renumber(slots: Slots, heads: Slots, row: Slots, new: Slots) -> None:
    """Give the entries of lists the new rows of their objects."""
    for i in range(slots.shape[0]):
        _ask_for_rows(i, slots, heads, row)
        base = np.int64(heads[slots[i], 0])
        for e in range(base, base + (np.int64(heads[slots[i], 1]) & LENGTH)):
            row[e] = new[row[e]]
