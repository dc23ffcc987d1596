"""Kernels of the buffers. `operators.indexes.topk.buffers` says what they are; this is the layout.

theta       float64 by slot: the score of the threshold; CUT of a head is its `seq`
heads       int32 rows by slot: see the constants
high, low   entries in blocks, best first, as keys (`entry_keys`); a place is how far a message is from BASE, 0 for all up to it
free        int64 by class of blocks: the first free one, which has the next in its first `high`
oldest, pages   see `expiry_calendar`
sizes       int32 rows by k: the capacity of a buffer, what is kept of one that has overflowed, its room once it has a threshold
places      int32: room for the places of the longest buffer
state       int64: see the constants here and in `buffer_blocks`
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from operators.indexes.topk.buffer_blocks import TOP, USED, class_of, give_block, room_of, take_block
from operators.indexes.topk.entry_keys import fits, high_of, low_of, place_at, score_at
from operators.indexes.topk.expiry_calendar import NOWHERE, due_slots, leave, stand
from streams.kernel import kernel, lean_kernel
from streams.prefetch import prefetch

__all__ = [
    "close", "enter", "expire", "expire_some", "gather", "open_buffers", "raise_to", "rebase", "refill", "repack",
    "take_retuned",
]  # fmt: skip

Int = Any  # a machine integer, numpy's or Python's
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Slots = NDArray[np.int32]
Highs = NDArray[np.int64]
Lows = NDArray[Any]  # see `entry_keys`

#: Places in `state` behind those of blocks: the `seq` before the first that has a place; where the window begins, as a place;
#: whether entries with k newer ones at least as good are dropped; whether a score was met that keys do not have.
BASE, FIRST, SKYBAND, ODD = range(3, 7)
STATE_SIZE = 7

#: Columns of a head: start of the block, entries, and k, class of the block and marks, packed.
START, LENGTH, PACKED, CUT = range(4)
#: Marks: stands in the list of changed results; its threshold has changed; has been reported as wanting.
CHANGED, RETUNED, WANTING = 1, 2, 4
CLASS_SHIFT, CLASS_MASK, K_SHIFT = 3, 0xFF, 11

#: The `seq` of a threshold that no message of its score is below.
NO_CUT = -(2**31)
_AHEAD = 12


@lean_kernel
def take_retuned(heads: Slots, out: Slots) -> Int:
    """Write the slots whose thresholds have changed, ascending, and forget that they have; return how many there are."""
    count = np.int64(0)
    for slot in range(heads.shape[0]):
        if heads[slot, PACKED] & RETUNED != 0:
            heads[slot, PACKED] &= ~RETUNED
            out[count] = slot
            count += 1
    return count


@lean_kernel
def _set_threshold(slot: Int, score: Any, cut: Int, theta: Floats, heads: Slots) -> None:
    if score != theta[slot]:
        heads[slot, PACKED] |= RETUNED
    theta[slot] = score
    heads[slot, CUT] = cut


@lean_kernel
def _prune(base: Int, length: Int, k: Int, first: Int, skyband: Int, high: Highs, low: Lows, places: Slots) -> Int:
    """Drop what has expired or has k newer entries at least as good (Definition 11); return what is left.

    Dominance is transitive, so it is enough to count among those that are kept, whose places are written into `places`.
    Indexes are unsigned in all loops over entries: nothing is counted from the end then, and several entries are looked at
    together.
    """
    begin, kept = np.uint64(base), np.uint64(0)
    for e in range(np.uint64(length)):
        place = np.int32(place_at(high, low, begin + e))
        if place < first:
            continue
        if skyband != 0 and np.int64(kept) >= k:
            newer = np.int32(0)
            for other in range(kept):
                newer += np.int32(places[other] > place)
            if newer >= k:
                continue
        high[begin + kept], low[begin + kept], places[kept] = high[begin + e], low[begin + e], place
        kept += np.uint64(1)
    return np.int64(kept)


@lean_kernel
def _oldest(base: Int, length: Int, high: Highs, low: Lows) -> Int:
    begin = np.uint64(base)
    oldest = place_at(high, low, begin)
    for e in range(np.uint64(length)):
        oldest = min(oldest, place_at(high, low, begin + e))
    return np.int64(oldest)


@lean_kernel
def _set_block(slot: Int, start: Int, block_class: Int, heads: Slots) -> None:
    packed = np.int64(heads[slot, PACKED])
    heads[slot, START] = start
    heads[slot, PACKED] = (packed & ~(CLASS_MASK << CLASS_SHIFT)) | (block_class << CLASS_SHIFT)


@lean_kernel
def _grow(slot: Int, size: Int, heads: Slots, high: Highs, low: Lows, free: Ints, state: Ints) -> bool:
    """Give a buffer a block of a size; return False, with nothing done, where the pools must grow first."""
    base, block_class = np.int64(heads[slot, START]), (np.int64(heads[slot, PACKED]) >> CLASS_SHIFT) & CLASS_MASK
    larger = class_of(size)
    block = take_block(larger, high, free, state)
    if block < 0:
        return False
    for e in range(heads[slot, LENGTH]):
        high[block + e], low[block + e] = high[base + e], low[base + e]
    give_block(base, block_class, high, free, state)
    _set_block(slot, block, larger, heads)
    return True


@lean_kernel
def _enter(
    begin: Int, slots: Slots, numbers: Ints, scores: Floats, theta: Floats, heads: Slots, oldest: Slots, high: Highs,
    low: Lows, free: Ints, pages: Slots, sizes: Slots, places: Slots, state: Ints, changed: Slots, count: Int,
) -> tuple[Int, Int]:  # fmt: skip
    """Enter pairs from `begin` on; return where to go on when the pools have grown, or the end, and the length of `changed`."""
    pairs, first = slots.shape[0], state[FIRST]
    for i in range(begin, pairs):
        if i + 2 * _AHEAD < pairs:
            prefetch(heads, 4 * np.int64(slots[i + 2 * _AHEAD]))
            prefetch(theta, np.int64(slots[i + 2 * _AHEAD]))
        if i + _AHEAD < pairs:
            start, ahead = np.int64(heads[slots[i + _AHEAD], START]), np.int64(heads[slots[i + _AHEAD], LENGTH])
            for e in range(start, start + ahead + 7, 8):
                prefetch(high, e)
            for e in range(start, start + ahead + 31, 32):
                prefetch(low, e)
        slot, value, number = np.int64(slots[i]), scores[i], numbers[i] - state[BASE]
        if number < first or value < theta[slot] or (value == theta[slot] and number < heads[slot, CUT]):
            continue
        packed = np.int64(heads[slot, PACKED])
        length, k = np.int64(heads[slot, LENGTH]), packed >> K_SHIFT
        if not fits(value, low):
            state[ODD] = 1
            return np.int64(i), count
        # What is kept, the new entry included: not all, where a buffer is full and there is little that is of no use.
        room, capacity, keep = room_of((packed >> CLASS_SHIFT) & CLASS_MASK), np.int64(sizes[k, 0]), length + 1
        if length == min(room, capacity):
            length = _prune(np.int64(heads[slot, START]), length, k, state[FIRST], state[SKYBAND], high, low, places)
            heads[slot, LENGTH], keep = length, length + 1
            little = min(room, capacity) - (min(room, capacity) >> 3)
            if length >= little and room >= capacity:
                keep = max(k, min(np.int64(sizes[k, 1]), keep))
            elif length >= little and not _grow(
                slot, min(capacity, length + 1 + (length >> 2)), heads, high, low, free, state
            ):
                return np.int64(i), count
        base, above, below = np.int64(heads[slot, START]), high_of(value, number, low), low_of(number, low)
        begin_u, place = np.uint64(base), np.int64(0)
        for e in range(np.uint64(length)):  # without branches: what decides is where a message ends up, not how
            place += high[begin_u + e] > above
        while place < length and high[base + place] == above and low[base + place] >= below:
            place += 1
        if place > 0 and high[base + place - 1] == above and low[base + place - 1] == below:
            continue
        if keep <= length:  # the best of those that are left out is the threshold
            last = base + (keep - 1 if place < keep else keep)
            if place == keep:
                _set_threshold(slot, value, number, theta, heads)
            else:
                _set_threshold(slot, score_at(high, low, last), place_at(high, low, last), theta, heads)
            length = keep - 1 if place < keep else keep
            heads[slot, LENGTH] = length
            if place >= keep:
                continue
        behind, before = np.uint64(base + length), np.uint64(base + place)
        while behind > before:
            high[behind] = high[behind - np.uint64(1)]
            low[behind] = low[behind - np.uint64(1)]
            behind -= np.uint64(1)
        high[base + place], low[base + place] = above, below
        heads[slot, LENGTH] = length + 1
        if place < k:
            if heads[slot, PACKED] & CHANGED == 0:
                heads[slot, PACKED] |= CHANGED
                changed[count] = slot
                count += 1
            if number < oldest[slot]:
                stand(slot, number, oldest, pages)
    for i in range(count):
        heads[changed[i], PACKED] &= ~CHANGED
    return np.int64(pairs), count


@lean_kernel
def _shed(slot: Int, first: Int, heads: Slots, high: Highs, low: Lows) -> bool:
    """Drop the entries of a buffer that have expired; return whether one of them was in the result.

    Without branches: which entry has expired cannot be foreseen, and a wrong guess costs more than all the moves.
    """
    begin, length = np.uint64(heads[slot, START]), np.uint64(heads[slot, LENGTH])
    k = np.uint64(np.int64(heads[slot, PACKED]) >> K_SHIFT)
    kept, stays = np.uint64(0), np.uint64(0)
    for e in range(length):
        age = place_at(high, low, begin + e)
        high[begin + kept], low[begin + kept] = high[begin + e], low[begin + e]
        kept += np.uint64(age >= first)
        stays = kept if e < k else stays
    heads[slot, LENGTH] = kept
    return bool(stays < min(k, length))


@lean_kernel
def _wants(slot: Int, theta: Floats, heads: Slots) -> bool:
    """Tell whether a buffer has run dry, once until it is filled again."""
    packed = np.int64(heads[slot, PACKED])
    if heads[slot, LENGTH] >= packed >> K_SHIFT or theta[slot] == -np.inf or packed & WANTING != 0:
        return False
    heads[slot, PACKED] |= WANTING
    return True


@lean_kernel
def _expire(
    first: Int, theta: Floats, heads: Slots, oldest: Slots, high: Highs, low: Lows, free: Ints, pages: Slots,
    sizes: Slots, places: Slots, state: Ints, changed: Slots, wanting: Slots,
) -> tuple[Int, Int]:  # fmt: skip
    """Move the window on; return how many slots are in `changed` and in `wanting`."""
    first -= state[BASE]
    count, wants = np.int64(0), np.int64(0)
    due = due_slots(first, oldest, pages, changed)
    state[FIRST] = first
    for i in range(due):
        if i + 2 * _AHEAD < due:
            prefetch(heads, 4 * np.int64(changed[i + 2 * _AHEAD]))
            prefetch(theta, np.int64(changed[i + 2 * _AHEAD]))
        if i + _AHEAD < due:
            start, ahead = np.int64(heads[changed[i + _AHEAD], START]), np.int64(heads[changed[i + _AHEAD], LENGTH])
            for e in range(start, start + ahead + 7, 8):
                prefetch(high, e)
            for e in range(start, start + ahead + 31, 32):
                prefetch(low, e)
        slot = np.int64(changed[i])
        gone = _shed(slot, first, heads, high, low)
        length = np.int64(heads[slot, LENGTH])
        if length > 0:
            k = np.int64(heads[slot, PACKED]) >> K_SHIFT
            stand(slot, _oldest(np.int64(heads[slot, START]), min(length, k), high, low), oldest, pages)
        if gone:
            changed[count] = slot
            count += 1
        if _wants(slot, theta, heads):
            wanting[wants] = slot
            wants += 1
    return count, wants


@lean_kernel
def _expire_some(
    slots: Slots, firsts: Ints, theta: Floats, heads: Slots, high: Highs, low: Lows, state: Ints, changed: Slots,
    wanting: Slots,
) -> tuple[Int, Int]:  # fmt: skip
    """Drop entries of some buffers by a window of each; where they stand in the calendar is early enough."""
    count, wants = np.int64(0), np.int64(0)
    for i in range(slots.shape[0]):
        slot = np.int64(slots[i])
        if _shed(slot, firsts[i] - state[BASE], heads, high, low):
            changed[count] = slot
            count += 1
        if _wants(slot, theta, heads):
            wanting[wants] = slot
            wants += 1
    return count, wants


@kernel
def _refill(
    begin: Int, slots: Slots, off: Ints, numbers: Ints, scores: Floats, floor: Floats, theta: Floats, heads: Slots,
    oldest: Slots, high: Highs, low: Lows, free: Ints, pages: Slots, sizes: Slots, places: Slots, state: Ints,
) -> Int:  # fmt: skip
    """Replace buffers by what was found, from `begin` on; return where to go on when the pools have grown, or the end."""
    most = np.int64(0)
    for i in range(begin, slots.shape[0]):
        most = max(most, off[i + 1] - off[i])
    found_high, found_low, found_places = np.empty(most, np.int64), np.empty(most, low.dtype), np.empty(most, np.int32)
    for i in range(begin, slots.shape[0]):
        slot = np.int64(slots[i])
        packed = np.int64(heads[slot, PACKED])
        k, block_class = packed >> K_SHIFT, (packed >> CLASS_SHIFT) & CLASS_MASK
        length = off[i + 1] - off[i]
        for e in range(length):
            score, place = scores[off[i] + e], max(numbers[off[i] + e] - state[BASE], np.int64(0))
            if not fits(score, low):
                state[ODD] = 1
                return np.int64(i)
            found_high[e], found_low[e] = high_of(score, place, low), low_of(place, low)
        bound, cut = floor[i], np.int64(NO_CUT)
        if length > 0 and scores[off[i] + length - 1] == bound:
            cut = max(numbers[off[i] + length - 1] - state[BASE], np.int64(NO_CUT))
        length = _prune(np.int64(0), length, k, state[FIRST], state[SKYBAND], found_high, found_low, found_places)
        if length > sizes[k, 0]:
            length = max(k, np.int64(sizes[k, 1]))
            bound, cut = score_at(found_high, found_low, length), np.int64(place_at(found_high, found_low, length))
        fitting = np.int64(0)
        if length > 0:
            least = np.int64(sizes[k, 2]) if bound > -np.inf else np.int64(0)  # few are all there is to know
            fitting = class_of(max(length, min(np.int64(sizes[k, 0]), length + 1 + (length >> 3)), least))
        if fitting != block_class:
            block = take_block(fitting, high, free, state)
            if block < 0:
                return np.int64(i)
            give_block(np.int64(heads[slot, START]), block_class, high, free, state)
            _set_block(slot, block, fitting, heads)
        base = np.int64(heads[slot, START])
        for e in range(length):
            high[base + e], low[base + e] = found_high[e], found_low[e]
        heads[slot, PACKED] &= ~WANTING
        _set_threshold(slot, bound, cut, theta, heads)
        heads[slot, LENGTH] = length
        if length > 0:
            stand(slot, _oldest(base, min(length, k), high, low), oldest, pages)
        else:
            leave(slot, oldest)
    return np.int64(slots.shape[0])


@lean_kernel
def _raise_to(
    slots: Slots, floors: Floats, cuts: Ints, theta: Floats, heads: Slots, high: Highs, low: Lows,
    state: Ints,
) -> None:  # fmt: skip
    """Raise thresholds to those of others, and drop what is below."""
    for i in range(slots.shape[0]):
        slot, cut = np.int64(slots[i]), max(cuts[i], state[BASE] + NO_CUT) - state[BASE]
        if floors[i] < theta[slot] or (floors[i] == theta[slot] and cut <= heads[slot, CUT]):
            continue
        _set_threshold(slot, floors[i], cut, theta, heads)
        base, length = np.int64(heads[slot, START]), np.int64(heads[slot, LENGTH])
        while length > 0:
            score = score_at(high, low, base + length - 1)
            if score > floors[i] or (score == floors[i] and place_at(high, low, base + length - 1) >= cut):
                break
            length -= 1
        heads[slot, LENGTH] = length


@lean_kernel
def open_buffers(slots: Slots, wanted: Slots, theta: Floats, heads: Slots, oldest: Slots) -> None:
    """Begin empty buffers that know everything; they take no block before the first entry comes."""
    for i in range(slots.shape[0]):
        slot = np.int64(slots[i])
        theta[slot] = -np.inf
        heads[slot, START] = 0
        heads[slot, LENGTH] = 0
        heads[slot, PACKED] = np.int64(wanted[i]) << K_SHIFT
        heads[slot, CUT] = NO_CUT
        leave(slot, oldest)


@lean_kernel
def _close(
    slots: Slots, theta: Floats, heads: Slots, oldest: Slots, high: Highs, low: Lows, free: Ints, pages: Slots,
    sizes: Slots, places: Slots, state: Ints,
) -> None:  # fmt: skip
    """Give back what buffers take."""
    for i in range(slots.shape[0]):
        slot = np.int64(slots[i])
        leave(slot, oldest)
        block_class = (np.int64(heads[slot, PACKED]) >> CLASS_SHIFT) & CLASS_MASK
        give_block(np.int64(heads[slot, START]), block_class, high, free, state)
        heads[slot, LENGTH] = 0
        heads[slot, PACKED] = 0


@lean_kernel
def gather(
    slots: Slots,
    whole: bool,
    heads: Slots,
    high: Highs,
    low: Lows,
    base: Int,
    off: Ints,
    numbers: Ints,
    scores: Floats,
) -> None:
    """Copy results, or whole buffers; `off` has their places."""
    for i in range(slots.shape[0]):
        if i + _AHEAD < slots.shape[0]:
            ahead = np.int64(heads[slots[i + _AHEAD], START])
            for e in range(ahead, ahead + heads[slots[i + _AHEAD], LENGTH], 8):
                prefetch(high, e)
                prefetch(low, e)
        start, length = np.int64(heads[slots[i], START]), np.int64(heads[slots[i], LENGTH])
        if not whole:
            length = min(length, np.int64(heads[slots[i], PACKED]) >> K_SHIFT)
        begin, target = np.uint64(start), np.uint64(off[i])
        for e in range(np.uint64(length)):
            numbers[target + e] = base + place_at(high, low, begin + e)
        for e in range(np.uint64(length)):
            scores[target + e] = score_at(high, low, begin + e)


@lean_kernel
def rebase(slots: Slots, by: Int, heads: Slots, oldest: Slots, pages: Slots, high: Highs, low: Lows) -> None:
    """Count `seq` from a later base; what is far behind it has expired, wherever it is."""
    for page in range(pages.shape[0]):
        pages[page] = NO_CUT  # not later than any
    for i in range(slots.shape[0]):
        slot = np.int64(slots[i])
        if heads[slot, CUT] != NO_CUT:
            heads[slot, CUT] = max(heads[slot, CUT] - by, np.int64(NO_CUT))
        if oldest[slot] != NOWHERE:
            oldest[slot] = max(oldest[slot] - by, np.int64(NO_CUT))
        start = np.int64(heads[slot, START])
        for e in range(start, start + heads[slot, LENGTH]):
            score, place = score_at(high, low, e), max(np.int64(place_at(high, low, e)) - by, np.int64(0))
            high[e], low[e] = high_of(score, place, low), low_of(place, low)


@lean_kernel
def repack(
    slots: Slots, heads: Slots, high: Highs, low: Lows, new_high: Highs, new_low: Lows, state: Ints
) -> None:  # fmt: skip
    """Copy buffers, one block after the other, into new pools; their keys become what these have."""
    state[TOP] = 0
    for i in range(slots.shape[0]):
        slot = np.int64(slots[i])
        start, length = np.int64(heads[slot, START]), np.int64(heads[slot, LENGTH])
        for e in range(length):
            score, place = score_at(high, low, start + e), np.int64(place_at(high, low, start + e))
            new_high[state[TOP] + e], new_low[state[TOP] + e] = high_of(score, place, new_low), low_of(place, new_low)
        heads[slot, START] = state[TOP]
        state[TOP] += room_of((np.int64(heads[slot, PACKED]) >> CLASS_SHIFT) & CLASS_MASK)
    state[USED] = state[TOP]


#: Their arguments come as tuples of arrays, which a type checker cannot count.
enter: Any = _enter
expire: Any = _expire
expire_some: Any = _expire_some
refill: Any = _refill
raise_to: Any = _raise_to
close: Any = _close
