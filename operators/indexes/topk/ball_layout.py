"""How the balls of a word are laid out: levels by size, cells, a tail; `ball_kernels` has the arrays."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from operators.indexes.knn.lanes import LANES
from operators.indexes.topk.ball_kernels import (
    _AHEAD,
    ASTRAY,
    BALLS,
    BALLS_LOST,
    BALLS_TOP,
    BEGIN,
    FEW,
    FINEST,
    FLAT,
    GRID,
    IN_TAIL,
    LEVELS,
    LISTS,
    NEED_BALLS,
    NEED_SCRATCH,
    NEED_STARTS,
    OWN,
    OWNER,
    REFERENCE,
    REST,
    ROOM,
    SEEN,
    SIGNATURE,
    START,
    STARTS_LOST,
    STARTS_TOP,
    TAIL,
    TAILED,
    USUAL,
    WASTED,
    U,
    V,
    _cell,
    _cells,
    _group,
    _hole,
    _list,
    _note,
    _steep,
    _wanted,
    _write,
    grid_of,
)
from operators.indexes.topk.scored_table import INLINE
from streams.kernel import kernel, lean_kernel
from streams.prefetch import prefetch

Int = Any  # a machine integer, numpy's or Python's
Single = Any  # a float32
Ints = NDArray[np.int64]
Slots = NDArray[np.int32]
Pool = Any  # the tuple of arrays that an index is made of
Rows = Any  # the arrays of the table


@lean_kernel
def _gather(word: Int, pool: Pool, scratch: Any) -> Int:
    """Copy the balls of a word; return how many there are."""
    balls, owners, words = pool[0], pool[1], pool[2]
    taken, owned, _ = scratch
    begin, count = np.int64(words[word, BEGIN]), np.int64(0)
    for p in range(begin, begin + words[word, TAIL] + words[word, IN_TAIL]):
        if owners[OWNER, p] >= 0:
            for c in range(5):
                taken[c, count] = balls[c, p]
            owned[SIGNATURE, count], owned[OWNER, count] = owners[SIGNATURE, p], owners[OWNER, p]
            count += 1
    return count


@kernel
def _levels(count: Int, reference: Single, scratch: Any) -> Int:
    """Find out where each ball should be filed, and make do without levels that would have more cells than they are worth."""
    taken, _, codes = scratch
    crowd = np.zeros(FINEST + 1, np.int64)
    for i in range(count):
        codes[i] = _wanted(_steep(taken[OWN, i], taken[REST, i]), taken[START, i], reference)
        crowd[max(codes[i] - LISTS, 0)] += 1
    instead = np.empty(FINEST + 1, np.int64)
    mask: Int = np.int64(0)
    for level in range(FINEST, 0, -1):
        instead[level] = level
        if crowd[level] * 2 < _cells(level):
            instead[level] = level - 1
            crowd[level - 1] += crowd[level]
        elif crowd[level] > 0:
            mask |= np.int64(1) << level
    instead[0] = 0
    if crowd[0] > 0:
        mask |= 1
    for i in range(count):
        if codes[i] > LISTS:
            at = np.int64(codes[i] - LISTS)
            while instead[at] != at:
                at = instead[at]
            codes[i] = LISTS + at
            if at == 0:
                codes[i] = _list(_steep(taken[OWN, i], taken[REST, i]), taken[START, i], reference)
    return mask


@lean_kernel
def layout(
    word: Int, u: Single, v: Single, own: Single, rest: Single, start: Single, sign: Int, owner: Int, rows: Rows, pool: Pool,
    scratch: Any,
) -> bool:  # fmt: skip
    """Lay out the balls of a word anew, with one more unless `owner` is -1; return False, with nothing done, without room."""
    balls, _, words, marks, starts, _, places, more, state = pool
    taken, owned, codes = scratch
    if words[word, BALLS] + 1 > codes.shape[0]:
        state[NEED_SCRATCH] = words[word, BALLS] + 1
        return False
    count = _gather(word, pool, scratch)
    if owner >= 0:
        taken[U, count], taken[V, count], taken[OWN, count], taken[REST, count], taken[START, count] = (
            u,
            v,
            own,
            rest,
            start,
        )
        owned[SIGNATURE, count], owned[OWNER, count] = sign, owner
        count += 1
    reference = marks[word, USUAL] if words[word, SEEN] > 0 else np.float32(1.0)
    mask: Int = np.int64(0)
    size: Int = np.int64(0)
    room = count + max(count // 2, 1)
    if count > FLAT:
        mask = _levels(count, reference, scratch)
        size = 1
        for level in range(FINEST + 1):
            if (mask >> level) & 1:
                size += 1 + _cells(level)
        room = 2 * count + count // 16 + 4
    if state[STARTS_TOP] + size > starts.shape[0] or state[BALLS_TOP] + room > balls.shape[1] - LANES:
        # Both are asked for: what makes room for one of them leaves the other no more than was asked for.
        state[NEED_STARTS], state[NEED_BALLS] = size, room
        return False
    _forget(word, words, state)
    begin = state[BALLS_TOP]
    words[word, BEGIN], words[word, GRID], words[word, LEVELS] = begin, state[STARTS_TOP], mask
    words[word, BALLS], words[word, ASTRAY], words[word, WASTED] = count, 0, 0
    words[word, SEEN] = min(words[word, SEEN], FEW)
    marks[word, REFERENCE] = reference
    if mask:
        tail = _fill(word, count, size, rows, pool, scratch)
        words[word, TAIL], words[word, IN_TAIL] = tail, 0
        room = tail + count // 16 + 4
    else:
        for i in range(count):
            _write(begin + i, taken[U, i], taken[V, i], taken[OWN, i], taken[REST, i], taken[START, i],
                   np.int64(owned[SIGNATURE, i]), owned[OWNER, i], pool)  # fmt: skip
            _note(owned[OWNER, i], word, i, np.int64(TAILED), rows, places, more)
        words[word, TAIL], words[word, IN_TAIL] = 0, count
    words[word, ROOM] = room
    state[BALLS_TOP] += room
    state[STARTS_TOP] += size
    return True


@kernel
def _fill(word: Int, count: Int, size: Int, rows: Rows, pool: Pool, scratch: Any) -> Int:
    """Fill lists and cells, each with room for a quarter more; return where they end."""
    _, owners, words, _, starts, lifts, places, more, _ = pool
    taken, owned, codes = scratch
    begin, mask = np.int64(words[word, BEGIN]), np.int64(words[word, LEVELS])
    grid: Int = np.int64(words[word, GRID])
    for at in range(grid, grid + size):
        starts[at] = 0
    group, base = np.zeros(FINEST + 1, np.int64), np.zeros(FINEST + 1, np.int64)
    groups = _group(mask, FINEST + 1)
    first = grid + groups
    at = first
    for level in range(FINEST + 1):
        if (mask >> level) & 1:
            group[level], base[level] = grid + _group(mask, level), at
            at += _cells(level)
    for i in range(count):
        level = max(codes[i] - LISTS, 0)
        at = base[level] + (_cell(taken[U, i], taken[V, i], level) if level > 0 else np.int64(codes[i]))
        starts[at + 1] += 1
        lifts[group[level]] = max(lifts[group[level]], _steep(taken[OWN, i], taken[REST, i]))
    for at in range(first + 1, grid + size):
        starts[at] = starts[at - 1] + starts[at] + (starts[at] + 3) // 4
    tail = np.int64(starts[grid + size - 1])
    for p in range(begin, begin + tail):
        _hole(p, pool)
    for i in range(count):
        if i + _AHEAD < count:
            prefetch(places, np.int64(owned[OWNER, i + _AHEAD] >> 3) * INLINE)
        level = max(codes[i] - LISTS, 0)
        at = base[level] + (_cell(taken[U, i], taken[V, i], level) if level > 0 else np.int64(codes[i]))
        # The last place of a cell is never filled here. It counts: -1 less the balls that have come.
        last = begin + starts[at + 1] - 1
        place = np.int64(starts[at]) - owners[OWNER, last] - 1
        owners[OWNER, last] -= 1
        _write(begin + place, taken[U, i], taken[V, i], taken[OWN, i], taken[REST, i], taken[START, i],
               np.int64(owned[SIGNATURE, i]), owned[OWNER, i], pool)  # fmt: skip
        _note(owned[OWNER, i], word, place, np.int64(codes[i]), rows, places, more)
    return tail


@lean_kernel
def _forget(word: Int, words: Slots, state: Ints) -> None:
    """Give up the memory of a word."""
    state[BALLS_LOST] += words[word, ROOM]
    mask = np.int64(words[word, LEVELS])
    if mask:
        state[STARTS_LOST] += grid_of(word, FINEST + 1, words) - words[word, GRID] + 1
    words[word, ROOM] = words[word, TAIL] = words[word, IN_TAIL] = words[word, LEVELS] = 0
