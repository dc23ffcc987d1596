"""Blocks of entries in the pools of the buffers, for kernels: sizes in eighths of a power of two, free ones in lists.

Buffers are most of what a subscription takes, so a block is at most an eighth larger than what it was asked for.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from streams.kernel import lean_kernel

__all__ = ["BLOCK_CLASSES", "NEED", "TOP", "USED", "class_of", "give_block", "room_of", "take_block"]

Int = Any  # a machine integer, numpy's or Python's
Ints = NDArray[np.int64]
Entries = NDArray[Any]  # of integers that are long enough

#: No block, and eight sizes from each power of two on: 8, 9, 10 ... 15, 16, 18, 20 ... up to 2^30.
BLOCK_CLASSES = 1 + 8 * 28

#: Places in `state`: end of the entries in use; entries that must be made room for; entries of blocks that are taken.
TOP, NEED, USED = range(3)


@lean_kernel
def class_of(size: Int) -> Int:
    """Return the class of the smallest block with room for so many."""
    if size <= 0:
        return np.int64(0)
    shift = np.int64(0)
    while (np.int64(15) << shift) < size:
        shift += 1
    eighths = max(np.int64(8), (size + (np.int64(1) << shift) - 1) >> shift)
    return 1 + 8 * shift + eighths - 8


@lean_kernel
def room_of(block_class: Int) -> Int:
    """Return the room of a block."""
    if block_class == 0:
        return np.int64(0)
    return np.int64(8 + ((block_class - 1) & 7)) << ((block_class - 1) >> 3)


@lean_kernel
def take_block(block_class: Int, seq: Entries, free: Ints, state: Ints) -> Int:
    """Return the start of a block, or -1 where the pools must grow first; class 0 is nothing, and starts anywhere."""
    room = room_of(block_class)
    head = free[block_class]
    if head >= 0:
        free[block_class] = seq[head]
    else:
        if state[TOP] + room > seq.shape[0]:
            state[NEED] = room
            return np.int64(-1)
        head = state[TOP]
        state[TOP] += room
    state[USED] += room
    return head


@lean_kernel
def give_block(start: Int, block_class: Int, seq: Entries, free: Ints, state: Ints) -> None:
    """Put a block into the list of free ones of its class."""
    if block_class > 0:
        seq[start] = free[block_class]
        free[block_class] = start
        state[USED] -= room_of(block_class)
