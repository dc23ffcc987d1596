"""Kernels of the lists of nearest objects. `operators.indexes.knn.nearest_lists` says what they are; this is the layout.

by slot     radius (float64): what is not nearer cannot enter; start (int32) of the list's block; count, room, k (int16)
entries     far (float64) and row (int32) in blocks, nearest first, of equal ones the smaller `seq` first
free        int32 by class of blocks: the first free one, which has the next in its first row
state       int64: see the constants
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from operators.indexes.core.prefetch import prefetch
from operators.indexes.core.query_table import ANY, ASLEEP, DEAD
from streams.kernel import kernel

__all__ = ["BLOCK_CLASSES", "close", "gather", "merge", "open_lists", "renumber", "settle"]

Int = Any  # a machine integer, numpy's or Python's
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Slots = NDArray[np.int32]
Shorts = NDArray[np.int16]
Bytes = NDArray[np.uint8]

#: Places in `state`: end of the entries in use; entries that must be made room for; rows of objects; those no list names;
#: entries in lists; the serial number of the object that words are stamped with.
TOP, NEED, OBJECTS, UNNAMED, ENTRIES, SERIAL = range(6)
STATE_SIZE = 6

#: Lists of up to so many entries have blocks of their own size; longer ones double.
EXACT = 16
BLOCK_CLASSES = EXACT + 7  # 32, 64, .. 1024 behind the exact ones

_AHEAD = 16


@kernel
def _class_of(size: Int) -> Int:
    if size <= EXACT:
        return size
    block_class, room = EXACT, EXACT
    while room < size:
        room *= 2
        block_class += 1
    return block_class


@kernel
def _room_of(block_class: Int) -> Int:
    return block_class if block_class <= EXACT else EXACT << (block_class - EXACT)


@kernel
def _take_block(block_class: Int, row: Slots, free: Slots, state: Ints) -> Int:
    """Return the start of a block, or -1 where the entries must grow first."""
    head = np.int64(free[block_class])
    if head >= 0:
        free[block_class] = row[head]
        return head
    room = _room_of(block_class)
    if state[TOP] + room > row.shape[0]:
        state[NEED] = room
        return np.int64(-1)
    head = state[TOP]
    state[TOP] += room
    return head


@kernel
def _give_block(start: Int, room: Int, row: Slots, free: Slots) -> None:
    if room > 0:
        block_class = _class_of(room)
        row[start] = free[block_class]
        free[block_class] = start


@kernel
def open_lists(
    slots: Slots, wanted: Slots, radius: Floats, start: Slots, count: Shorts, room: Shorts, k: Shorts
) -> None:
    """Begin empty lists, which take no entries before the first object comes."""
    for i in range(slots.shape[0]):
        slot = slots[i]
        radius[slot] = np.inf
        start[slot] = 0
        count[slot] = 0
        room[slot] = 0
        k[slot] = wanted[i]


@kernel
def close(
    slots: Slots, start: Slots, count: Shorts, room: Shorts, row: Slots, free: Slots, uses: Slots, state: Ints
) -> None:
    """Give back the entries of lists."""
    for i in range(slots.shape[0]):
        slot = slots[i]
        for e in range(start[slot], start[slot] + count[slot]):
            uses[row[e]] -= 1
            state[UNNAMED] += uses[row[e]] == 0
        state[ENTRIES] -= count[slot]
        _give_block(start[slot], room[slot], row, free)
        count[slot] = 0
        room[slot] = 0


@kernel
def _enter(
    slot: Int, distance: float, number: Int, object_row: Int, radius: Floats, start: Slots, count: Shorts, room: Shorts,
    k: Shorts, far: Floats, row: Slots, free: Slots, seq: Ints, uses: Slots, state: Ints,
) -> Int:  # fmt: skip
    """Enter an object into a list; return 1 if it is now in it and was not, 0 if not, -1 where entries must grow first."""
    filled, most = np.int64(count[slot]), np.int64(k[slot])
    base = np.int64(start[slot])
    place = filled
    while place > 0 and (
        far[base + place - 1] > distance or (far[base + place - 1] == distance and seq[row[base + place - 1]] > number)
    ):
        place -= 1
    if place == most or (place > 0 and far[base + place - 1] == distance and seq[row[base + place - 1]] == number):
        return 0
    if filled == most:
        filled -= 1
        gone = row[base + filled]
        uses[gone] -= 1
        state[UNNAMED] += uses[gone] == 0
    else:
        if filled == room[slot]:
            block_class = _class_of(min(most, max(EXACT, 2 * filled)))
            block = _take_block(block_class, row, free, state)
            if block < 0:
                return -1
            for e in range(filled):
                far[block + e] = far[base + e]
                row[block + e] = row[base + e]
            _give_block(base, room[slot], row, free)
            start[slot] = block
            room[slot] = min(_room_of(block_class), 32767)
            base = block
        state[ENTRIES] += 1
    for e in range(base + filled, base + place, -1):
        far[e] = far[e - 1]
        row[e] = row[e - 1]
    far[base + place] = distance
    row[base + place] = object_row
    state[UNNAMED] -= uses[object_row] == 0
    uses[object_row] += 1
    count[slot] = filled + 1
    if filled + 1 == most:
        radius[slot] = min(radius[slot], far[base + filled])
    return 1


@kernel
def _has_all(slot: Int, kw: Slots, pool: Slots, stamp: Slots, serial: Int) -> bool:
    if kw[slot, 0] == 0:
        return True
    if stamp[kw[slot, 0]] != serial:
        return False
    if kw[slot, 1] >= 0 and stamp[kw[slot, 1]] != serial:
        return False
    if kw[slot, 2] >= 0:
        return bool(stamp[kw[slot, 2]] == serial)
    if kw[slot, 2] < -1:
        head = -2 - np.int64(kw[slot, 2])
        for j in range(head + 1, head + 1 + pool[head]):
            if stamp[pool[j]] != serial:
                return False
    return True


@kernel
def _settle(
    first: Int, begin: Int, off: Ints, slots: Slots, given: Floats, x: Floats, y: Floats, number: Ints, word_off: Ints,
    words: Slots, stamp: Slots, traits: Bytes, shape: Floats, kw: Slots, pool: Slots, radius: Floats, start: Slots,
    count: Shorts, room: Shorts, k: Shorts, far: Floats, row: Slots, free: Slots, seq: Ints, uses: Slots,
    row_of: Slots, changed: Slots, state: Ints, done: Ints,
) -> bool:  # fmt: skip
    """Enter objects into the lists of slots whose ball they may be in; return whether all are done.

    `off` and `slots` are pairs by object, from object `first` of the batch on; `given` has their distances, or nothing where
    they are Euclidean. `done` says where to go on when entries have grown: pair, entries of `changed`. `begin` is that pair.
    """
    there = done[1]
    for i in range(off.shape[0] - 1):
        if off[i + 1] <= begin:
            continue
        o = first + i
        state[SERIAL] += 1
        serial = np.int32(state[SERIAL])
        for j in range(word_off[o], word_off[o + 1]):
            stamp[words[j]] = serial
        for p in range(max(off[i], begin), off[i + 1]):
            if p + 2 * _AHEAD < slots.shape[0]:
                ahead = np.int64(slots[p + 2 * _AHEAD])
                prefetch(radius, ahead)
                prefetch(start, ahead)
                prefetch(count, ahead)
                near = np.int64(slots[p + _AHEAD])
                prefetch(far, np.int64(start[near]) + np.int64(count[near]) - 1)
                prefetch(row, np.int64(start[near]))
                if given.shape[0] == 0:
                    prefetch(shape, near * shape.shape[1])
            slot = slots[p]
            if traits[slot] & (ASLEEP | DEAD) != 0:
                continue
            if given.shape[0] > 0:
                distance = given[p]
            else:
                dx, dy = x[o] - shape[slot, 0], y[o] - shape[slot, 1]
                distance = np.sqrt(dx * dx + dy * dy)
            if not distance < radius[slot]:
                continue
            if traits[slot] & ANY == 0 and not _has_all(slot, kw, pool, stamp, serial):
                continue
            r = np.int64(row_of[o])
            if r < 0:
                r = state[OBJECTS]
                seq[r] = number[o]
                uses[r] = 0
            entered = _enter(
                slot, distance, number[o], r, radius, start, count, room, k, far, row, free, seq, uses, state
            )
            if entered < 0:
                done[0], done[1] = p, there
                return False
            if entered > 0:
                if row_of[o] < 0:
                    row_of[o] = r
                    state[OBJECTS] += 1
                    state[UNNAMED] += 1  # it was counted as named before there was a row
                changed[there] = slot
                there += 1
    done[0], done[1] = slots.shape[0], there
    return True


@kernel
def _merge(
    begin: Int, slots: Slots, off: Slots, distances: Floats, numbers: Ints, rows: Slots, radius: Floats, start: Slots,
    count: Shorts, room: Shorts, k: Shorts, far: Floats, row: Slots, free: Slots, seq: Ints, uses: Slots, state: Ints,
) -> Int:  # fmt: skip
    """Enter lists of others, item by item from `begin` on; return where to go on when entries have grown, or the end."""
    for i in range(slots.shape[0]):
        for p in range(max(np.int64(off[i]), begin), off[i + 1]):
            entered = _enter(
                slots[i], distances[p], numbers[p], rows[p], radius, start, count, room, k, far, row, free, seq, uses,
                state,
            )  # fmt: skip
            if entered < 0:
                return p
    return np.int64(off[off.shape[0] - 1])


@kernel
def gather(
    slots: Slots, start: Slots, count: Shorts, far: Floats, row: Slots, off: Slots, out: Floats, rows: Slots
) -> None:
    """Copy lists; `off` has their places."""
    for i in range(slots.shape[0]):
        if i + _AHEAD < slots.shape[0]:
            prefetch(far, np.int64(start[slots[i + _AHEAD]]))
            prefetch(row, np.int64(start[slots[i + _AHEAD]]))
        base = np.int64(start[slots[i]])
        for e in range(count[slots[i]]):
            out[off[i] + e] = far[base + e]
            rows[off[i] + e] = row[base + e]


@kernel
def renumber(slots: Slots, start: Slots, count: Shorts, row: Slots, new: Slots) -> None:
    """Give the entries of lists the new rows of their objects."""
    for i in range(slots.shape[0]):
        for e in range(start[slots[i]], start[slots[i]] + count[slots[i]]):
            row[e] = new[row[e]]


#: Their arguments come as tuples of arrays, which a type checker cannot count.
settle: Any = _settle
merge: Any = _merge
