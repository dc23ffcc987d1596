"""Sizes of blocks in pools, for kernels: small ones exactly, larger ones in powers of two."""

from typing import Any

from streams.kernel import lean_kernel

__all__ = ["BLOCK_CLASSES", "EXACT", "class_of", "room_of"]

Int = Any  # a machine integer, numpy's or Python's

#: Blocks of up to so many have their own size; longer ones double.
EXACT = 16
#: One class for each exact size and none, and then up to 2^30.
BLOCK_CLASSES = EXACT + 1 + 26


@lean_kernel
def class_of(size: Int) -> Int:
    """Return the class of the smallest block with room for so many."""
    if size <= EXACT:
        return size
    block_class, room = EXACT, EXACT
    while room < size:
        room *= 2
        block_class += 1
    return block_class


@lean_kernel
def room_of(block_class: Int) -> Int:
    """Return the room of a block."""
    return block_class if block_class <= EXACT else EXACT << (block_class - EXACT)
