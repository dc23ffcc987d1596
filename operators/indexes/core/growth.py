"""Arrays with room for more rows."""

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

__all__ = ["grown", "lined"]

#: Bytes of a cache line.
LINE = 64


def grown(array: NDArray[Any], room: int) -> NDArray[Any]:
    """Return an array of so many rows that begins with another; rows that are never touched are address space, not memory."""
    larger = np.empty((room, *array.shape[1:]), array.dtype)
    larger[: len(array)] = array
    return larger


def lined(shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """Return an array, not filled, whose first row starts a cache line.

    Rows of 16 or 32 bytes are then never in two lines: a kernel asks for one ahead of time, and would wait for the other.
    """
    kind = np.dtype(dtype)
    size = int(np.prod(shape)) * kind.itemsize
    memory = np.empty(size + LINE, np.uint8)
    start = -memory.ctypes.data % LINE
    return memory[start : start + size].view(kind).reshape(shape)
