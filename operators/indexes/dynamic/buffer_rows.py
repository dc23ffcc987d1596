"""Kernels of threshold buffers: what a query knows, and which queries know of an object.

    rows      int64, a line of the cache a query: START, where its buffer begins (-1: it has none); COUNT; K; ROOM; THETA as
              float64; CUT, of the objects that score THETA those first seen by then are known; MARKS; one spare
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

from operators.indexes.core.prefetch import prefetch
from streams.kernel import kernel

__all__ = [
    "CHANGED",
    "COUNT",
    "CUT",
    "FREE",
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
    "install",
    "leave",
    "listed",
    "needed",
    "relink",
]

START, COUNT, K, ROOM, THETA, CUT, MARKS = range(7)
TOP, SHORT, RETUNED, CHANGED, FREE = range(5)
LIST_CLASSES = 56
_IS_SHORT, _IS_RETUNED, _IS_CHANGED = 1, 2, 4
_LENGTH, _CLASS_BITS = 0xFFFFFF, 24
_AHEAD = 8


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
def _mark(slot: int, mark: int, at: int, rows: Any, queue: Any, state: Any) -> None:
    """Note a query in a queue, once."""
    if rows[slot, MARKS] & mark == 0:
        rows[slot, MARKS] |= mark
        queue[state[at]] = slot
        state[at] += 1


@kernel
def leave(
    objects: Any, rows: Any, thetas: Any, members: Any, scores: Any, heads: Any, pool: Any,
    short: Any, changed: Any, state: Any, places: Any,
) -> None:  # fmt: skip
    """Take objects out of all buffers; note which fall short of k. `places` has room for the longest list."""
    for i in range(objects.shape[0]):
        if i + 1 < objects.shape[0]:
            ahead = heads[objects[i + 1]]
            for j in range(ahead >> 32, (ahead >> 32) + (ahead & _LENGTH)):
                prefetch(rows, 8 * np.int64(pool[j]))
        head = heads[objects[i]]
        count, kind, start = head & _LENGTH, (head >> _CLASS_BITS) & 63, head >> 32
        if count == 0:
            continue
        for j in range(start, start + count):
            if j + _AHEAD < start + count:
                line = pool[j + _AHEAD]
                for p in range(rows[line, START], rows[line, START] + rows[line, COUNT], 16):
                    prefetch(members, p)
            slot = pool[j]
            first, held = rows[slot, START], rows[slot, COUNT]
            places[j - start] = -1
            for p in range(first, first + held):
                if members[p] == objects[i]:
                    places[j - start] = p
                    prefetch(scores, p)
                    prefetch(scores, first + held - 1)
                    break
        for j in range(start, start + count):
            p, slot = places[j - start], pool[j]
            if p < 0:
                continue
            held = rows[slot, COUNT]
            last = rows[slot, START] + held - 1
            members[p], scores[p] = members[last], scores[last]
            rows[slot, COUNT] = held - 1
            _mark(slot, _IS_CHANGED, CHANGED, rows, changed, state)
            if held <= rows[slot, K] and thetas[slot, THETA] > -np.inf:
                _mark(slot, _IS_SHORT, SHORT, rows, short, state)
        pool[start] = state[FREE + kind]
        state[FREE + kind] = start
        heads[objects[i]] = 0


@kernel
def _better(score: float, seen: int, other: float, other_seen: int) -> bool:
    return score > other or (score == other and seen < other_seen)


@kernel
def _trim(slot: int, keep: int, rows: Any, thetas: Any, members: Any, scores: Any, first_seen: Any) -> None:
    """Keep the best of a buffer, by quickselect; the worst that is kept is the threshold."""
    start = rows[slot, START]
    low, high, nth = start, start + rows[slot, COUNT] - 1, start + keep - 1
    while low < high:
        middle = (low + high) >> 1
        pivot, pivot_seen = scores[middle], first_seen[members[middle]]
        i, j = low, high
        while i <= j:
            while _better(scores[i], first_seen[members[i]], pivot, pivot_seen):
                i += 1
            while _better(pivot, pivot_seen, scores[j], first_seen[members[j]]):
                j -= 1
            if i <= j:
                scores[i], scores[j] = scores[j], scores[i]
                members[i], members[j] = members[j], members[i]
                i += 1
                j -= 1
        if nth <= j:
            high = j
        elif nth >= i:
            low = i
        else:
            break
    rows[slot, COUNT] = keep
    thetas[slot, THETA] = scores[nth]
    rows[slot, CUT] = first_seen[members[nth]]


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
    retuned: Any, changed: Any, state: Any, taken: Any,
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
        _mark(slot, _IS_CHANGED, CHANGED, rows, changed, state)
        if rows[slot, COUNT] == rows[slot, ROOM]:
            keep = rows[slot, K] + int(reserve * (rows[slot, ROOM] - rows[slot, K]))
            _trim(slot, keep, rows, thetas, members, scores, first_seen)
            _mark(slot, _IS_RETUNED, RETUNED, rows, retuned, state)


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
        pool[(head >> 32) + (head & _LENGTH)] = slots[i]
        heads[o] = head + 1


@kernel
def install(
    first: int, slots: Any, off: Any, found: Any, value: Any, whole: Any, first_seen: Any, rows: Any, thetas: Any,
    members: Any, scores: Any, heads: Any, pool: Any, retuned: Any, changed: Any, state: Any,
) -> int:  # fmt: skip
    """Add what was found to buffers, and set their thresholds; return how many there was room for in the pool."""
    for i in range(first, slots.shape[0]):
        slot = slots[i]
        room = 0
        for p in range(off[i], off[i + 1]):
            head = heads[found[p]]
            if head == 0 or head & _LENGTH == _size((head >> _CLASS_BITS) & 63):
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
        rows[slot, MARKS] &= ~_IS_SHORT
        _mark(slot, _IS_RETUNED, RETUNED, rows, retuned, state)
        _mark(slot, _IS_CHANGED, CHANGED, rows, changed, state)
    return int(slots.shape[0])


@kernel
def _link(o: int, slot: int, heads: Any, pool: Any, state: Any) -> None:
    """Put a query into the list of an object, once."""
    head = heads[o]
    count, kind, start = head & _LENGTH, (head >> _CLASS_BITS) & 63, head >> 32
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
                pool[(head >> 32) + (head & _LENGTH)] = slot
                heads[members[p]] = head + 1
    return True
