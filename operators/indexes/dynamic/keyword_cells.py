"""Kernels of the keyword grids over objects: every keyword has a grid of its own, as fine as it has objects.

    words     int64, a row a word: BASE, where its cells begin (-1: it has none); LEVEL, 4 ** LEVEL cells; HELD, its objects
    heads     int64, a cell: where its records begin << 32 | size class << 24 | how many there are; 0 for an empty cell
    peaks     float32, a cell: no object in it has a larger 1 / norm; 0 for an empty cell
    records   float32, a row an object and word: x and y in the unit square, 1 / norm, and the object's slot as int32
    pool      int64: TOP, where records that were never used begin; then the first free block of each size class, -1 for none
    space     int64: CELLS, where cells that were never used begin; then the first free grid of each level, -1 for none

A block of class c has 2 << c records; a free one has the next free one in its first slot. A free grid has the next free one in
its first head.
"""

from typing import Any

import numpy as np

from streams.kernel import kernel
from streams.prefetch import prefetch

__all__ = ["BASE", "CLASSES", "HELD", "LEVEL", "LEVELS", "SLOT", "add", "discard", "finer"]

BASE, LEVEL, HELD = range(3)
SLOT, WIDTH = 3, 4
TOP, CELLS = 0, 0
CLASSES, LEVELS = 24, 11
_LENGTH, _CLASS_BITS = 0xFFFFFF, 24
_AHEAD = 12
#: Objects of a cell, on the average, when a grid is laid out.
IN_A_CELL = 12


@kernel
def _room(heads: Any, cell: int, records: Any, slots: Any, pool: Any) -> int:
    """Make room for one record in a cell and return its row, -1 where the pool is full."""
    head = heads[cell]
    count, kind, start = head & _LENGTH, (head >> _CLASS_BITS) & 31, head >> 32
    if count == 0 or count == 2 << kind:
        larger = 0 if count == 0 else kind + 1
        block = pool[1 + larger]
        if block >= 0:
            pool[1 + larger] = slots[block, SLOT]
        else:
            block = pool[TOP]
            if block + (2 << larger) > records.shape[0]:
                return -1
            pool[TOP] += 2 << larger
        for i in range(count):
            for j in range(WIDTH):
                slots[block + i, j] = slots[start + i, j]
        if count:
            slots[start, SLOT] = pool[1 + kind]
            pool[1 + kind] = start
        start, kind = block, larger
    heads[cell] = (start << 32) | (kind << _CLASS_BITS) | (count + 1)
    return int(start + count)


@kernel
def _cell_of(x: Any, y: Any, words: Any, word: int) -> int:
    side = 1 << words[word, LEVEL]
    column, row = int(x * side), int(y * side)
    return int(words[word, BASE] + min(row, side - 1) * side + min(column, side - 1))


@kernel
def add(
    first: int, off: Any, held: Any, objects: Any, spots: Any, inverse: Any,
    words: Any, heads: Any, peaks: Any, records: Any, slots: Any, pool: Any,
) -> int:  # fmt: skip
    """File objects under their words, from some posting on; return where it stopped for want of room, or how many there are.

    Postings are rows: `objects` their objects by place in `spots`, `held` their words, `off` the slot of each object.
    """
    for p in range(first, objects.shape[0]):
        if p + _AHEAD < objects.shape[0]:
            ahead = objects[p + _AHEAD]
            prefetch(heads, _cell_of(spots[ahead, 0], spots[ahead, 1], words, held[p + _AHEAD]))
        row, word = objects[p], held[p]
        cell = _cell_of(spots[row, 0], spots[row, 1], words, word)
        place = _room(heads, cell, records, slots, pool)
        if place < 0:
            return int(p)
        records[place, 0], records[place, 1], records[place, 2] = spots[row, 0], spots[row, 1], inverse[row]
        slots[place, SLOT] = off[row]
        peaks[cell] = max(peaks[cell], inverse[row])
        words[word, HELD] += 1
    return int(objects.shape[0])


@kernel
def discard(
    off: Any, held: Any, objects: Any, spots: Any,
    words: Any, heads: Any, peaks: Any, records: Any, slots: Any, pool: Any,
) -> int:  # fmt: skip
    """Take objects out from under their words, in rows as `add` has them; return how many were not there, which is a defect."""
    lost = 0
    for p in range(objects.shape[0]):
        if p + _AHEAD < objects.shape[0]:
            ahead = objects[p + _AHEAD]
            prefetch(heads, _cell_of(spots[ahead, 0], spots[ahead, 1], words, held[p + _AHEAD]))
        if p + _AHEAD // 2 < objects.shape[0]:
            ahead = objects[p + _AHEAD // 2]
            head = heads[_cell_of(spots[ahead, 0], spots[ahead, 1], words, held[p + _AHEAD // 2])]
            for i in range(0, head & _LENGTH, 4):
                prefetch(records, WIDTH * ((head >> 32) + i))
        row, word = objects[p], held[p]
        cell = _cell_of(spots[row, 0], spots[row, 1], words, word)
        head = heads[cell]
        count, kind, start = head & _LENGTH, (head >> _CLASS_BITS) & 31, head >> 32
        at = -1
        for i in range(start, start + count):
            if slots[i, SLOT] == off[row]:
                at = i
                break
        if at < 0:
            lost += 1
            continue
        words[word, HELD] -= 1
        if count == 1:
            slots[start, SLOT] = pool[1 + kind]
            pool[1 + kind] = start
            heads[cell], peaks[cell] = 0, 0.0
            continue
        gone, last = records[at, 2], start + count - 1
        for j in range(WIDTH):
            slots[at, j] = slots[last, j]
        heads[cell] = head - 1
        if gone == peaks[cell]:
            peak = np.float32(0.0)
            for i in range(start, last):
                peak = max(peak, records[i, 2])
            peaks[cell] = peak
    return lost


@kernel
def finer(
    first: int,
    coming: Any,
    more: Any,
    words: Any,
    heads: Any,
    peaks: Any,
    records: Any,
    slots: Any,
    pool: Any,
    space: Any,
) -> int:
    """Give words that get so many more objects grids that are fine enough; return where it stopped for want of room.

    A grid is laid out anew when it would have four times as many objects to a cell as it should, two levels finer at once.
    """
    for i in range(first, coming.shape[0]):
        word = coming[i]
        wanted = words[word, HELD] + more[i]
        level = words[word, LEVEL]
        if words[word, BASE] >= 0 and (wanted <= (4 * IN_A_CELL) << (2 * level) or level == LEVELS - 1):
            continue
        level = 0
        while level < LEVELS - 1 and wanted > IN_A_CELL << (2 * level):
            level += 1
        cells, base = 1 << (2 * level), space[1 + level]
        if base >= 0:
            if not _enough(words, word, records, pool):
                return i
            space[1 + level] = heads[base]
        else:
            if space[CELLS] + cells > heads.shape[0] or not _enough(words, word, records, pool):
                return i
            base = space[CELLS]
            space[CELLS] += cells
        heads[base : base + cells] = 0
        peaks[base : base + cells] = 0.0
        old, old_cells = words[word, BASE], 1 << (2 * words[word, LEVEL])
        words[word, BASE], words[word, LEVEL] = base, level
        if old < 0:
            continue
        for cell in range(old, old + old_cells):
            _move(heads[cell], word, words, heads, peaks, records, slots, pool)
        freed = 0
        while 1 << (2 * freed) < old_cells:
            freed += 1
        heads[old] = space[1 + freed]
        space[1 + freed] = old
    return int(coming.shape[0])


@kernel
def _enough(words: Any, word: int, records: Any, pool: Any) -> bool:
    """Tell whether all objects of a word can be filed again, each in a cell of its own."""
    return bool(pool[TOP] + 4 * words[word, HELD] + 64 <= records.shape[0])


@kernel
def _move(head: int, word: int, words: Any, heads: Any, peaks: Any, records: Any, slots: Any, pool: Any) -> None:
    """File the records of an old cell in the grid that its word has now."""
    count, kind, start = head & _LENGTH, (head >> _CLASS_BITS) & 31, head >> 32
    for i in range(start, start + count):
        cell = _cell_of(records[i, 0], records[i, 1], words, word)
        place = _room(heads, cell, records, slots, pool)
        for j in range(WIDTH):
            slots[place, j] = slots[i, j]
        peaks[cell] = max(peaks[cell], records[i, 2])
    if count:
        slots[start, SLOT] = pool[1 + kind]
        pool[1 + kind] = start
