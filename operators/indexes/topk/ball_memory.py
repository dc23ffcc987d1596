"""Memory of the ball index, as kernels: rows of subscriptions with many keywords, and moving together what is in use.

The layout is in `operators.indexes.topk.ball_kernels`.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from operators.indexes.knn.blocks import class_of, room_of
from operators.indexes.topk.ball_kernels import (
    BALLS_LOST,
    BALLS_TOP,
    BEGIN,
    FINEST,
    GRID,
    IN_TAIL,
    LEVELS,
    MORE_TOP,
    ROOM,
    STARTS_LOST,
    STARTS_TOP,
    TAIL,
    grid_of,
)
from operators.indexes.topk.scored_table import COUNT, INLINE
from streams.kernel import kernel

__all__ = ["close_rows", "open_rows", "squeeze"]

Ints = NDArray[np.int64]
Singles = NDArray[np.float32]
Slots = NDArray[np.int32]
Pool = Any  # the tuple of arrays that an index is made of


@kernel
def open_rows(slots: Slots, parts: Slots, places: Slots, more: Slots, free: Slots, state: Ints) -> bool:
    """Give subscriptions with many keywords their rows in `more`; return whether there was room, else nothing is done."""
    wanted = 0
    for i in range(slots.shape[0]):
        if parts[slots[i], COUNT] > INLINE:
            wanted += room_of(class_of(parts[slots[i], COUNT]))
    if state[MORE_TOP] + wanted > more.shape[0]:
        return False
    for i in range(slots.shape[0]):
        if parts[slots[i], COUNT] > INLINE:
            block = class_of(parts[slots[i], COUNT])
            head = np.int64(free[block])
            if head >= 0:
                free[block] = more[head]
            else:
                head = state[MORE_TOP]
                state[MORE_TOP] += room_of(block)
            places[slots[i], 0] = head
    return True


@kernel
def close_rows(slots: Slots, parts: Slots, places: Slots, more: Slots, free: Slots) -> None:
    """Take these rows back."""
    for i in range(slots.shape[0]):
        if parts[slots[i], COUNT] > INLINE:
            block = class_of(parts[slots[i], COUNT])
            more[places[slots[i], 0]] = free[block]
            free[block] = places[slots[i], 0]


@kernel
def squeeze(order: Slots, pool: Pool, balls: Singles, owners: Slots, starts: Slots) -> None:
    """Copy what is in use, word by word in this order, into other arrays."""
    was, whose, words, _, cells, _, _, _, state = pool
    top = at = np.int64(0)
    for i in range(order.shape[0]):
        word = np.int64(order[i])
        begin, grid = np.int64(words[word, BEGIN]), np.int64(words[word, GRID])
        used = words[word, TAIL] + words[word, IN_TAIL]
        for c in range(5):
            for p in range(used):
                balls[c, top + p] = was[c, begin + p]
        for c in range(2):
            for p in range(used):
                owners[c, top + p] = whose[c, begin + p]
        words[word, BEGIN] = top
        top += words[word, ROOM]
        if words[word, LEVELS]:
            size = grid_of(word, FINEST + 1, words) - grid + 1
            for p in range(size):
                starts[at + p] = cells[grid + p]
            words[word, GRID] = at
            at += size
    state[BALLS_TOP], state[STARTS_TOP] = top, at
    state[BALLS_LOST] = state[STARTS_LOST] = 0
