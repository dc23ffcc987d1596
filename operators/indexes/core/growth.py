"""Arrays with room for more rows."""

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

__all__ = ["ColumnQueue", "grown", "lined"]

#: Bytes of a cache line.
LINE = 64
#: Rows that move for each row that comes, while a queue grows, and at least.
MOVED, MOVED_AT_LEAST = 12, 1 << 10


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


class ColumnQueue:
    """Integer columns whose rows come at the end and leave at the front; nobody waits while they are given more room.

    When three quarters of the room are used, larger arrays are begun. Rows move there a few at a time, as others come.

    Args:
        columns: whole columns to begin with, of one length.
    """

    def __init__(self, *columns: NDArray[np.int64]) -> None:
        self._held = tuple(np.array(column, np.int64) for column in columns)
        self._next: tuple[NDArray[np.int64], ...] = ()
        self._start, self._stop, self._moved = 0, len(self._held[0]), 0

    def __len__(self) -> int:
        return self._stop - self._start

    @property
    def nbytes(self) -> int:
        """Bytes in use; room that was never used is address space."""
        return 8 * len(self._held) * (self._stop + self._moved * bool(self._next))

    def column(self, which: int) -> NDArray[np.int64]:
        """Return all rows of a column, a view that holds until rows come."""
        return self._held[which][self._start : self._stop]

    def append(self, *columns: NDArray[np.int64]) -> None:
        """Add rows."""
        count = len(columns[0])
        room = len(self._held[0])
        if not self._next and room and 4 * (self._stop + count) > 3 * room:
            larger = room - self._start + len(self) + count + MOVED_AT_LEAST  # all that may come before it is in use
            self._next = tuple(np.empty(larger, np.int64) for _ in self._held)
            self._origin = self._moved = self._start
        if self._next:
            self._move(self._stop if self._stop + count > room else max(MOVED * count, MOVED_AT_LEAST))
        if self._next and self._moved == self._stop:
            self._held, self._next = self._next, ()
            self._start, self._stop = self._start - self._origin, self._stop - self._origin
        if self._stop + count > len(self._held[0]):  # more at a time than there was room for
            self._held = tuple(grown(held[: self._stop], 2 * (self._stop + count)) for held in self._held)
        for held, column in zip(self._held, columns, strict=True):
            held[self._stop : self._stop + count] = column
        self._stop += count

    def _move(self, most: int) -> None:
        stop = min(self._moved + most, self._stop)
        for new, held in zip(self._next, self._held, strict=True):
            new[self._moved - self._origin : stop - self._origin] = held[self._moved : stop]
        self._moved = stop

    def drop(self, count: int) -> None:
        """Forget the first rows."""
        self._start += count
