"""Kernels of many lists of numbers in one pool: a row of `heads` says where the block of a list begins, its length, its class.

A list that is full moves to a larger block; where the pool has none left, a larger pool takes its place.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from operators.indexes.topk.buffer_blocks import class_of, give_block, room_of, take_block
from streams.kernel import kernel

__all__ = ["CLASS", "LENGTH", "START", "add_to", "remove_from"]

Int = Any  # a machine integer, numpy's or Python's
Ints = NDArray[np.int64]
Slots = NDArray[np.int32]

START, LENGTH, CLASS = range(3)


@kernel
def add_to(which: Int, number: Int, heads: Ints, pool: Slots, free: Ints, blocks: Ints) -> Slots:
    """Put a number at the end of a list; return the pool, which may be a larger one."""
    count = heads[which, LENGTH]
    if count == room_of(heads[which, CLASS]):
        larger = class_of(count + 1 + (count >> 1))
        block = take_block(larger, pool, free, blocks)
        if block < 0:
            more = np.empty(2 * pool.shape[0] + room_of(larger), np.int32)
            more[: pool.shape[0]] = pool
            pool = more
            block = take_block(larger, pool, free, blocks)
        for p in range(count):
            pool[block + p] = pool[heads[which, START] + p]
        give_block(heads[which, START], heads[which, CLASS], pool, free, blocks)
        heads[which, START], heads[which, CLASS] = block, larger
    pool[heads[which, START] + count] = number
    heads[which, LENGTH] = count + 1
    return pool


@kernel
def remove_from(which: Int, number: Int, heads: Ints, pool: Slots) -> None:
    """Take a number out of a list that has it; the last one takes its place."""
    p = heads[which, START]
    while pool[p] != number:
        p += 1
    heads[which, LENGTH] -= 1
    pool[p] = pool[heads[which, START] + heads[which, LENGTH]]
