"""Kernels of the radius pyramid. `operators.indexes.knn.pyramid` explains the idea; this is the layout.

records     float32 rows, the last of each the slot's bits: [u, v, r^2, slot], or [x, y, z, r^2, slot] of unit vectors on the
            globe, with the square of the chord. `nth` (uint16) says which of its subscription's postings a record is
cells       int32 rows: where a cell's records begin; how many there are, and below, in 6 bits, the class of their block
words       int32 rows by word: postings, finest level (low 8 bits) and which levels have postings (a bit each, above),
            the cells of level 0 where that is the only one, otherwise a row of `grids`
grids       int32 rows: for each level the first of its 4^level cells, or -1; then for each level its postings
where       int32: for each posting of a subscription where its record is; `begin` by slot is the first of them
level       int8 by slot: of its radius; its posting under a word is at that level, or at the word's finest if that is coarser
state       int64: see the constants
frame       float64: low x, low y, units to the space's longer side, whether x goes round, whether on the globe, degrees or 0
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from operators.indexes.core.prefetch import prefetch
from operators.indexes.core.query_table import ANY
from operators.indexes.knn.blocks import EXACT, class_of, room_of
from streams.geometry import EARTH_RADIUS_M
from streams.kernel import kernel

Int = Any  # a machine integer, numpy's or Python's
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Slots = NDArray[np.int32]
Pool = Any  # the tuple of arrays that a pyramid is made of

#: The finest level: 2^12 cells to a side.
FINEST = 12
LEVELS = FINEST + 1

#: Places in `state`: ends of what is in use, heads of free rows, what must be made room for.
RECORDS_TOP, CELLS_TOP, GRIDS_TOP, WHERE_TOP, FREE_GRID, NEED_RECORDS, NEED_CELLS, NEED_GRIDS = range(8)
STATE_SIZE = 8

POSTINGS, DEPTH, ROOT = range(3)
CLASS_BITS = 6
_CLASS = (1 << CLASS_BITS) - 1
LEVEL_BITS = 8

#: How far ahead slots are asked for.
_AHEAD = 16


@kernel
def level_of(radius: Any, y: float, inside: bool, x: float, frame: Floats) -> Int:
    """Return the finest level at which a ball spans no more than a cell: then it reaches at most two by two cells.

    On the globe that is the ball's box in degrees; one with a pole in it, or that goes round where columns do not, has level 0.
    """
    if not radius < np.inf:
        return 0
    half = radius * frame[2]
    if frame[4] != 0.0:
        if not inside:
            return 0
        angle = radius / EARTH_RADIUS_M * (1.0 + 1e-9) + 1e-12
        high = math.degrees(angle) + 1e-9
        if abs(y) + high >= 90.0:
            return 0
        ratio = math.sin(angle) / math.cos(math.radians(y))
        if ratio >= 1.0:
            return 0
        wide = math.degrees(math.asin(ratio)) * (1.0 + 1e-9) + 1e-9
        if frame[3] == 0.0 and (x - wide < -180.0 or x + wide > 180.0):
            return 0
        half = max(wide, high) * frame[2]
    half = half * (1.0 + 1e-9) + 1e-15
    level = 0
    while level < FINEST and half * (4 << level) <= 1.0:
        level += 1
    return level


@kernel
def reach_of(radius: Any, u: float, v: float, frame: Floats) -> Any:
    """Return the square that a record's distance is held against, rounded up: an object at it or beyond cannot enter."""
    if radius == 0.0:
        return np.float32(-1.0)
    if not radius < np.inf:
        return np.float32(np.inf)
    if frame[4] != 0.0:
        if radius >= EARTH_RADIUS_M * 3.14:
            return np.float32(np.inf)
        reach = 2.0 * math.sin(radius / (2.0 * EARTH_RADIUS_M)) * (1.0 + 1e-6) + 4e-7
    else:
        reach = radius * frame[2] * (1.0 + 1e-6) + 2e-7 * (1.0 + abs(u) + abs(v))
    return np.float32(reach * reach * (1.0 + 1e-6))


@kernel
def _column(u: float, side: Int, around: bool) -> Int:
    place = math.floor(u * side)
    if around:
        return np.int64(place) % side
    return np.int64(min(max(place, 0.0), side - 1.0))


@kernel
def _cell(slot: Int, level: Int, shape: Floats, frame: Floats) -> Int:
    """Return the cell of a subscription's place in the grid of a level."""
    side = np.int64(1) << level
    u, v = (shape[slot, 0] - frame[0]) * frame[2], (shape[slot, 1] - frame[1]) * frame[2]
    return _column(v, side, False) * side + _column(u, side, frame[3] != 0.0)


@kernel
def _root(word: Int, level: Int, words: Slots, grids: Slots) -> Int:
    """Return the first cell of a word's grid at a level, or -1."""
    if words[word, DEPTH] & ((1 << LEVEL_BITS) - 1) == 0:
        return np.int64(words[word, ROOT])
    return np.int64(grids[words[word, ROOT], level])


@kernel
def depth_of(word: Int, words: Slots) -> Int:
    """Return the finest level of a word."""
    return np.int64(words[word, DEPTH]) & ((1 << LEVEL_BITS) - 1)


@kernel
def _cells_ready(level: Int, cells: Slots, free_cells: Slots, state: Ints) -> bool:
    """Tell whether there is room for a grid, and note what is missing."""
    if free_cells[level] >= 0 or state[CELLS_TOP] + (1 << (2 * level)) <= cells.shape[0]:
        return True
    state[NEED_CELLS] = 1 << (2 * level)
    return False


@kernel
def _take_cells(level: Int, cells: Slots, free_cells: Slots, state: Ints) -> Int:
    count = 1 << (2 * level)
    head = np.int64(free_cells[level])
    if head >= 0:
        free_cells[level] = cells[head, 0]
    else:
        head = state[CELLS_TOP]
        state[CELLS_TOP] += count
    for c in range(head, head + count):
        cells[c, 0] = 0
        cells[c, 1] = 0
    return head


@kernel
def _give_cells(head: Int, level: Int, cells: Slots, free_cells: Slots) -> None:
    cells[head, 0] = free_cells[level]
    free_cells[level] = head


@kernel
def _take_block(wanted: Int, slot_of: Slots, free: Slots, state: Ints) -> Int:
    """Return a block: a free one, a part of a larger free one, whose rest stays free, or a new one, for which there is room."""
    last, room = slot_of.shape[1] - 1, room_of(wanted)
    for block_class in range(wanted, free.shape[0]):
        head = np.int64(free[block_class])
        if head >= 0:
            free[block_class] = slot_of[head, last]
            rest, left = head + room, room_of(block_class) - room
            while left > 0:
                size = min(left, EXACT)
                while 2 * size <= left and size >= EXACT:
                    size *= 2
                part = class_of(size)
                slot_of[rest, last] = free[part]
                free[part] = rest
                rest += size
                left -= size
            return head
    head = state[RECORDS_TOP]
    state[RECORDS_TOP] += room
    return np.int64(head)


@kernel
def _put(slot: Int, which: Int, cell: Int, reach: Any, shape: Floats, frame: Floats, pool: Pool) -> None:
    """Put a record behind the others of its cell; there must be room for a larger block."""
    records, slot_of, nth, cells, _, _, where, begin, free, _, state = pool
    packed = np.int64(cells[cell, 1])
    count, block_class = packed >> CLASS_BITS, packed & _CLASS
    start: Int = np.int64(cells[cell, 0])
    last = records.shape[1] - 1
    if count == room_of(block_class):
        larger = class_of(count + 1) if count < 4 else class_of(count + (count + 1) // 2)
        head = _take_block(larger, slot_of, free, state)
        for r in range(count):
            for c in range(last + 1):
                slot_of[head + r, c] = slot_of[start + r, c]
            nth[head + r] = nth[start + r]
            where[begin[slot_of[head + r, last]] + nth[head + r]] = head + r
        if block_class > 0:
            slot_of[start, last] = free[block_class]
            free[block_class] = start
        start, block_class = head, larger
        cells[cell, 0] = start
    cells[cell, 1] = ((count + 1) << CLASS_BITS) | block_class
    place = start + count
    if frame[4] != 0.0:
        lon, lat = math.radians(shape[slot, 0]), math.radians(shape[slot, 1])
        records[place, 0] = math.cos(lat) * math.cos(lon)
        records[place, 1] = math.cos(lat) * math.sin(lon)
        records[place, 2] = math.sin(lat)
        records[place, 3] = reach
    else:
        records[place, 0] = (shape[slot, 0] - frame[0]) * frame[2]
        records[place, 1] = (shape[slot, 1] - frame[1]) * frame[2]
        records[place, 2] = reach
    slot_of[place, last] = slot
    nth[place] = which
    where[begin[slot] + which] = place


@kernel
def _pull(slot: Int, which: Int, cell: Int, pool: Pool) -> None:
    """Take a record out of its cell: the last one takes its place."""
    _, slot_of, nth, cells, _, _, where, begin, free, _, _ = pool
    packed = np.int64(cells[cell, 1])
    count = (packed >> CLASS_BITS) - 1
    block_class: Int = packed & _CLASS
    place, final = np.int64(where[begin[slot] + which]), np.int64(cells[cell, 0]) + count
    last = slot_of.shape[1] - 1
    if place != final:
        for c in range(last + 1):
            slot_of[place, c] = slot_of[final, c]
        nth[place] = nth[final]
        where[begin[slot_of[place, last]] + nth[place]] = place
    if count == 0:
        slot_of[cells[cell, 0], last] = free[block_class]
        free[block_class] = cells[cell, 0]
        cells[cell, 0] = 0
        block_class = 0
    cells[cell, 1] = (count << CLASS_BITS) | block_class


@kernel
def _records_ready(count: Int, records: Singles, state: Ints) -> bool:
    if state[RECORDS_TOP] + count <= records.shape[0]:
        return True
    state[NEED_RECORDS] = count
    return False


@kernel
def _change(word: Int, level: Int, by: Int, words: Slots, grids: Slots) -> None:
    """Count postings of a word at a level."""
    words[word, POSTINGS] += by
    if depth_of(word, words) > 0:
        grids[words[word, ROOT], LEVELS + level] += by
        bit = np.int32(1 << (LEVEL_BITS + level))
        if grids[words[word, ROOT], LEVELS + level] > 0:
            words[word, DEPTH] |= bit
        else:
            words[word, DEPTH] &= ~bit


@kernel
def _deepen(word: Int, shape: Floats, level: Any, frame: Floats, pool: Pool) -> bool:
    """Give a word one more level, and move there what its radius allows; return False where there is no room yet."""
    records, slot_of, nth, cells, words, grids, _, _, _, free_cells, state = pool
    depth = depth_of(word, words)
    if depth == 0 and state[FREE_GRID] < 0 and state[GRIDS_TOP] == grids.shape[0]:
        state[NEED_GRIDS] = 1
        return False
    if not _cells_ready(depth + 1, cells, free_cells, state):
        return False
    if not _records_ready(5 * np.int64(words[word, POSTINGS]) + 16, records, state):
        return False
    root = _root(word, depth, words, grids)
    if depth == 0:
        grid = state[FREE_GRID]
        if grid >= 0:
            state[FREE_GRID] = grids[grid, 0]
        else:
            grid = state[GRIDS_TOP]
            state[GRIDS_TOP] += 1
        for c in range(LEVELS):
            grids[grid, c] = -1
            grids[grid, LEVELS + c] = 0
        grids[grid, 0] = root
        grids[grid, LEVELS] = words[word, POSTINGS]
        words[word, ROOT] = grid
        words[word, DEPTH] = 1 << LEVEL_BITS if words[word, POSTINGS] > 0 else 0
    words[word, DEPTH] += 1
    grid = np.int64(words[word, ROOT])
    new = _take_cells(depth + 1, cells, free_cells, state)
    grids[grid, depth + 1] = new
    if root < 0:
        return True
    last = records.shape[1] - 1
    for cell in range(root, root + (1 << (2 * depth))):
        r = np.int64(cells[cell, 0])
        while r < cells[cell, 0] + (cells[cell, 1] >> CLASS_BITS):
            slot, which = np.int64(slot_of[r, last]), np.int64(nth[r])
            if level[slot] > depth:
                reach = records[r, last - 1]
                _pull(slot, which, cell, pool)
                _put(slot, which, new + _cell(slot, depth + 1, shape, frame), reach, shape, frame, pool)
                _change(word, depth, -1, words, grids)
                _change(word, depth + 1, 1, words, grids)
            else:
                r += 1
    return True


@kernel
def _insert(
    slot: Int, which: Int, word: Int, wanted: Int, reach: Any, a_cell: float, crowded: Int, shape: Floats, level: Any,
    frame: Floats, pool: Pool,
) -> bool:  # fmt: skip
    """File a posting; return False, with nothing done, where there is no room yet."""
    records, _, _, cells, words, grids, _, _, _, free_cells, state = pool
    count = np.int64(words[word, POSTINGS])
    depth = depth_of(word, words)
    if depth < FINEST and count + 1 > a_cell * (1 << (2 * depth)) and not _deepen(word, shape, level, frame, pool):
        return False
    depth = depth_of(word, words)
    at = min(np.int64(wanted), depth)
    root = _root(word, at, words, grids)
    if root < 0:
        if not _cells_ready(at, cells, free_cells, state):
            return False
        root = _take_cells(at, cells, free_cells, state)
        if depth == 0:
            words[word, ROOT] = root
        else:
            grids[words[word, ROOT], at] = root
    cell = root + _cell(slot, at, shape, frame)
    inside = np.int64(cells[cell, 1]) >> CLASS_BITS
    if (
        inside >= crowded and at == depth and wanted > depth and depth < FINEST and (1 << (2 * depth + 1)) <= count
    ):  # a crowd of small balls: a finer grid, as long as it has no more cells than two for a posting
        if not _deepen(word, shape, level, frame, pool):
            return False
        at = min(np.int64(wanted), depth + 1)
        cell = _root(word, at, words, grids) + _cell(slot, at, shape, frame)
        inside = np.int64(cells[cell, 1]) >> CLASS_BITS
    if not _records_ready(3 * inside + 8, records, state):
        return False
    _put(slot, which, cell, reach, shape, frame, pool)
    _change(word, at, 1, words, grids)
    return True


@kernel
def _remove(slot: Int, which: Int, word: Int, filed: Int, shape: Floats, frame: Floats, pool: Pool) -> None:
    """Take a posting out; an empty grid, or word, gives its cells back."""
    _, _, _, cells, words, grids, _, _, _, free_cells, state = pool
    depth = depth_of(word, words)
    at = min(np.int64(filed), depth)
    root = _root(word, at, words, grids)
    _pull(slot, which, root + _cell(slot, at, shape, frame), pool)
    _change(word, at, -1, words, grids)
    if words[word, POSTINGS] > 0:
        if depth > 0 and at < depth and grids[words[word, ROOT], LEVELS + at] == 0:
            _give_cells(root, at, cells, free_cells)
            grids[words[word, ROOT], at] = -1
        return
    if depth == 0:
        _give_cells(root, 0, cells, free_cells)
    else:
        grid = np.int64(words[word, ROOT])
        for c in range(depth + 1):
            if grids[grid, c] >= 0:
                _give_cells(grids[grid, c], c, cells, free_cells)
        grids[grid, 0] = state[FREE_GRID]
        state[FREE_GRID] = grid
    words[word, ROOT] = -1
    words[word, DEPTH] = 0


@kernel
def _coarsen(word: Int, a_cell: float, shape: Floats, frame: Floats, pool: Pool) -> None:
    """Take the finest level from a word that has far fewer postings than it is made for; where there is room."""
    records, slot_of, nth, cells, words, grids, _, _, _, free_cells, state = pool
    depth = depth_of(word, words)
    count = np.int64(words[word, POSTINGS])
    if depth < 2 or count * 16 > a_cell * (1 << (2 * depth)):
        return
    grid = np.int64(words[word, ROOT])
    if not _records_ready(5 * count + 16, records, state):
        return
    if grids[grid, depth - 1] < 0 and not _cells_ready(depth - 1, cells, free_cells, state):
        return
    root = np.int64(grids[grid, depth])
    if grids[grid, depth - 1] < 0:
        grids[grid, depth - 1] = _take_cells(depth - 1, cells, free_cells, state)
    new = np.int64(grids[grid, depth - 1])
    last = records.shape[1] - 1
    if root >= 0:
        for cell in range(root, root + (1 << (2 * depth))):
            while cells[cell, 1] >> CLASS_BITS > 0:
                r = np.int64(cells[cell, 0])
                slot, which, reach = np.int64(slot_of[r, last]), np.int64(nth[r]), records[r, last - 1]
                _pull(slot, which, cell, pool)
                _put(slot, which, new + _cell(slot, depth - 1, shape, frame), reach, shape, frame, pool)
                _change(word, depth, -1, words, grids)
                _change(word, depth - 1, 1, words, grids)
        _give_cells(root, depth, cells, free_cells)
    grids[grid, depth] = -1
    words[word, DEPTH] -= 1


@kernel
def keys_of(slots: Slots, kw: Slots, pool: Slots, traits: NDArray[np.uint8], off: Slots, keys: Slots) -> Int:
    """Write the words under which subscriptions are filed: all where any will do, else the rarest, else none, which is word 0.

    Returns how many there are; those that have no room in `keys` are counted only.
    """
    count = 0
    for i in range(slots.shape[0]):
        slot = slots[i]
        off[i] = count
        more = traits[slot] & ANY != 0
        for j in range(3):
            if (j == 0 or more) and kw[slot, j] >= 0:
                if count < keys.shape[0]:
                    keys[count] = kw[slot, j]
                count += 1
        if more and kw[slot, 2] < -1:
            head = -2 - np.int64(kw[slot, 2])
            for j in range(head + 1, head + 1 + pool[head]):
                if count < keys.shape[0]:
                    keys[count] = pool[j]
                count += 1
    off[slots.shape[0]] = count
    return count


@kernel
def open_places(slots: Slots, off: Slots, begin: Slots, where: Slots, free: Slots, state: Ints) -> bool:
    """Give subscriptions room to note where their records are; return whether there was enough, else nothing is done."""
    wanted = 0
    for i in range(slots.shape[0]):
        wanted += room_of(class_of(off[i + 1] - off[i]))
    if state[WHERE_TOP] + wanted > where.shape[0]:
        return False
    for i in range(slots.shape[0]):
        block_class = class_of(off[i + 1] - off[i])
        head = np.int64(free[block_class])
        if head >= 0:
            free[block_class] = where[head]
        else:
            head = state[WHERE_TOP]
            state[WHERE_TOP] += room_of(block_class)
        begin[slots[i]] = head
    return True


@kernel
def close_places(slots: Slots, off: Slots, begin: Slots, where: Slots, free: Slots) -> None:
    """Take that room back."""
    for i in range(slots.shape[0]):
        block_class = class_of(off[i + 1] - off[i])
        where[begin[slots[i]]] = free[block_class]
        free[block_class] = begin[slots[i]]


@kernel
def _ball(slot: Int, radius: Floats, shape: Floats, bounds: Floats, frame: Floats) -> Any:
    """Return the level and the reach of a subscription's ball."""
    x, y = shape[slot, 0], shape[slot, 1]
    inside = bounds[0] <= x <= bounds[2] and bounds[1] <= y <= bounds[3]
    reach = reach_of(radius[slot], (x - frame[0]) * frame[2], (y - frame[1]) * frame[2], frame)
    return level_of(radius[slot], y, inside, x, frame), reach


@kernel
def add(
    done: Ints, slots: Slots, off: Slots, keys: Slots, a_cell: float, crowded: Int, radius: Floats, shape: Floats,
    bounds: Floats, level: Any, frame: Floats, pool: Pool,
) -> bool:  # fmt: skip
    """File subscriptions under their words, from (slot, posting) `done` on; return whether all are filed."""
    for i in range(done[0], slots.shape[0]):
        slot = np.int64(slots[i])
        wanted, reach = _ball(slot, radius, shape, bounds, frame)
        level[slot] = wanted
        for j in range(off[i] + done[1], off[i + 1]):
            if not _insert(slot, j - off[i], keys[j], wanted, reach, a_cell, crowded, shape, level, frame, pool):
                done[0], done[1] = i, j - off[i]
                return False
        done[1] = 0
    return True


@kernel
def discard(
    slots: Slots, off: Slots, keys: Slots, a_cell: float, shape: Floats, level: Any, frame: Floats, pool: Pool
) -> None:
    """Take subscriptions out."""
    for i in range(slots.shape[0]):
        for j in range(off[i], off[i + 1]):
            _remove(slots[i], j - off[i], keys[j], level[slots[i]], shape, frame, pool)
            _coarsen(keys[j], a_cell, shape, frame, pool)


@kernel
def refresh(
    slots: Slots, off: Slots, radius: Floats, shape: Floats, bounds: Floats, frame: Floats, records: Singles, where: Slots,
    begin: Slots,
) -> None:  # fmt: skip
    """Give all records of subscriptions their new reach."""
    last = records.shape[1] - 1
    for i in range(slots.shape[0]):
        _, reach = _ball(slots[i], radius, shape, bounds, frame)
        start = np.int64(begin[slots[i]])
        for p in range(start, start + off[i + 1] - off[i]):
            records[where[p], last - 1] = reach


@kernel
def refresh_read(
    slots: Slots, at: Slots, radius: Floats, shape: Floats, bounds: Floats, frame: Floats, records: Singles
) -> None:
    """Give the records that a probe has read their new reach."""
    last = records.shape[1] - 1
    for i in range(slots.shape[0]):
        if i + _AHEAD < slots.shape[0]:
            prefetch(radius, np.int64(slots[i + _AHEAD]))
            prefetch(shape, 2 * np.int64(slots[i + _AHEAD]))
            prefetch(records, np.int64(at[i + _AHEAD]) * (last + 1))
        slot = np.int64(slots[i])
        u, v = (shape[slot, 0] - frame[0]) * frame[2], (shape[slot, 1] - frame[1]) * frame[2]
        records[at[i], last - 1] = reach_of(radius[slot], u, v, frame)


@kernel
def moving(slots: Slots, radius: Floats, shape: Floats, bounds: Floats, frame: Floats, level: Any, out: Slots) -> Int:
    """Write the subscriptions whose level has changed; return how many there are."""
    there = 0
    for i in range(slots.shape[0]):
        if i + _AHEAD < slots.shape[0]:
            prefetch(level, np.int64(slots[i + _AHEAD]))
            prefetch(radius, np.int64(slots[i + _AHEAD]))
            prefetch(shape, 2 * np.int64(slots[i + _AHEAD]))
        wanted, _ = _ball(slots[i], radius, shape, bounds, frame)
        if wanted != level[slots[i]]:
            out[there] = slots[i]
            there += 1
    return there


@kernel
def shrink(
    done: Ints, slots: Slots, off: Slots, keys: Slots, a_cell: float, crowded: Int, radius: Floats, shape: Floats,
    bounds: Floats, level: Any, frame: Floats, pool: Pool,
) -> bool:  # fmt: skip
    """Move subscriptions whose level has changed, and give their records the new reach."""
    records, _, _, _, words, _, where, begin, _, _, _ = pool
    last = records.shape[1] - 1
    for i in range(done[0], slots.shape[0]):
        slot = np.int64(slots[i])
        wanted, reach = _ball(slot, radius, shape, bounds, frame)
        for j in range(off[i] + done[1], off[i + 1]):
            which, word = j - off[i], keys[j]
            depth = depth_of(word, words)
            if min(np.int64(level[slot]), depth) == min(np.int64(wanted), depth):
                records[where[begin[slot] + which], last - 1] = reach
                continue
            if not _room_to_move(slot, word, wanted, shape, frame, pool):
                done[0], done[1] = i, which
                return False
            _remove(slot, which, word, level[slot], shape, frame, pool)
            moved = _insert(slot, which, word, wanted, reach, a_cell, crowded, shape, level, frame, pool)
            while not moved:  # only a crowd may ask for more than was made sure of: it can wait
                moved = _insert(slot, which, word, wanted, reach, a_cell, 1 << 40, shape, level, frame, pool)
        level[slot] = wanted
        done[1] = 0
    return True


@kernel
def _room_to_move(slot: Int, word: Int, wanted: Int, shape: Floats, frame: Floats, pool: Pool) -> bool:
    """Tell whether a posting can be filed at another level of its word, before it is taken out."""
    records, _, _, cells, words, grids, _, _, _, free_cells, state = pool
    at = min(np.int64(wanted), depth_of(word, words))
    root = _root(word, at, words, grids)
    inside = np.int64(0)
    if root < 0:
        if not _cells_ready(at, cells, free_cells, state):
            return False
    else:
        inside = np.int64(cells[root + _cell(slot, at, shape, frame), 1]) >> CLASS_BITS
    return _records_ready(3 * inside + 8, records, state)
