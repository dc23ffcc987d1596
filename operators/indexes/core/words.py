"""Keywords as small numbers, for as long as a query uses them.

Keyword ids are up to 63 bits wide and unbounded in number; inside of an index a word is a small integer, so that stamps
and directories are plain arrays. A word is counted by the queries that use it; with the last of them its number is free
again. Word 0 is no keyword: it stands for "every object" and carries the queries without a textual condition.
"""

import numpy as np
from numpy.typing import NDArray

from streams.flat_hash import place_of
from streams.kernel import kernel
from streams.prefetch import prefetch

__all__ = ["EVERY_OBJECT", "Words"]

Ints = NDArray[np.int64]
Words32 = NDArray[np.int32]

EVERY_OBJECT = 0

#: Words over places of the hash: where it grows, and where it is put after growing or shrinking.
FULLEST, ROOMIEST = 0.7, 0.45
_AHEAD = 16


@kernel
def _number(keywords: Ints, table: Ints, raw: Ints, uses: Words32, free: Words32, state: Ints, out: Words32) -> None:
    """Number keywords and count a use of each; `table` rows are (keyword, word), state is (top, free, live)."""
    size = table.shape[0]
    for i in range(keywords.shape[0]):
        if i + _AHEAD < keywords.shape[0]:
            prefetch(table, 2 * place_of(keywords[i + _AHEAD], size))
        keyword = keywords[i]
        place = place_of(keyword, size)
        while table[place, 0] >= 0 and table[place, 0] != keyword:
            place = place + 1 if place + 1 < size else 0
        if table[place, 0] < 0:
            if state[1] > 0:
                state[1] -= 1
                word = free[state[1]]
            else:
                word = state[0]
                state[0] += 1
            table[place, 0] = keyword
            table[place, 1] = word
            raw[word] = keyword
            uses[word] = 0
            state[2] += 1
        word = table[place, 1]
        uses[word] += 1
        out[i] = word


@kernel
def _release(words: Words32, table: Ints, raw: Ints, uses: Words32, free: Words32, state: Ints) -> None:
    size = table.shape[0]
    for i in range(words.shape[0]):
        word = words[i]
        if word <= 0:
            continue
        uses[word] -= 1
        if uses[word] > 0:
            continue
        hole = place_of(raw[word], size)
        while table[hole, 0] != raw[word]:
            hole = hole + 1 if hole + 1 < size else 0
        place = hole + 1 if hole + 1 < size else 0
        while table[place, 0] >= 0:
            home = place_of(table[place, 0], size)
            if (place - home + size) % size >= (place - hole + size) % size:
                table[hole, 0] = table[place, 0]
                table[hole, 1] = table[place, 1]
                hole = place
            place = place + 1 if place + 1 < size else 0
        table[hole, 0] = -1
        raw[word] = -1
        free[state[1]] = word
        state[1] += 1
        state[2] -= 1


@kernel
def _known(off: NDArray[np.int32], keywords: Ints, table: Ints, out_off: Ints, out: Words32) -> None:
    """Write the words of each row that any query uses; the others cannot lead to a match."""
    size = table.shape[0]
    count = 0
    end = off[off.shape[0] - 1]
    for row in range(off.shape[0] - 1):
        out_off[row] = count
        for i in range(off[row], off[row + 1]):
            if i + _AHEAD < end:
                prefetch(table, 2 * place_of(keywords[i + _AHEAD], size))
            keyword = keywords[i]
            place = place_of(keyword, size)
            while table[place, 0] >= 0 and table[place, 0] != keyword:
                place = place + 1 if place + 1 < size else 0
            if table[place, 0] >= 0:
                out[count] = table[place, 1]
                count += 1
    out_off[off.shape[0] - 1] = count


@kernel
def _find(keywords: Ints, table: Ints, out: Words32) -> None:
    size = table.shape[0]
    for i in range(keywords.shape[0]):
        if i + _AHEAD < keywords.shape[0]:
            prefetch(table, 2 * place_of(keywords[i + _AHEAD], size))
        keyword = keywords[i]
        place = place_of(keyword, size)
        while table[place, 0] >= 0 and table[place, 0] != keyword:
            place = place + 1 if place + 1 < size else 0
        out[i] = table[place, 1] if table[place, 0] >= 0 else -1


class Words:
    """The words in use; `top` bounds every word's number."""

    def __init__(self) -> None:
        self._table: Ints = np.full((16, 2), -1, np.int64)
        self.raw: Ints = np.full(1, -1, np.int64)
        self.uses: Words32 = np.zeros(1, np.int32)
        self._free: Words32 = np.empty(1, np.int32)
        self._state: Ints = np.array([1, 0, 0], np.int64)

    def __len__(self) -> int:
        return int(self._state[2])

    @property
    def top(self) -> int:
        """One more than the largest number ever given."""
        return int(self._state[0])

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        return self._table.nbytes + 12 * self.top + 4 * int(self._state[1])

    def number(self, keywords: Ints) -> Words32:
        """Return the numbers of these keywords and count one use for each."""
        self._resize(len(self) + len(keywords))
        room = self.top + len(keywords)
        if room > len(self.raw):
            grown = room + room // 2
            for name in ("raw", "uses", "_free"):
                column = getattr(self, name)
                larger = np.empty(grown, column.dtype)
                larger[: len(column)] = column
                setattr(self, name, larger)
        out = np.empty(len(keywords), np.int32)
        _number(keywords, self._table, self.raw, self.uses, self._free, self._state, out)
        return out

    def release(self, words: Words32) -> None:
        """Count one use less for each word (0 and below are not words)."""
        _release(words, self._table, self.raw, self.uses, self._free, self._state)
        if len(self._table) > 64 and len(self) < 0.1 * len(self._table):
            self._rehash(int(len(self) / ROOMIEST) + 16)

    def known(self, off: NDArray[np.int32], keywords: Ints) -> tuple[Ints, Words32]:
        """Return ragged rows with the numbers of those keywords that some query uses."""
        out_off, out = np.empty(len(off), np.int64), np.empty(len(keywords), np.int32)
        _known(off, keywords, self._table, out_off, out)
        return out_off, out

    def find(self, keywords: Ints) -> Words32:
        """Return the number of each keyword, -1 where no query uses it."""
        out = np.empty(len(keywords), np.int32)
        _find(keywords, self._table, out)
        return out

    def _resize(self, words: int) -> None:
        if words > FULLEST * len(self._table):
            self._rehash(int(words / ROOMIEST) + 16)

    def _rehash(self, places: int) -> None:
        old = self._table[self._table[:, 0] >= 0]
        self._table = np.full((places, 2), -1, np.int64)
        _enter(old, self._table)


@kernel
def _enter(rows: Ints, table: Ints) -> None:
    size = table.shape[0]
    for i in range(rows.shape[0]):
        place = place_of(rows[i, 0], size)
        while table[place, 0] >= 0:
            place = place + 1 if place + 1 < size else 0
        table[place, 0] = rows[i, 0]
        table[place, 1] = rows[i, 1]
