"""Kernels of the table of objects: words of states in lines of the cache, those of many words in a pool.

A line is 64 bytes, eight float64 of which the last five are ten int32:

    X, Y, NORM     the place, and |o| of `streams.scoring`
    COUNT          the number of keywords
    FIRST...       the keywords as words, ids ascending, up to `INLINE`; of more the first place tells where
                   they begin in the pool
"""

import numpy as np
from numpy.typing import NDArray

from streams.kernel import kernel

__all__ = ["COUNT", "FIRST", "INLINE", "NORM", "WIDTH", "X", "Y", "lines_for", "read_words", "repack", "write_words"]

Slots = NDArray[np.int32]
Floats = NDArray[np.float64]

X, Y, NORM = range(3)
COUNT, FIRST, INLINE = 6, 7, 9
WIDTH = 8
_LINE_BYTES = 64


@kernel
def write_words(slots: Slots, off: Slots, words: Slots, parts: Slots, long: Slots, top: int) -> int:
    """File words; return the new end of the pool."""
    for i in range(slots.shape[0]):
        slot, first, count = slots[i], off[i], off[i + 1] - off[i]
        parts[slot, COUNT] = count
        if count <= INLINE:
            for j in range(INLINE):
                parts[slot, FIRST + j] = words[first + j] if j < count else -1
        else:
            parts[slot, FIRST] = top
            for j in range(count):
                long[top + j] = words[first + j]
            top += count
    return top


@kernel
def read_words(slots: Slots, parts: Slots, long: Slots, off: Slots, out: Slots) -> None:
    """Copy the words of slots to where their rows begin."""
    for i in range(slots.shape[0]):
        slot = slots[i]
        count = parts[slot, COUNT]
        for j in range(count):
            out[off[i] + j] = parts[slot, FIRST + j] if count <= INLINE else long[parts[slot, FIRST] + j]


@kernel
def repack(slots: Slots, parts: Slots, long: Slots, out: Slots) -> int:
    """Copy the words of slots that have many, one after the other; return where they end."""
    top = 0
    for i in range(slots.shape[0]):
        slot = slots[i]
        count, start = parts[slot, COUNT], parts[slot, FIRST]
        if count > INLINE:
            parts[slot, FIRST] = top
            for j in range(count):
                out[top + j] = long[start + j]
            top += count
    return top


def lines_for(count: int) -> Floats:
    """Return rows that begin at lines of the cache."""
    spare = np.zeros(WIDTH * count + WIDTH)
    skip = (-spare.ctypes.data % _LINE_BYTES) // spare.itemsize
    return spare[skip : skip + WIDTH * count].reshape(count, WIDTH)
