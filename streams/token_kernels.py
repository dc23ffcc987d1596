"""Kernels that find words in UTF-8 text, number them and others that are given whole, and sort ragged rows.

The table of words is a set of flat arrays that `streams.vocabulary` owns:

    slots    a power of two of word numbers, -1 where free; open addressing, linear probing, at most half full
    entries  for each word, in one line of the cache: its 64-bit hash, where its bytes begin and end in `arena`, and the
             last text that had it, so that a text counts a word once
    arena    the bytes of all words, one after the other
"""

import numpy as np
from numpy.typing import NDArray

from streams.kernel import kernel, lean_kernel

__all__ = ["BEGIN", "END", "ENTRY_WIDTH", "find_items", "find_words", "rehash", "sort_rows"]

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]
Offsets = NDArray[np.int32]


def _letters() -> Bytes:
    """Map a byte of a text to itself in lower case where it is part of a word, to 0 where it separates words.

    Bytes above 127 count as part of a word: a text with such bytes comes here only after it was split elsewhere.
    """
    letters = np.zeros(256, np.uint8)
    for byte in range(256):
        if byte >= 128 or chr(byte).isalnum():
            letters[byte] = byte if byte >= 128 else ord(chr(byte).lower())
    return letters


_LETTERS = _letters()
#: A word that is given whole stays as it is.
_AS_GIVEN = np.arange(256, dtype=np.uint8)
#: Columns of `entries`.
HASH, BEGIN, END, STAMP = 0, 1, 2, 3
ENTRY_WIDTH = 4

_BASIS = np.uint64(14695981039346656037)  # FNV-1a
_PRIME = np.uint64(1099511628211)
_INSERTION_SORT_UP_TO = 48


@lean_kernel
def _slot(hashed: np.uint64, mask: int) -> np.int64:
    """Spread a hash over the table: the low bits of FNV-1a alone cluster for short words."""
    return np.int64((hashed ^ (hashed >> np.uint64(29))) & np.uint64(mask))


@lean_kernel
def _number(
    data: Bytes, start: int, stop: int, letters: Bytes, hashed: np.uint64, slots: Offsets, entries: Ints, arena: Bytes,
    words: int,
) -> int:  # fmt: skip
    """Return the number of a word, which is `words` for one that was not there; it is now."""
    mask = len(slots) - 1
    slot = _slot(hashed, mask)
    size = stop - start
    key = np.int64(hashed)
    while slots[slot] >= 0:
        word = int(slots[slot])
        begin = entries[word, BEGIN]
        if entries[word, HASH] == key and entries[word, END] - begin == size:
            j = 0
            while j < size and arena[begin + j] == letters[data[start + j]]:
                j += 1
            if j == size:
                return word
        slot = (slot + 1) & mask
    used = entries[words - 1, END] if words else 0
    for j in range(size):
        arena[used + j] = letters[data[start + j]]
    slots[slot] = words
    entries[words, HASH], entries[words, BEGIN], entries[words, END], entries[words, STAMP] = key, used, used + size, -1
    return words


@lean_kernel
def find_words(
    data: Bytes,
    off: Ints,
    first: int,
    slots: Offsets,
    entries: Ints,
    arena: Bytes,
    words: int,
    stamp: int,
    found_off: Ints,
    found: Offsets,
) -> tuple[int, int]:
    """Number the distinct words in texts `first` and on, adding those that are new.

    Text r is ``data[off[r] : off[r + 1]]``; the numbers of its words go to ``found[found_off[r] : found_off[r + 1]]``.
    Words of one byte are left out. Returns the text before which it stopped because the table might not have room for
    it (the number of texts when all were done) and the number of words in the table.
    """
    rows = len(off) - 1
    count = found_off[first]
    for row in range(first, rows):
        i, stop = off[row], off[row + 1]
        used = entries[words - 1, END] if words else 0
        if words + (stop - i) // 3 + 1 > len(entries) or used + (stop - i) > len(arena):
            return row, words
        while i < stop:
            start = i
            hashed = _BASIS
            letter = _LETTERS[data[i]]
            while letter != 0:
                hashed = (hashed ^ np.uint64(letter)) * _PRIME
                i += 1
                letter = _LETTERS[data[i]] if i < stop else np.uint8(0)
            i += 1
            if i - start < 3:
                continue
            word = _number(data, start, i - 1, _LETTERS, hashed, slots, entries, arena, words)
            words = max(words, word + 1)
            if entries[word, STAMP] != stamp + row:
                entries[word, STAMP] = stamp + row
                found[count] = word
                count += 1
        found_off[row + 1] = count
    return rows, words


@lean_kernel
def find_items(
    data: Bytes, off: Ints, first: int, slots: Offsets, entries: Ints, arena: Bytes, words: int, found: Offsets
) -> tuple[int, int]:
    """Number words that are given whole, `first` and on, adding those that are new.

    Word n is ``data[off[n] : off[n + 1]]``. Returns the word before which it stopped because the table has no room for it
    (the number of words given when all were done) and the number of words in the table.
    """
    for item in range(first, len(off) - 1):
        used = entries[words - 1, END] if words else 0
        if words == len(entries) or used + off[item + 1] - off[item] > len(arena):
            return item, words
        hashed = _BASIS
        for at in range(off[item], off[item + 1]):
            hashed = (hashed ^ np.uint64(data[at])) * _PRIME
        word = _number(data, off[item], off[item + 1], _AS_GIVEN, hashed, slots, entries, arena, words)
        words = max(words, word + 1)
        found[item] = word
    return len(off) - 1, words


@kernel
def rehash(slots: Offsets, entries: Ints, words: int) -> None:
    """Fill an empty, larger table with the words that are known."""
    mask = len(slots) - 1
    for word in range(words):
        slot = _slot(np.uint64(entries[word, HASH]), mask)
        while slots[slot] >= 0:
            slot = (slot + 1) & mask
        slots[slot] = word


@kernel
def sort_rows(off: Ints, values: Ints, out_off: Offsets, out: Ints) -> None:
    """Write the non-negative values of each ragged row ascending and once each."""
    count = 0
    for row in range(len(off) - 1):
        start = count
        for i in range(off[row], off[row + 1]):
            if values[i] >= 0:
                out[count] = values[i]
                count += 1
        if count - start > _INSERTION_SORT_UP_TO:
            out[start:count].sort()
        else:
            for i in range(start + 1, count):
                value = out[i]
                j = i
                while j > start and out[j - 1] > value:
                    out[j] = out[j - 1]
                    j -= 1
                out[j] = value
        kept = start
        for i in range(start, count):
            if kept == start or out[i] != out[kept - 1]:
                out[kept] = out[i]
                kept += 1
        count = kept
        out_off[row + 1] = count
