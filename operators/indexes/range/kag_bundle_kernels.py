"""Bundles of KAG: equal queries share a posting; `kag_group_kernels` has the layout."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from operators.indexes.range.kag_group_kernels import (
    ALIKE,
    BUNDLES_TOP,
    COMPARED,
    FREE_BUNDLE,
    HOLE,
    MEMBERS,
    NEXT_FREE,
    QUERIES,
    ROOM,
    SHARED,
    SLOT,
    SLOTS_AT,
    _class_of,
    _copy_all,
    _give_block,
    _size_of,
    _take_block,
)
from streams.kernel import lean_kernel

Int = Any  # a machine integer, numpy's or Python's
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Slots = NDArray[np.int32]
Postings = NDArray[np.uint32]


@lean_kernel
def _equal(one: Int, other: Int, shape: Floats, traits: Any, kw: Slots, pool: Slots) -> bool:
    """Tell whether two queries ask the same; who sleeps, and what was said that makes no difference, does not matter."""
    if traits[one] & 7 != traits[other] & 7 or traits[one] & 7 > 2:
        return False
    for k in range(4):
        if shape[one, k] != shape[other, k]:
            return False
    if kw[one, 0] != kw[other, 0] or kw[one, 1] != kw[other, 1]:
        return False
    if kw[one, 2] >= -1 or kw[other, 2] >= -1:
        return bool(kw[one, 2] == kw[other, 2])
    for j in range(pool[-2 - kw[one, 2]] + 1):  # noqa: SIM110 - a kernel has no generators
        if pool[-2 - kw[one, 2] + j] != pool[-2 - kw[other, 2] + j]:
            return False
    return True


@lean_kernel
def _partner(
    slot: Int, first: Int, last: Int, edge_x: Any, edge_y: Any, flags: Any, tags: Any, postings: Postings,
    bundles: Slots, shape: Floats, traits: Any, kw: Slots, pool: Slots,
) -> Int:  # fmt: skip
    """Return the place of a posting that an equal query is to share, among the last of a cell, or -1."""
    alike, found = 0, np.int64(-1)
    for place in range(last - 1, max(first, last - COMPARED) - 1, -1):
        if (
            postings[place, 0] == edge_x
            and postings[place, 1] == edge_y
            and postings[place, 3] == tags
            and (postings[place, 2] & ~(SLOT | SHARED)) == flags
            and postings[place, 2] != HOLE
        ):
            other = np.int64(postings[place, 2] & SLOT)
            shared = postings[place, 2] & SHARED != 0
            if shared:
                other = np.int64(postings[bundles[other, SLOTS_AT], 0])
            if _equal(slot, other, shape, traits, kw, pool):
                alike += 1
                if shared:
                    return np.int64(place)
                if found < 0:
                    found = np.int64(place)
    return found if alike >= ALIKE else np.int64(-1)


@lean_kernel
def _join(slot: Int, place: Int, postings: Postings, bundles: Slots, members: Slots, free: Slots, state: Ints) -> None:
    """Let a query share a posting; there is room for another bundle, and for this one to be half as large again."""
    if postings[place, 2] & SHARED == 0:
        other = np.int64(postings[place, 2] & SLOT)
        b = state[FREE_BUNDLE]
        if b >= 0:
            state[FREE_BUNDLE] = bundles[b, NEXT_FREE]
        else:
            b = state[BUNDLES_TOP]
            state[BUNDLES_TOP] += 1
        base = _take_block(1, postings, free, state)
        bundles[b, SLOTS_AT], bundles[b, QUERIES], bundles[b, ROOM] = base, 1, 4
        postings[base, 0] = np.uint32(other)
        members[other, 0], members[other, 1] = b + 1, 0
        state[MEMBERS] += 1
        postings[place, 2] = (postings[place, 2] & ~SLOT) | np.uint32(b) | SHARED
    b = np.int64(postings[place, 2] & SLOT)
    base, count, room = np.int64(bundles[b, SLOTS_AT]), np.int64(bundles[b, QUERIES]), np.int64(bundles[b, ROOM])
    if count == room:
        rows = _size_of(_class_of(room // 4 + room // 8 + 1))
        moved = _take_block(rows, postings, free, state)
        _copy_all(postings, base, moved, room // 4)
        _give_block(base, room // 4, postings, free, state)
        bundles[b, SLOTS_AT], bundles[b, ROOM] = moved, 4 * rows
        base = moved
    postings[base + (count >> 2), count & 3] = np.uint32(slot)
    members[slot, 0], members[slot, 1] = b + 1, count
    bundles[b, QUERIES] = count + 1
    state[MEMBERS] += 1


@lean_kernel
def _leave(slot: Int, postings: Postings, bundles: Slots, members: Slots, free: Slots, state: Ints) -> None:
    """Take a query out of its bundle; an empty one is closed."""
    b = np.int64(members[slot, 0]) - 1
    base, left, at = np.int64(bundles[b, SLOTS_AT]), np.int64(bundles[b, QUERIES]) - 1, np.int64(members[slot, 1])
    moved = postings[base + (left >> 2), left & 3]
    postings[base + (at >> 2), at & 3] = moved
    members[moved, 1] = at
    members[slot, 0] = members[slot, 1] = 0
    bundles[b, QUERIES] = left
    state[MEMBERS] -= 1
    if left == 0:
        _give_block(base, np.int64(bundles[b, ROOM]) // 4, postings, free, state)
        bundles[b, NEXT_FREE] = state[FREE_BUNDLE]
        state[FREE_BUNDLE] = b
