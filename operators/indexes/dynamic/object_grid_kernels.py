"""Kernels of the grid of objects: which are in a cell, and the largest and least weight of each word there (Section IV).

heads       int64 rows by cell: where its block of `rows` begins, objects, class of the block
rows        int32: objects, in blocks
entries     int64 rows, a hash by word and cell: key, objects that have the word; `weights` are the same bytes as float64, with
            the largest and the least weight of the word (maxwts, minwts)
cell_of     int32 by object: its cell, -1 for none; `place` is where it stands in the block of the cell
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from operators.indexes.dynamic.object_rows import COUNT, FIRST, INLINE, NORM
from operators.indexes.topk.buffer_blocks import class_of, give_block, room_of, take_block
from streams.flat_hash import place_of
from streams.kernel import kernel

__all__ = [
    "CLASS", "FULLEST", "LEAST", "LENGTH", "MOST", "START", "Cells", "Objects", "enter", "find_weights", "leave", "rehash",
    "word_at",
]  # fmt: skip

Int = Any  # a machine integer, numpy's or Python's
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Slots = NDArray[np.int32]

START, LENGTH, CLASS = range(3)
KEY, HAVE, MOST, LEAST = range(4)
#: Entries to ten places of the hash, at most.
FULLEST = 7


class Objects(NamedTuple):
    """Columns of an `ObjectTable`, as they are now."""

    lines: Floats
    parts: Slots
    long: Slots
    idf: Floats
    first_seen: Ints


class Cells(NamedTuple):
    """Columns of the grid, as they are now."""

    heads: Ints
    rows: Slots
    entries: Ints
    weights: Floats


@kernel
def word_at(row: Int, nth: Int, parts: Slots, long: Slots) -> Int:
    """Return a word of an object."""
    if parts[row, COUNT] <= INLINE:
        return np.int64(parts[row, FIRST + nth])
    return np.int64(long[parts[row, FIRST] + nth])


@kernel
def _seek(key: Int, entries: Ints) -> Int:
    """Return the place of a key, or the empty one where it belongs."""
    size = entries.shape[0]
    place = place_of(key, size)
    while entries[place, KEY] >= 0 and entries[place, KEY] != key:
        place = place + 1 if place + 1 < size else 0
    return place


@kernel
def find_weights(word: Int, cell: Int, cells: Cells) -> Int:
    """Return the place of a word's weights in a cell, -1 where no object has it."""
    key = np.int64(word) * cells.heads.shape[0] + cell
    place = _seek(key, cells.entries)
    return place if cells.entries[place, KEY] == key else np.int64(-1)


@kernel
def _delete(hole: Int, entries: Ints) -> None:
    size = entries.shape[0]
    place = hole + 1 if hole + 1 < size else 0
    while entries[place, KEY] >= 0:
        home = place_of(entries[place, KEY], size)
        if (place - home + size) % size >= (place - hole + size) % size:
            for column in range(4):
                entries[hole, column] = entries[place, column]
            hole = place
        place = place + 1 if place + 1 < size else 0
    entries[hole, KEY] = -1


@kernel
def _rescan(word: Int, cell: Int, at: Int, objects: Objects, cells: Cells) -> None:
    """Find the extremes of a word in a cell anew, from its objects."""
    most, least = 0.0, np.inf
    first = cells.heads[cell, START]
    for p in range(first, first + cells.heads[cell, LENGTH]):
        row = cells.rows[p]
        for j in range(objects.parts[row, COUNT]):
            if word_at(row, j, objects.parts, objects.long) == word:
                weight = objects.idf[word] / objects.lines[row, NORM]
                most, least = max(most, weight), min(least, weight)
    cells.weights[at, MOST], cells.weights[at, LEAST] = most, least


@kernel
def leave(
    gone: Slots, objects: Objects, cells: Cells, cell_of: Slots, place: Slots, free: Ints, blocks: Ints, used: Ints
) -> None:
    """Take objects out; the weights of their cells are exact afterwards."""
    heads, rows = cells.heads, cells.rows
    for i in range(gone.shape[0]):
        row = np.int64(gone[i])
        cell = np.int64(cell_of[row])
        last = rows[heads[cell, START] + heads[cell, LENGTH] - 1]
        rows[heads[cell, START] + place[row]] = last
        place[last] = place[row]
        heads[cell, LENGTH] -= 1
        cell_of[row] = -1
        if heads[cell, LENGTH] == 0:
            give_block(heads[cell, START], heads[cell, CLASS], rows, free, blocks)
            heads[cell, CLASS] = 0
        for j in range(objects.parts[row, COUNT]):
            word = word_at(row, j, objects.parts, objects.long)
            at = find_weights(word, cell, cells)
            cells.entries[at, HAVE] -= 1
            weight = objects.idf[word] / objects.lines[row, NORM]
            if cells.entries[at, HAVE] == 0:
                _delete(at, cells.entries)
                used[0] -= 1
            elif weight == cells.weights[at, MOST] or weight == cells.weights[at, LEAST]:
                _rescan(word, cell, at, objects, cells)


@kernel
def enter(
    first: Int, coming: Slots, where: Slots, objects: Objects, cells: Cells, cell_of: Slots, place: Slots, free: Ints,
    blocks: Ints, used: Ints,
) -> Int:  # fmt: skip
    """Put objects into their cells, from `first` on; return where to go on when something has grown, or the end."""
    heads, rows, entries, weights = cells.heads, cells.rows, cells.entries, cells.weights
    for i in range(first, coming.shape[0]):
        row, cell = np.int64(coming[i]), np.int64(where[i])
        count, length = np.int64(objects.parts[row, COUNT]), heads[cell, LENGTH]
        if (used[0] + count) * 10 > entries.shape[0] * FULLEST:
            return np.int64(i)
        if length == room_of(heads[cell, CLASS]):
            larger = class_of(length + 1 + (length >> 1))
            block = take_block(larger, rows, free, blocks)
            if block < 0:
                return np.int64(i)
            for p in range(length):
                rows[block + p] = rows[heads[cell, START] + p]
            give_block(heads[cell, START], heads[cell, CLASS], rows, free, blocks)
            heads[cell, START], heads[cell, CLASS] = block, larger
        rows[heads[cell, START] + length] = row
        cell_of[row], place[row] = cell, length
        heads[cell, LENGTH] += 1
        for j in range(count):
            word = word_at(row, j, objects.parts, objects.long)
            key = word * heads.shape[0] + cell
            at = _seek(key, entries)
            weight = objects.idf[word] / objects.lines[row, NORM]
            if entries[at, KEY] < 0:
                entries[at, KEY], entries[at, HAVE] = key, 1
                weights[at, MOST] = weights[at, LEAST] = weight
                used[0] += 1
            else:
                entries[at, HAVE] += 1
                weights[at, MOST], weights[at, LEAST] = max(weights[at, MOST], weight), min(weights[at, LEAST], weight)
    return np.int64(coming.shape[0])


@kernel
def rehash(old: Ints, new: Ints) -> None:
    """Copy the entries of a hash to a larger one."""
    for i in range(old.shape[0]):
        if old[i, KEY] >= 0:
            at = _seek(old[i, KEY], new)
            for column in range(4):
                new[at, column] = old[i, column]
