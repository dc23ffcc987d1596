"""The words an encoder has met, in texts or given whole: an open-addressing table over flat arrays, with an id for each word.

All of them go through one kernel (`streams.token_kernels`); Python sees a word only once, to name its id.
"""

import itertools
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from streams.columns import Ints, Offsets
from streams.token_kernels import BEGIN, END, ENTRY_WIDTH, find_items, find_words, rehash, sort_rows
from streams.tokens import ROW_END, split_rows

__all__ = ["WordTable", "distinct_rows"]

_FIRST_WORDS = 1 << 12
_BYTES_A_WORD = 16

#: How much text beyond ASCII is split at a time.
_SPLIT_BYTES = 1 << 20


def distinct_rows(off: NDArray[np.integer], values: Ints) -> tuple[Offsets, Ints]:
    """Return ragged rows with the non-negative values of each row ascending and once each."""
    out_off, out = np.zeros(len(off), np.int32), np.empty(len(values), np.int64)
    sort_rows(off.astype(np.int64), values, out_off, out)
    return out_off, out[: out_off[-1]]


class WordTable:
    """Numbers words as they are met, and remembers the id of each.

    Args:
        name: gives the id of a word that was not met before; negative for a word that does not count.
        limit: how many words (and 16 times as many bytes) it remembers before it starts afresh: a bound on memory,
            not on the number of words. A single text may exceed it, for as long as it is looked at.
    """

    def __init__(self, name: Callable[[str], int], limit: int) -> None:
        self._name = name
        self._limit = limit
        self._forget()

    def __len__(self) -> int:
        return self._words

    def _forget(self) -> None:
        size = min(_FIRST_WORDS, self._limit)
        self._words = 0
        self._stamp = 0
        self._entries = np.empty((size, ENTRY_WIDTH), np.int64)
        self._ids = np.empty(size, np.int64)
        self._arena = np.empty(size * _BYTES_A_WORD, np.uint8)
        self._slots = np.full(_table_size(size), -1, np.int32)

    def _make_room(self, words: int, size: int) -> None:
        """Make room for so many more words and bytes: in a larger table, or in an empty one when the limit is reached."""
        used = int(self._entries[self._words - 1, END]) if self._words else 0
        if self._words and (self._words + words > self._limit or used + size > self._limit * _BYTES_A_WORD):
            self._forget()
            used = 0
        if self._words + words > len(self._ids):
            room = max(self._words + words, min(2 * len(self._ids), self._limit))
            self._entries = np.resize(self._entries, (room, ENTRY_WIDTH))
            self._ids = np.resize(self._ids, room)
            self._slots = np.full(_table_size(room), -1, np.int32)
            rehash(self._slots, self._entries, self._words)
        if used + size > len(self._arena):
            self._arena = np.resize(
                self._arena, max(used + size, min(2 * len(self._arena), self._limit * _BYTES_A_WORD))
            )

    def rows(self, texts: pa.StringArray) -> tuple[Offsets, Ints]:
        """Return the ids of the words of each text, ascending and distinct; a null text has none."""
        data, off = _utf8(_split_beyond_ascii(texts))
        rows = len(off) - 1
        found_off = np.zeros(rows + 1, np.int64)
        found = np.empty((len(data) + rows) // 3 + 1, np.int32)
        ids = np.empty(len(found), np.int64)
        row = 0
        while row < rows:
            known, first = self._words, row
            row, self._words = find_words(
                data, off, row, self._slots, self._entries, self._arena, known, self._stamp, found_off, found
            )
            self._name_words(known)
            part = slice(int(found_off[first]), int(found_off[row]))
            ids[part] = self._ids[found[part]]
            if row < rows:
                size = int(off[row + 1] - off[row])
                self._make_room(size // 3 + 1, size)
        self._stamp += rows
        if len(self._ids) > self._limit:
            self._forget()
        return distinct_rows(found_off, ids)

    def items(self, words: pa.StringArray) -> Ints:
        """Return the id of each word, which is one as it is given."""
        data, off = _utf8(words)
        found, ids = np.empty(len(words), np.int32), np.empty(len(words), np.int64)
        item = 0
        while item < len(words):
            known, first = self._words, item
            item, self._words = find_items(data, off, item, self._slots, self._entries, self._arena, known, found)
            self._name_words(known)
            ids[first:item] = self._ids[found[first:item]]
            if item < len(words):
                self._make_room(1, int(off[item + 1] - off[item]))
        if len(self._ids) > self._limit:
            self._forget()
        return ids

    def _name_words(self, known: int) -> None:
        bounds = self._entries[known : self._words, BEGIN : END + 1].tolist()
        try:
            for word, (begin, end) in enumerate(bounds, known):
                self._ids[word] = self._name(self._arena[begin:end].tobytes().decode())
        except BaseException:
            self._forget()  # words without ids must not stay
            raise


def _table_size(words: int) -> int:
    """Return the power of two that leaves at least half of the slots free."""
    return 1 << (2 * words - 1).bit_length()


def _utf8(texts: pa.StringArray) -> tuple[NDArray[np.uint8], Ints]:
    """Return the bytes of all texts and where each starts and ends."""
    if len(texts) == 0:
        return np.empty(0, np.uint8), np.zeros(1, np.int64)
    _, offsets, data = texts.buffers()
    off = np.frombuffer(offsets, np.int32, len(texts) + 1, texts.offset * 4).astype(np.int64)
    if data is None:
        return np.empty(0, np.uint8), off
    return np.frombuffer(data, np.uint8)[off[0] : off[-1]], off - off[0]


def _split_beyond_ascii(texts: pa.StringArray) -> pa.StringArray:
    """Replace each text that is not plain ASCII by its tokens with spaces between them.

    What is a letter beyond ASCII, and what NFKC and case-folding make of it, Python knows and the kernel does not.
    """
    texts = texts.fill_null("") if texts.null_count else texts
    plain = pc.string_is_ascii(texts)
    if pc.all(plain, min_count=0).as_py():
        return texts
    rest = pc.invert(plain)
    split: list[str] = []
    for some in _slices(texts.filter(rest)):
        tokens = [token for token in split_rows(some.to_pylist()) if len(token) > 1 or token == ROW_END]
        split += " ".join(tokens).split(ROW_END)[:-1]
    return pc.replace_with_mask(texts, rest, pa.array(split, pa.string()))


def _slices(texts: pa.StringArray) -> Iterator[pa.StringArray]:
    """Yield texts about a MiB at a time: NFKC makes eighteen characters of one, and each token becomes a string."""
    place = np.cumsum(pc.binary_length(texts).to_numpy(zero_copy_only=False)) // _SPLIT_BYTES
    cuts = [0, *(np.flatnonzero(np.diff(place)) + 1).tolist(), len(texts)]
    for first, stop in itertools.pairwise(cuts):
        yield texts.slice(first, stop - first)
