"""Kernels of threshold buffers: what a query knows, and which queries know of an object.

    rows      int64, a line of the cache a query: START, where its buffer begins (-1: it has none); COUNT; K; ROOM; THETA as
              float64; CUT, of the objects that score THETA those first seen by then are known; two spare
    marks     uint8, a query: which of `short`, `retuned` and `changed` it is in
    members   int32, and
    scores    float64: buffers, in no order
    heads     int64, an object: where the list of its queries begins << 32 | size class << 24 | how many there are; 0 for none
    pool      int32: the lists of queries
    state     int64: TOP of the pool; lengths of `short`, `retuned` and `changed`; then the first free block of each size class

An object that is in the buffer of a query has the query in its list; the list may have queries besides that have dropped it. A
list of class c has room for 4, 6, 8, 12, 16, 24, ...; a free one has the next free one in its first place.
"""

from typing import Any

import numpy as np

from streams.kernel import kernel
from streams.prefetch import prefetch

__all__ = [
    "CHANGED",
    "COUNT",
    "CUT",
    "FREE",
    "IS_CHANGED",
    "IS_RETUNED",
    "IS_SHORT",
    "LENGTH",
    "LIST_CLASSES",
    "RETUNED",
    "ROOM",
    "SHORT",
    "START",
    "THETA",
    "TOP",
    "K",
    "best_of",
    "enter",
    "freed",
    "install",
    "leave",
    "listed",
    "needed",
    "ranked",
    "relink",
]

START, COUNT, K, ROOM, THETA, CUT = range(6)
TOP, SHORT, RETUNED, CHANGED, FREE = range(5)
LIST_CLASSES = 56
IS_SHORT, IS_RETUNED, IS_CHANGED = np.uint8(1), np.uint8(2), np.uint8(4)
LENGTH, _CLASS_BITS = 0xFFFFFF, 24
_AHEAD, _LOT = 8, 16
_OBJECT = 0xFFFFFFFF


@kernel
def _size(kind: int) -> int:
    return int((4 if kind & 1 == 0 else 6) << (kind >> 1))


@kernel
def _kind(count: int) -> int:
    kind = 0
    while _size(kind) < count:
        kind += 1
    return kind


@kernel
def _block(kind: int, pool: Any, state: Any) -> int:
    """Return a list of a class; there is room for it."""
    block = state[FREE + kind]
    if block >= 0:
        state[FREE + kind] = pool[block]
        return int(block)
    block = state[TOP]
    state[TOP] += _size(kind)
    return int(block)


@kernel
def _mark(slot: int, mark: Any, at: int, marks: Any, queue: Any, state: Any) -> None:
    """Note a query in a queue, once."""
    if marks[slot] & mark == 0:
        marks[slot] |= mark
        queue[state[at]] = slot
        state[at] += 1


@kernel
def _place_of(object_: Any, members: Any) -> int:
    """Return where a buffer has an object, -1 for nowhere; without a branch, so that eight are compared at once."""
    at, wanted = np.int32(-1), np.int32(object_)
    for p in range(members.shape[0]):
        at = max(at, np.int32(p) if members[p] == wanted else np.int32(-1))
    return int(at)


@kernel
def freed(objects: Any, heads: Any, pool: Any, state: Any, ends: Any, shift: int, pairs: Any) -> None:
    """Write who has which object (query above, object below), by ranges of queries, and take the lists of objects back.

    There is room for all. `ends` has a place for each range of 1 << shift queries, and one more.
    """
    ends[:] = 0
    for i in range(objects.shape[0]):
        head = heads[objects[i]]
        for j in range(head >> 32, (head >> 32) + (head & LENGTH)):
            ends[(pool[j] >> shift) + 1] += 1
    for b in range(1, ends.shape[0]):
        ends[b] += ends[b - 1]
    for i in range(objects.shape[0]):
        head = heads[objects[i]]
        count, kind, start = head & LENGTH, (head >> _CLASS_BITS) & 63, head >> 32
        if count == 0:
            continue
        for j in range(start, start + count):
            b = pool[j] >> shift
            pairs[ends[b]] = (np.int64(pool[j]) << 32) | objects[i]
            ends[b] += 1
        pool[start] = state[FREE + kind]
        state[FREE + kind] = start
        heads[objects[i]] = 0


@kernel
def leave(
    pairs: Any, rows: Any, thetas: Any, members: Any, scores: Any, marks: Any, short: Any, changed: Any, state: Any
) -> None:
    """Take objects out of buffers that may have them; note which fall short of k.

    In lots, so that what they need is under way together. Two pairs of a lot may be of one buffer: then the place of the second
    is looked up again.
    """
    places, total = np.empty(_LOT, np.int64), pairs.shape[0]
    for begin in range(0, total, _LOT):
        end = min(begin + _LOT, total)
        for i in range(end + _LOT, min(end + 2 * _LOT, total)):
            prefetch(rows, 8 * (pairs[i] >> 32))
        for i in range(end, min(end + _LOT, total)):
            first = rows[pairs[i] >> 32, START]
            for p in range(first, first + rows[pairs[i] >> 32, COUNT], 16):
                prefetch(members, p)
        for i in range(begin, end):
            slot = pairs[i] >> 32
            first, held = rows[slot, START], rows[slot, COUNT]
            place = _place_of(pairs[i] & _OBJECT, members[first : first + held])
            places[i - begin] = first + place if place >= 0 else -1
            if place >= 0:
                prefetch(scores, first + place)
                prefetch(scores, first + held - 1)
        for i in range(begin, end):
            p, slot = places[i - begin], pairs[i] >> 32
            if p < 0:
                continue
            first, held = rows[slot, START], rows[slot, COUNT]
            if p >= first + held or members[p] != pairs[i] & _OBJECT:
                p = first + _place_of(pairs[i] & _OBJECT, members[first : first + held])
            last = first + held - 1
            members[p], scores[p] = members[last], scores[last]
            rows[slot, COUNT] = held - 1
            _mark(slot, IS_CHANGED, CHANGED, marks, changed, state)
            if held <= rows[slot, K] and thetas[slot, THETA] > -np.inf:
                _mark(slot, IS_SHORT, SHORT, marks, short, state)


@kernel
def _parted(low: int, high: int, members: Any, scores: Any, first_seen: Any) -> Any:
    """Part entries from `low` to `high` around one of them, better ones first; return where both parts end."""
    pivot, seen = scores[(low + high) >> 1], first_seen[members[(low + high) >> 1]]
    i, j = low, high
    while i <= j:
        while scores[i] > pivot or (scores[i] == pivot and first_seen[members[i]] < seen):
            i += 1
        while scores[j] < pivot or (scores[j] == pivot and first_seen[members[j]] > seen):
            j -= 1
        if i <= j:
            scores[i], scores[j] = scores[j], scores[i]
            members[i], members[j] = members[j], members[i]
            i += 1
            j -= 1
    return i, j


@kernel
def _select(low: int, high: int, nth: int, members: Any, scores: Any, first_seen: Any) -> None:
    """Bring the best of some entries to the front, up to the nth (quickselect)."""
    while low < high:
        i, j = _parted(low, high, members, scores, first_seen)
        if nth <= j:
            high = j
        elif nth >= i:
            low = i
        else:
            break


@kernel
def _trim(slot: int, keep: int, rows: Any, thetas: Any, members: Any, scores: Any, first_seen: Any) -> None:
    """Keep the best of a buffer; the worst that is kept is the threshold."""
    start = rows[slot, START]
    nth = start + keep - 1
    _select(start, start + rows[slot, COUNT] - 1, nth, members, scores, first_seen)
    rows[slot, COUNT] = keep
    thetas[slot, THETA] = scores[nth]
    rows[slot, CUT] = first_seen[members[nth]]


@kernel
def ranked(
    slots: Any, rows: Any, members: Any, scores: Any, first_seen: Any, off: Any, out_members: Any, out_scores: Any
) -> None:
    """Write the best k of each buffer, best first, to where its row begins."""
    listed, values, ends = np.empty(1024, np.int32), np.empty(1024), np.empty((64, 2), np.int64)
    for i in range(slots.shape[0]):
        if i + _AHEAD < slots.shape[0]:
            ahead = slots[i + _AHEAD]
            for p in range(rows[ahead, START], rows[ahead, START] + rows[ahead, COUNT], 8):
                prefetch(scores, p)
                prefetch(members, p)
        first, held, wanted = rows[slots[i], START], rows[slots[i], COUNT], off[i + 1] - off[i]
        if held > listed.shape[0]:
            listed, values = np.empty(2 * held, np.int32), np.empty(2 * held)
        for p in range(held):
            listed[p], values[p] = members[first + p], scores[first + p]
        if wanted < held:
            _select(0, held - 1, wanted - 1, listed, values, first_seen)
        # Quicksort, the larger part later: so few ends are open at a time.
        top, ends[0, 0], ends[0, 1] = 1, 0, wanted - 1
        while top > 0:
            top -= 1
            low, high = ends[top, 0], ends[top, 1]
            if high <= low:
                continue
            after, before = _parted(low, high, listed, values, first_seen)
            smaller = before - low < high - after
            ends[top, 0], ends[top, 1] = (after, high) if smaller else (low, before)
            ends[top + 1, 0], ends[top + 1, 1] = (low, before) if smaller else (after, high)
            top += 2
        for p in range(wanted):
            out_members[off[i] + p], out_scores[off[i] + p] = listed[p], values[p]


@kernel
def best_of(slots: Any, rows: Any, scores: Any, out: Any) -> None:
    """Write the best score of each buffer, -inf where it is empty."""
    for i in range(slots.shape[0]):
        if i + _AHEAD < slots.shape[0]:
            ahead = slots[i + _AHEAD]
            for p in range(rows[ahead, START], rows[ahead, START] + rows[ahead, COUNT], 8):
                prefetch(scores, p)
        best = -np.inf
        for p in range(rows[slots[i], START], rows[slots[i], START] + rows[slots[i], COUNT]):
            best = max(best, scores[p])
        out[i] = best


@kernel
def needed(objects: Any, taken: Any, tally: Any, pool: Any) -> int:
    """Count by object the pairs that were taken; return the room that lists of these need at most."""
    for i in range(objects.shape[0]):
        if taken[i]:
            tally[objects[i]] += 1
    room = 0
    for i in range(objects.shape[0]):
        if tally[objects[i]] > 0:
            room += _size(_kind(tally[objects[i]]))
            tally[objects[i]] = -tally[objects[i]]
    return room


@kernel
def enter(
    objects: Any, slots: Any, score: Any, reserve: Any, first_seen: Any, rows: Any, thetas: Any, members: Any, scores: Any,
    marks: Any, retuned: Any, changed: Any, state: Any, taken: Any,
) -> None:  # fmt: skip
    """Put objects into buffers; one that is full keeps its best, `reserve` of its slack beyond k."""
    for i in range(objects.shape[0]):
        if i + 2 * _AHEAD < objects.shape[0]:
            prefetch(rows, 8 * np.int64(slots[i + 2 * _AHEAD]))
        if i + _AHEAD < objects.shape[0]:
            ahead = slots[i + _AHEAD]
            prefetch(members, rows[ahead, START] + rows[ahead, COUNT])
            prefetch(scores, rows[ahead, START] + rows[ahead, COUNT])
        slot, o = slots[i], objects[i]
        theta = thetas[slot, THETA]
        taken[i] = rows[slot, START] >= 0 and (
            score[i] > theta or (score[i] == theta and first_seen[o] <= rows[slot, CUT])
        )
        if not taken[i]:
            continue
        place = rows[slot, START] + rows[slot, COUNT]
        members[place], scores[place] = o, score[i]
        rows[slot, COUNT] += 1
        _mark(slot, IS_CHANGED, CHANGED, marks, changed, state)
        if rows[slot, COUNT] == rows[slot, ROOM]:
            keep = rows[slot, K] + int(reserve * (rows[slot, ROOM] - rows[slot, K]))
            _trim(slot, keep, rows, thetas, members, scores, first_seen)
            _mark(slot, IS_RETUNED, RETUNED, marks, retuned, state)


@kernel
def listed(objects: Any, slots: Any, taken: Any, tally: Any, heads: Any, pool: Any, state: Any) -> None:
    """Give objects, which have no lists, lists of the queries whose buffers they are in; `tally` is as `needed` leaves it."""
    for i in range(objects.shape[0]):
        if not taken[i]:
            continue
        o = objects[i]
        if tally[o] < 0:
            kind = _kind(-tally[o])
            heads[o] = (_block(kind, pool, state) << 32) | (kind << _CLASS_BITS)
            tally[o] = 0
        head = heads[o]
        pool[(head >> 32) + (head & LENGTH)] = slots[i]
        heads[o] = head + 1


@kernel
def install(
    first: int, slots: Any, off: Any, found: Any, value: Any, whole: Any, first_seen: Any, rows: Any, thetas: Any,
    members: Any, scores: Any, marks: Any, heads: Any, pool: Any, retuned: Any, changed: Any, state: Any,
) -> int:  # fmt: skip
    """Add what was found to buffers, and set their thresholds; return how many there was room for in the pool."""
    for i in range(first, slots.shape[0]):
        slot = slots[i]
        if i + 1 < slots.shape[0]:
            for p in range(off[i + 1], off[i + 2]):
                prefetch(heads, found[p])
        room = 0
        for p in range(off[i], off[i + 1]):
            head = heads[found[p]]
            for j in range(head >> 32, (head >> 32) + (head & LENGTH) + 1, 16):
                prefetch(pool, j)
            if head == 0 or head & LENGTH == _size((head >> _CLASS_BITS) & 63):
                room += _size(((head >> _CLASS_BITS) & 63) + 1)
        if state[TOP] + room > pool.shape[0]:
            return i
        worst = np.inf
        cut = -1
        for p in range(off[i], off[i + 1]):
            place = rows[slot, START] + rows[slot, COUNT]
            members[place], scores[place] = found[p], value[p]
            rows[slot, COUNT] += 1
            if value[p] < worst or (value[p] == worst and first_seen[found[p]] > cut):
                worst, cut = value[p], first_seen[found[p]]
            _link(found[p], slot, heads, pool, state)
        thetas[slot, THETA], rows[slot, CUT] = (-np.inf, 0) if whole[i] else (worst, cut)
        _mark(slot, IS_RETUNED, RETUNED, marks, retuned, state)
        _mark(slot, IS_CHANGED, CHANGED, marks, changed, state)
    return int(slots.shape[0])


@kernel
def _link(o: int, slot: int, heads: Any, pool: Any, state: Any) -> None:
    """Put a query into the list of an object, once."""
    head = heads[o]
    count, kind, start = head & LENGTH, (head >> _CLASS_BITS) & 63, head >> 32
    for j in range(start, start + count):
        if pool[j] == slot:
            return
    if count == 0:
        kind = 0
        start = _block(kind, pool, state)
    elif count == _size(kind):
        block = _block(kind + 1, pool, state)
        for j in range(count):
            pool[block + j] = pool[start + j]
        pool[start] = state[FREE + kind]
        state[FREE + kind] = start
        start, kind = block, kind + 1
    pool[start + count] = slot
    heads[o] = (start << 32) | (kind << _CLASS_BITS) | (count + 1)


@kernel
def relink(rows: Any, count: int, members: Any, tally: Any, heads: Any, pool: Any, state: Any) -> bool:
    """Make all lists anew from the buffers of the first queries; return False where the pool is too small."""
    heads[:] = 0
    tally[:] = 0
    state[FREE:] = -1
    state[TOP] = 0
    for slot in range(count):
        if rows[slot, START] >= 0:
            for p in range(rows[slot, START], rows[slot, START] + rows[slot, COUNT]):
                tally[members[p]] += 1
    for o in range(heads.shape[0]):
        if tally[o] > 0:
            kind = _kind(tally[o])
            if state[TOP] + _size(kind) > pool.shape[0]:
                return False
            heads[o] = (_block(kind, pool, state) << 32) | (kind << _CLASS_BITS)
            tally[o] = 0
    for slot in range(count):
        if rows[slot, START] >= 0:
            for p in range(rows[slot, START], rows[slot, START] + rows[slot, COUNT]):
                head = heads[members[p]]
                pool[(head >> 32) + (head & LENGTH)] = slot
                heads[members[p]] = head + 1
    return True
