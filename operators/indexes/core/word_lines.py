"""Rows of one line of the cache each, whose end are the words of a slot; those of slots with many words are in a pool.

A line is 64 bytes: eight float64, or sixteen int32. Whoever makes the lines says at which of these the words begin:

    0 ...          whatever is known of a slot besides its words
    count_at       the number of words
    count_at + 1   the words, ids of keywords ascending, up to the end of the line; of more the first of these places tells
                   where they begin in the pool
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from streams.kernel import kernel

__all__ = ["LINE_BYTES", "WordLines", "inline_words"]

Floats = NDArray[np.float64]
Slots = NDArray[np.int32]

LINE_BYTES = 64
_WIDTH, _PARTS = LINE_BYTES // 8, LINE_BYTES // 4


def inline_words(count_at: int) -> int:
    """Return how many words a line has room for."""
    return _PARTS - count_at - 1


@kernel
def _write(
    slots: Slots, off: Slots, words: Slots, count_at: int, inline: int, parts: Slots, long: Slots, top: int
) -> int:
    """File words; return the new end of the pool."""
    for i in range(slots.shape[0]):
        slot, first, count = slots[i], off[i], off[i + 1] - off[i]
        parts[slot, count_at] = count
        for j in range(inline):
            parts[slot, count_at + 1 + j] = words[first + j] if j < count else -1
        if count > inline:
            parts[slot, count_at + 1] = top
            for j in range(count):
                long[top + j] = words[first + j]
            top += count
    return top


@kernel
def _read(slots: Slots, count_at: int, inline: int, parts: Slots, long: Slots, off: Slots, out: Slots) -> None:
    """Copy the words of slots to where their rows begin."""
    for i in range(slots.shape[0]):
        slot = slots[i]
        count, first = parts[slot, count_at], count_at + 1
        for j in range(count):
            out[off[i] + j] = parts[slot, first + j] if count <= inline else long[parts[slot, first] + j]


@kernel
def _repack(slots: Slots, count_at: int, inline: int, parts: Slots, long: Slots, out: Slots) -> int:
    """Copy the words of slots that have many, one after the other; return where they end."""
    top = 0
    for i in range(slots.shape[0]):
        slot = slots[i]
        count, start = parts[slot, count_at], parts[slot, count_at + 1]
        if count > inline:
            parts[slot, count_at + 1] = top
            for j in range(count):
                out[top + j] = long[start + j]
            top += count
    return top


class WordLines:
    """Lines by slot, and the pool.

    Attributes:
        lines: float64, a row a slot; `parts` are the same bytes as int32.
        long: the pool.

    Args:
        count_at: where the number of words stands among the int32 of a line.
    """

    def __init__(self, count_at: int) -> None:
        self._layout = count_at, inline_words(count_at)
        self.lines: Floats = _lines(0)
        self.parts: Slots = self.lines.view(np.int32)
        self.long: Slots = np.empty(0, np.int32)
        self._top = self._garbage = 0

    @property
    def pool_bytes(self) -> int:
        """Bytes in use of the pool."""
        return 4 * self._top

    def grow(self, room: int) -> None:
        """Have lines for so many slots, at least."""
        if room > len(self.lines):
            larger = _lines(room)
            larger[: len(self.lines)] = self.lines
            self.lines, self.parts = larger, larger.view(np.int32)

    def write(self, slots: Slots, off: Slots, words: Slots, others: Callable[[], Slots]) -> None:
        """File the words of slots; `others` says which slots have words besides, where the pool must be packed."""
        lengths = np.diff(off)
        self._reserve(int(lengths[lengths > self._layout[1]].sum()), others)
        self._top = _write(slots, off, words, *self._layout, self.parts, self.long, self._top)

    def counts(self, slots: Slots) -> Slots:
        """Return how many words slots have."""
        return np.asarray(self.parts[slots, self._layout[0]])

    def words_of(self, slots: Slots) -> tuple[Slots, Slots]:
        """Return the words of slots as ragged rows, ids of keywords ascending."""
        off = np.zeros(len(slots) + 1, np.int32)
        np.cumsum(self.counts(slots), out=off[1:])
        words = np.empty(off[-1], np.int32)
        _read(slots, *self._layout, self.parts, self.long, off, words)
        return off, words

    def forget(self, slots: Slots) -> Slots:
        """Return the words of slots that have gone; what these have in the pool is packed away some time."""
        counts = self.counts(slots)
        self._garbage += int(counts[counts > self._layout[1]].sum())
        return self.words_of(slots)[1]

    def _reserve(self, more: int, others: Callable[[], Slots]) -> None:
        if self._top + more <= len(self.long):
            return
        long = np.empty((self._top + more) * 3 // 2 + 16, np.int32)
        if self._garbage > self._top // 2:
            self._top, self._garbage = _repack(others(), *self._layout, self.parts, self.long, long), 0
        else:
            long[: self._top] = self.long[: self._top]
        self.long = long


def _lines(count: int) -> Floats:
    """Return rows of zeros that begin at lines of the cache."""
    spare = np.zeros(_WIDTH * count + _WIDTH)
    skip = (-spare.ctypes.data % LINE_BYTES) // spare.itemsize
    return spare[skip : skip + _WIDTH * count].reshape(count, _WIDTH)
