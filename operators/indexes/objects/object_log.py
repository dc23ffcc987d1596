"""Kept objects as they came, in chunks of one size: the columns that decide, and what indexes are rebuilt from.

An object is known by its rank, its place among all that were ever added. The newest chunk is open; the words of its objects are
chained, the newest first. A chunk that is full never changes again, and goes when all of its objects are dropped.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from operators.indexes.core.growth import grown
from operators.indexes.core.standing_queries import plain
from operators.indexes.core.words import Words
from operators.indexes.objects.block_kernels import (
    CHUNK_FIELDS,
    CHUNK_OFF,
    CHUNK_SEQ,
    CHUNK_WORD_LENGTH,
    CHUNK_WORDS,
    CHUNK_X,
    CHUNK_Y,
)  # fmt: skip
from operators.indexes.objects.kept_parts import digest_of
from operators.indexes.objects.object_index import Kept
from operators.indexes.objects.raw_arrays import doubles_at, ints_at, longs_at
from streams.columns import Ints
from streams.errors import DeclarationError
from streams.kernel import kernel

__all__ = ["Chunk", "ObjectLog"]

Floats = NDArray[np.float64]
Slots = NDArray[np.int32]

#: Words whose uses are counted down in one step.
RELEASED = 1 << 15


@dataclass(frozen=True, slots=True, eq=False)
class Chunk:
    """Columns of consecutive objects; keywords are words of the log."""

    first: int
    x: Floats
    y: Floats
    seq: Ints
    off: Slots
    words: Slots
    digest: str = ""

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        return self.x.nbytes + self.y.nbytes + self.seq.nbytes + self.off.nbytes + self.words.nbytes

    def row(self) -> Ints:
        """Return the chunk's row in the table that kernels read."""
        row = np.empty(CHUNK_FIELDS, np.int64)
        row[CHUNK_X], row[CHUNK_Y], row[CHUNK_SEQ] = self.x.ctypes.data, self.y.ctypes.data, self.seq.ctypes.data
        row[CHUNK_OFF], row[CHUNK_WORDS] = self.off.ctypes.data, self.words.ctypes.data
        row[CHUNK_WORD_LENGTH] = len(self.words)
        return row

    def kept(self, raw: Ints, count: int) -> Kept:
        """Return its first objects with their keywords as ids."""
        off = self.off[: count + 1]
        return Kept(self.seq[:count], self.x[:count], self.y[:count], off, raw[self.words[: off[-1]]])


@kernel
def _chain(words: Any, off: Any, start: Any, row: Any, head: Any, before: Any, owner: Any) -> None:
    for i in range(off.shape[0] - 1):
        for p in range(off[i], off[i + 1]):
            before[start + p] = head[words[p]]
            head[words[p]] = start + p
            owner[start + p] = row + i


@kernel
def _ranks(seqs: Any, least: Any, last: Any, chunks: Any, shift: Any, oldest: Any, newest: Any, out: Any) -> None:
    """Find the rank of the first object from each `seq` on, and from `least` on; `last` is the newest one's."""
    held = newest - oldest
    size = np.int64(1) << shift
    begin = longs_at(chunks[0, CHUNK_SEQ], size)[0] if held > 0 else np.int64(0)
    for i in range(seqs.shape[0]):
        seq = max(seqs[i], least)
        low, high = np.int64(0), held
        if last - begin == held - 1:  # there are no gaps
            low = high = min(max(seq - begin, np.int64(0)), held)
        while low < high:
            middle = (low + high) // 2
            chunk = middle >> shift
            if longs_at(chunks[chunk, CHUNK_SEQ], size)[middle - (chunk << shift)] < seq:
                low = middle + 1
            else:
                high = middle
        out[i] = oldest + low


@kernel
def _look_up(ranks: Any, chunks: Any, shift: Any, oldest: Any, seq: Any, x: Any, y: Any) -> None:
    """Read the `seq` of objects, and their places where there is room for them."""
    for i in range(ranks.shape[0]):
        chunk = (ranks[i] - oldest) >> shift
        row = ranks[i] - oldest - (chunk << shift)
        seq[i] = longs_at(chunks[chunk, CHUNK_SEQ], np.int64(1) << shift)[row]
        if x.shape[0] > 0:
            x[i] = doubles_at(chunks[chunk, CHUNK_X], np.int64(1) << shift)[row]
            y[i] = doubles_at(chunks[chunk, CHUNK_Y], np.int64(1) << shift)[row]


@kernel
def _have_any(ranks: Any, row: Any, off: Any, words: Any, chunks: Any, shift: Any, oldest: Any, out: Any) -> None:
    """Tell of each object whether it has one of the words of its row."""
    for i in range(ranks.shape[0]):
        out[i] = False
        if off[row[i]] == off[row[i] + 1]:
            continue
        chunk = (ranks[i] - oldest) >> shift
        place = ranks[i] - oldest - (chunk << shift)
        starts = ints_at(chunks[chunk, CHUNK_OFF], (np.int64(1) << shift) + 1)
        own = ints_at(chunks[chunk, CHUNK_WORDS], chunks[chunk, CHUNK_WORD_LENGTH])
        for p in range(starts[place], starts[place + 1]):
            for w in range(off[row[i]], off[row[i] + 1]):
                if own[p] == words[w]:
                    out[i] = True


class ObjectLog:
    """Chunks of objects.

    Attributes:
        size, shift: objects of a chunk, a power of two, and which.
        words: the words of all objects that are kept.
        oldest, base, newest: the rank where chunks begin, where the open one does, and of the next object.
        table: a row a chunk, the open one last.
        first: the smallest `seq` that is not dropped.
        last: the largest that was added.
    """

    def __init__(self, size: int) -> None:
        if size < 2 or size & (size - 1):
            raise DeclarationError(f"chunks of {size} objects, expected a power of two")
        self.size, self.shift = size, size.bit_length() - 1
        self.words = Words()
        self.oldest = self.base = self.newest = 0
        self.first, self.last = 0, -1
        self.chunks: list[Chunk] = []
        self._leaving: list[Slots] = []
        self._named = False
        self._head: Slots = np.empty(0, np.int32)
        self.table: Ints = np.empty((0, CHUNK_FIELDS), np.int64)
        self._open()

    def _open(self) -> None:
        size, room = self.size, 16 * self.size
        self._before, self._owner = np.empty(room, np.int32), np.empty(room, np.int32)
        columns = np.empty(size), np.empty(size), np.empty(size, np.int64), np.zeros(size + 1, np.int32)
        self._newest = Chunk(self.newest, *columns, np.empty(room, np.int32))
        self.base = self.newest
        self.table = np.vstack([self.table, self._newest.row()])

    @property
    def chains(self) -> tuple[Slots, Slots, Slots, int]:
        """Of the open chunk: the newest posting of each word, the one before each posting, its object, the first rank."""
        return self._head, self._before, self._owner, self.base

    def __len__(self) -> int:
        return self.newest - self.rank(self.first)

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        open_ = self._newest.nbytes + self._before.nbytes + self._owner.nbytes + self._head.nbytes
        return sum(chunk.nbytes for chunk in self.chunks) + open_ + self.words.nbytes

    # --- objects come and go -----------------------------------------------------------------------------------------

    def append(self, objects: Kept) -> Iterator[Chunk]:
        """Take in objects; yield each chunk that they fill, in order, as soon as it is full."""
        if not len(objects):
            return
        off, kw = plain(objects.kw_off, np.int32), plain(objects.kw, np.int64)
        words = self.words.number(kw[off[0] : off[-1]])
        if self.words.top > len(self._head):
            known = len(self._head)
            self._head = grown(self._head, self.words.top + self.words.top // 2)
            self._head[known:] = -1
        start = 0
        while start < len(objects):
            stop = min(len(objects), start + self.size - (self.newest - self.base))
            part = slice(int(off[start] - off[0]), int(off[stop] - off[0]))
            self._enter(objects.slice(start, stop), off[start : stop + 1] - off[start], words[part])
            start = stop
            if self.newest - self.base == self.size:
                yield self._seal()

    def _enter(self, objects: Kept, off: Slots, words: Slots) -> None:
        row, chunk = self.newest - self.base, self._newest
        stop, begin = row + len(objects), int(chunk.off[row])
        if begin + len(words) > len(chunk.words):
            room = 2 * (begin + len(words))
            self._before, self._owner = grown(self._before, room), grown(self._owner, room)
            self._newest = chunk = Chunk(chunk.first, chunk.x, chunk.y, chunk.seq, chunk.off, grown(chunk.words, room))
            self.table[-1] = chunk.row()
        chunk.x[row:stop], chunk.y[row:stop], chunk.seq[row:stop] = objects.x, objects.y, objects.seq
        chunk.off[row + 1 : stop + 1] = off[1:] + begin
        chunk.words[begin : begin + len(words)] = words
        _chain(words, off, begin, row, self._head, self._before, self._owner)
        self.newest += len(objects)
        self.last = int(objects.seq[-1])

    def _seal(self) -> Chunk:
        chunk = self._newest
        words = chunk.words[: chunk.off[-1]].copy()
        self._head[words] = -1
        full = Chunk(chunk.first, chunk.x, chunk.y, chunk.seq, chunk.off, words)
        full = self._digested(full) if self._named else full
        self.chunks.append(full)
        self.table[-1] = full.row()
        self._open()
        return full

    def _digested(self, chunk: Chunk) -> Chunk:
        return replace(chunk, digest=digest_of(chunk.kept(self.words.raw, self.size)))

    def drop(self, first: int) -> None:
        """Forget objects with ``seq < first``: they are not counted any more, and chunks of none but these go."""
        self.first = max(self.first, first)
        gone = 0
        while gone < len(self.chunks) and self.chunks[gone].seq[-1] < self.first:
            words = self.chunks[gone].words
            self._leaving += [words[start : start + RELEASED] for start in range(0, len(words), RELEASED)]
            gone += 1
        if gone:
            del self.chunks[:gone]
            self.oldest += gone * self.size
            self.table = self.table[gone:].copy()

    def release(self) -> int:
        """Count down some of the words of chunks that are gone; return how many."""
        if not self._leaving:
            return 0
        words = self._leaving.pop()
        self.words.release(words)
        return len(words)

    # --- look-ups ----------------------------------------------------------------------------------------------------

    def rank(self, seq: int) -> int:
        """Return the rank of the first object from a `seq` on."""
        return int(self.ranks(np.array([seq]))[0])

    def ranks(self, seqs: Ints) -> Ints:
        """Return the rank of the first object from each `seq` on, of those that are not dropped."""
        out = np.empty(len(seqs), np.int64)
        _ranks(seqs, self.first, self.last, self.table, self.shift, self.oldest, self.newest, out)
        return out

    def seqs(self, ranks: Ints) -> Ints:
        """Return the `seq` of objects."""
        if len(self.chunks) and self.last - self.chunks[0].seq[0] == self.newest - 1 - self.oldest:  # there are no gaps
            return ranks + (self.last - self.newest + 1)
        out = np.empty(len(ranks), np.int64)
        nothing = np.empty(0)
        _look_up(ranks, self.table, self.shift, self.oldest, out, nothing, nothing)
        return out

    def places(self, ranks: Ints) -> tuple[Ints, Floats, Floats]:
        """Return the `seq` and the places of objects."""
        seq, x, y = np.empty(len(ranks), np.int64), np.empty(len(ranks)), np.empty(len(ranks))
        _look_up(ranks, self.table, self.shift, self.oldest, seq, x, y)
        return seq, x, y

    def have_any(self, ranks: Ints, row: Ints, off: NDArray[np.int32], keywords: Ints) -> NDArray[np.bool_]:
        """Tell of each object whether it has one of the keywords of its row, which are ragged rows."""
        found = np.empty(len(ranks), np.bool_)
        words = self.words.find(plain(keywords, np.int64))
        _have_any(ranks, row, plain(off, np.int32), words, self.table, self.shift, self.oldest, found)
        return found

    def kept(self, first: int, stop: int) -> Kept:
        """Return the objects with ``first <= seq < stop`` that are not dropped."""
        first = max(first, self.first)
        parts = [Kept.empty()]
        for chunk in (*self.chunks, self._newest):
            count = min(self.size, self.newest - chunk.first)
            begin, end = (int(np.searchsorted(chunk.seq[:count], seq)) for seq in (first, stop))
            if begin < end:
                parts.append(chunk.kept(self.words.raw, count).slice(begin, end))
        whole = Kept.concat(parts)
        return whole.take(np.arange(len(whole)))  # a copy: the open chunk changes

    def saved(self) -> tuple[list[tuple[str, Callable[[], Kept]]], Kept]:
        """Return full chunks by digest, with what makes their objects, and the objects of the open one.

        Digests are made from the first time on: where no states are saved, nobody pays for them.
        """
        self._named = True
        self.chunks = [chunk if chunk.digest else self._digested(chunk) for chunk in self.chunks]
        raw = self.words.raw[: self.words.top].copy()  # words that leave may be other ones by the time this is written
        full: list[tuple[str, Callable[[], Kept]]]
        full = [(chunk.digest, partial(chunk.kept, raw, self.size)) for chunk in self.chunks]
        rest = self._newest.kept(raw, self.newest - self.base)
        return full, rest.take(np.arange(len(rest)))
