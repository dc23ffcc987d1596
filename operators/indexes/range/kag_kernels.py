"""Kernels of KAG, the keyword-adaptive grid. `operators.indexes.range.kag` explains the idea; this is the layout.

postings    uint32 rows of 16 bytes, four to a cache line:
            [x low | width << 16, y low | height << 16, slot | VERIFY, tag | tag << 16], coordinates in quanta
directory   int32 by word: its first group, or -1
groups      int32 rows of 32 bytes: postings, side, base, half width, half height, next group, size class, capacity
            or crowding.
            A group holds the postings of one word and one class of sizes. Side 1: a list of postings at base.
            Otherwise a grid of side x side cells: its rows are in `cells` at base. A posting that is taken out of a grid
            leaves a hole, which the next posting of its cell fills; the size class has their number above its low bits
cells       int32, one run of side + 2 for each row of a grid: capacity, then start of cell 0, 1, .., end of the last cell.
            The postings of a row are one run, cell after cell, so that neighbouring cells are read in one sweep
state       int64: see the constants

Coordinates are in quanta (see `operators.indexes.core.quanta`). A posting is filed by its centre; with h the largest half
extent in the group, every match of an object at X has its centre within X - h .. X + h, and the cells of these bounds
enclose it because (v * side) >> 16 is monotone.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from operators.indexes.core.prefetch import prefetch
from streams.kernel import kernel

Int = Any  # a machine integer, numpy's or Python's
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Slots = NDArray[np.int32]
Postings = NDArray[np.uint32]

#: Places in `state`: ends of the used parts, heads of free groups, what to make room for, postings in free blocks.
POSTINGS_TOP, CELLS_TOP, GROUPS_TOP, FREE_GROUP, NEED_POSTINGS, NEED_CELLS, NEED_GROUPS, UNUSED = range(8)
STATE_SIZE = 8
#: Columns of `groups`. The last is the capacity of a list, and for a grid its crowding: the sum over its cells of the
#: squared number of postings, so that crowding / postings is what a posting finds in its cell on average.
COUNT, SIDE, BASE, HALF_X, HALF_Y, NEXT, SIZE, CAPACITY = range(8)
CROWDING = CAPACITY
MOST_CROWDING = 2**31 - 1
#: The bits of `groups[:, SIZE]` that are the size class; the number of holes is above them.
SIZE_BITS = 5

VERIFY = np.uint32(1 << 31)
SLOT = np.uint32((1 << 31) - 1)
LOW16 = np.uint32(0xFFFF)
#: What a hole has for slot and `VERIFY`: no slot is that large. Its box is the last corner of the space, and nothing.
HOLE = np.uint32(0xFFFFFFFF)
SHIFT = np.uint32(16)

#: Words below this have a tag of their own; the others share tags above it and are verified.
EXACT_TAGS = 32768

#: Sides of grids: each has twice the cells of the one before.
SIDES = np.array([1, 2, 3, 4, 6, 8, 11, 16, 23, 32, 45, 64, 91, 128, 181, 256, 362, 512], np.int64)

#: Objects that go through the stages together; runs of postings they may have before those are read; rows in all
#: grids of one word, at most: the largest side for each of 17 classes of sizes.
TOGETHER = 32
RUNS = 32768
MOST_ROWS = 17 * 512

#: A grid is laid out anew when it has one hole for so many postings.
POSTINGS_PER_HOLE = 2

#: Postings that a posting may find in its own cell on average before the grid grows finer.
CROWDED = 12


@kernel
def tag(slots: Slots, kw: Slots, pool: Slots, traits: Any, tags: Postings, verify: NDArray[np.bool_]) -> None:
    """Write the two tags of each posting, and whether they and the box leave a doubt that only the table settles.

    Tag 0 is present in every object: a query without a second or third word has it, and one that any word finds.
    """
    for i in range(slots.shape[0]):
        slot = slots[i]
        second, third = kw[slot, 1], kw[slot, 2]
        doubt = traits[slot] & 4 != 0 or traits[slot] & 3 == 2 or third < -1
        if third < -1:
            third = pool[-1 - third]
        if traits[slot] & 4 != 0:
            second, third = np.int32(-1), np.int32(-1)
        verify[i] = doubt or second >= EXACT_TAGS or third >= EXACT_TAGS
        second = second if second < EXACT_TAGS else EXACT_TAGS | (second & (EXACT_TAGS - 1))
        third = third if third < EXACT_TAGS else EXACT_TAGS | (third & (EXACT_TAGS - 1))
        tags[i] = np.uint32(max(second, 0)) | np.uint32(max(third, 0)) << SHIFT


@kernel
def _class_of(size: Int) -> Int:
    """Return the class of the smallest block with room for `size`: every size to 4, 6, 8, then four to the octave."""
    if size <= 8:
        return size - 1 if size <= 4 else (size + 1) // 2 * 2 - 1
    bits = 4
    while (1 << bits) < size:
        bits += 1
    step = 1 << (bits - 3)
    return 8 + (bits - 4) * 4 + (size - (1 << (bits - 1)) + step - 1) // step - 1


@kernel
def _size_of(block_class: Int) -> Int:
    if block_class < 8:
        return block_class + 1
    bits = 4 + (block_class - 8) // 4
    return (1 << (bits - 1)) + ((block_class - 8) % 4 + 1) * (1 << (bits - 3))


@kernel
def _take_block(size: Int, postings: Postings, free: Slots, state: Ints) -> Int:
    block_class = _class_of(size)
    head = free[block_class]
    if head >= 0:
        free[block_class] = np.int32(postings[head, 0])
        state[UNUSED] -= _size_of(block_class)
        return np.int64(head)
    head = state[POSTINGS_TOP]
    state[POSTINGS_TOP] += _size_of(block_class)
    return np.int64(head)


@kernel
def _give_block(base: Int, size: Int, postings: Postings, free: Slots, state: Ints) -> None:
    if size > 0:
        block_class = _class_of(size)
        postings[base, 0] = np.uint32(free[block_class])
        free[block_class] = base
        state[UNUSED] += size


@kernel
def _copy(postings: Postings, source: Int, target: Int) -> None:
    postings[target, 0] = postings[source, 0]
    postings[target, 1] = postings[source, 1]
    postings[target, 2] = postings[source, 2]
    postings[target, 3] = postings[source, 3]


@kernel
def _centre(edge: Any) -> Int:
    """Return the centre of a packed (low, extent) in quanta."""
    return np.int64(edge & LOW16) + (np.int64(edge >> SHIFT) >> 1)


@kernel
def _size_class(g: Int, groups: Slots) -> Int:
    return np.int64(groups[g, SIZE]) & ((1 << SIZE_BITS) - 1)


@kernel
def _holes(g: Int, groups: Slots) -> Int:
    return np.int64(groups[g, SIZE]) >> SIZE_BITS


@kernel
def _best_side(count: Int, per_posting: float, size_class: Int, list_length: Int) -> Int:
    """Return the side for a group: enough cells for its postings, none smaller than a quarter of their regions."""
    if count <= list_length:
        return 1
    most = 1 << max(18 - size_class, 1)
    side = 1
    for i in range(SIDES.shape[0]):
        if SIDES[i] > most:
            break
        side = SIDES[i]
        if side * side >= count * per_posting:
            break
    return side


@kernel
def _wanted_side(g: Int, groups: Slots, per_posting: float, most_per_posting: float, list_length: Int) -> Int:
    """Return the side that a group should have before it takes another posting: its own, or a larger one.

    A grid grows with the number of postings; one whose postings crowd into few cells grows earlier, up to
    `most_per_posting` cells for each.
    """
    side, count = np.int64(groups[g, SIDE]), np.int64(groups[g, COUNT])
    size_class, holes = _size_class(g, groups), _holes(g, groups)
    if side == 1 and count < list_length:
        return side
    if side == 1 or count * per_posting > side * side:
        return max(side, _best_side(count + count // 2 + 1, per_posting, size_class, list_length))
    if groups[g, CROWDING] > CROWDED * (count + holes) and side * side < most_per_posting * count:
        return max(side, _best_side(2 * side * side, 1.0, size_class, 1))
    return side


@kernel
def _side_number(side: Int) -> Int:
    i = 0
    while SIDES[i] != side:
        i += 1
    return i


@kernel
def _empty_group(
    g: Int, groups: Slots, cells: Slots, postings: Postings, free: Slots, free_cells: Slots, state: Ints
) -> None:
    """Give back the blocks of a group's list or grid."""
    side, base = np.int64(groups[g, SIDE]), np.int64(groups[g, BASE])
    if side == 1:
        _give_block(base, groups[g, CAPACITY], postings, free, state)
        return
    for row in range(base, base + side * (side + 2), side + 2):
        _give_block(cells[row + 1], cells[row], postings, free, state)
    number = _side_number(side)
    cells[base] = free_cells[number]
    free_cells[number] = base


@kernel
def _gathered(g: Int, groups: Slots, cells: Slots, postings: Postings) -> Postings:
    """Return a copy of a group's postings."""
    side, base, count = np.int64(groups[g, SIDE]), np.int64(groups[g, BASE]), 0
    copied = np.empty((groups[g, COUNT], 4), np.uint32)
    if side == 1:
        copied[:] = postings[base : base + groups[g, COUNT]]
        return copied
    for row in range(base, base + side * (side + 2), side + 2):
        for place in range(cells[row + 1], cells[row + 1 + side]):
            if postings[place, 2] != HOLE:
                copied[count] = postings[place]
                count += 1
    return copied


@kernel
def _regrid(
    g: Int, side: Int, groups: Slots, cells: Slots, postings: Postings, free: Slots, free_cells: Slots, state: Ints
) -> None:
    """Lay a group out anew with another side; the caller has made sure of the room."""
    old = _gathered(g, groups, cells, postings)
    _empty_group(g, groups, cells, postings, free, free_cells, state)
    count = old.shape[0]
    half_x: Any = np.int64(0)
    half_y: Any = np.int64(0)
    for i in range(count):
        half_x = max(half_x, (np.int64(old[i, 0] >> SHIFT) + 1) >> 1)
        half_y = max(half_y, (np.int64(old[i, 1] >> SHIFT) + 1) >> 1)
    groups[g, HALF_X], groups[g, HALF_Y], groups[g, SIDE] = half_x, half_y, side
    groups[g, SIZE] = _size_class(g, groups)
    if side == 1:
        block = _size_of(_class_of(max(count, 1)))
        base = _take_block(block, postings, free, state)
        postings[base : base + count] = old
        groups[g, BASE], groups[g, CAPACITY] = base, block
        return
    number = _side_number(side)
    base = np.int64(free_cells[number])
    if base >= 0:
        free_cells[number] = cells[base]
    else:
        base = state[CELLS_TOP]
        state[CELLS_TOP] += side * (side + 2)
    groups[g, BASE] = base
    cells[base : base + side * (side + 2)] = 0
    for i in range(count):
        row = (_centre(old[i, 1]) * side) >> 16
        column = (_centre(old[i, 0]) * side) >> 16
        cells[base + row * (side + 2) + 2 + column] += 1
    crowding: Any = np.int64(0)
    for row in range(base, base + side * (side + 2), side + 2):
        length = np.int64(0)
        for column in range(side):
            length += cells[row + 2 + column]
        if length > 0:
            block = _size_of(_class_of(length))
            place = _take_block(block, postings, free, state)
            cells[row], cells[row + 1] = block, place
            # Each cell's entry becomes its start, one place too far right until it is filled.
            for column in range(side):
                here = np.int64(cells[row + 2 + column])
                cells[row + 2 + column] = place
                place += here
                crowding += here * here
    for i in range(count):
        row = (_centre(old[i, 1]) * side) >> 16
        column = (_centre(old[i, 0]) * side) >> 16
        entry = base + row * (side + 2) + 2 + column
        for k in range(4):
            postings[cells[entry], k] = old[i, k]
        cells[entry] += 1
    groups[g, CROWDING] = min(crowding, MOST_CROWDING)


@kernel
def _find_group(word: Int, size_class: Int, directory: Slots, groups: Slots) -> Int:
    g = np.int64(directory[word])
    while g >= 0 and _size_class(g, groups) != size_class:
        g = np.int64(groups[g, NEXT])
    return g


@kernel
def _open_group(word: Int, size_class: Int, directory: Slots, groups: Slots, state: Ints) -> Int:
    g = state[FREE_GROUP]
    if g >= 0:
        state[FREE_GROUP] = groups[g, NEXT]
    else:
        g = state[GROUPS_TOP]
        state[GROUPS_TOP] += 1
    groups[g] = 0
    groups[g, SIDE], groups[g, SIZE], groups[g, NEXT] = 1, size_class, directory[word]
    directory[word] = g
    return g


@kernel
def _close_group(word: Int, g: Int, directory: Slots, groups: Slots, state: Ints) -> None:
    if directory[word] == g:
        directory[word] = groups[g, NEXT]
    else:
        before = directory[word]
        while groups[before, NEXT] != g:
            before = groups[before, NEXT]
        groups[before, NEXT] = groups[g, NEXT]
    groups[g, COUNT], groups[g, NEXT] = 0, state[FREE_GROUP]
    state[FREE_GROUP] = g


@kernel
def _place_in_list(g: Int, groups: Slots, postings: Postings, free: Slots, state: Ints) -> Int:
    """Make room at the end of a list and return the place."""
    count, base, capacity = np.int64(groups[g, COUNT]), np.int64(groups[g, BASE]), np.int64(groups[g, CAPACITY])
    if count == capacity:
        block = _size_of(_class_of(count + 1))
        moved = _take_block(block, postings, free, state)
        postings[moved : moved + count] = postings[base : base + count]
        _give_block(base, capacity, postings, free, state)
        groups[g, BASE], groups[g, CAPACITY] = moved, block
        base = moved
    return base + count


@kernel
def _place_in_row(row: Int, column: Int, side: Int, cells: Slots, postings: Postings, free: Slots, state: Ints) -> Int:
    """Make room at the end of a cell and return the place.

    Order within a cell does not matter, so each later cell gives way by moving its first posting to its end.
    """
    first = row + 1
    length = np.int64(cells[first + side]) - cells[first]
    if length == cells[row]:
        block = _size_of(_class_of(length + 1))
        moved = _take_block(block, postings, free, state)
        base = np.int64(cells[first])
        postings[moved : moved + length] = postings[base : base + length]
        _give_block(base, length, postings, free, state)
        cells[row] = block
        for k in range(side + 1):
            cells[first + k] += moved - base
    for k in range(side - 1, column, -1):
        start, end = cells[first + k], cells[first + k + 1]
        if end > start:
            _copy(postings, start, end)
        cells[first + k + 1] = end + 1
    place = np.int64(cells[first + column + 1])
    cells[first + column + 1] = place + 1
    return place


@kernel
def _place_in_hole(g: Int, entry: Int, groups: Slots, cells: Slots, postings: Postings) -> Int:
    """Return a hole of a cell and count it as filled, or -1."""
    if _holes(g, groups) > 0:
        for place in range(cells[entry], cells[entry + 1]):
            if postings[place, 2] == HOLE:
                groups[g, SIZE] -= 1 << SIZE_BITS
                return np.int64(place)
    return np.int64(-1)


@kernel
def _hint(
    i: Int, words: Slots, box: Slots, directory: Slots, groups: Slots, cells: Slots, postings: Postings, filing: bool
) -> None:
    """Ask for what the next postings of a batch will touch: the further ahead, the earlier the stage.

    Filing moves postings up to the end of the row, taking out touches one cell.
    """
    last = words.shape[0] - 1
    prefetch(directory, words[min(i + 16, last)])
    prefetch(groups, 8 * np.int64(directory[words[min(i + 11, last)]]))
    for ahead in (7, 3):
        n = min(i + ahead, last)
        g = np.int64(directory[words[n]])
        if g < 0:
            continue
        side, base = np.int64(groups[g, SIDE]), np.int64(groups[g, BASE])
        if side > 1:
            column = ((box[n, 0] + ((box[n, 2] - box[n, 0]) >> 1)) * side) >> 16
            row = ((box[n, 1] + ((box[n, 3] - box[n, 1]) >> 1)) * side) >> 16
            base += row * (side + 2)
            entry = base + 1 + column
            if ahead == 7:
                prefetch(cells, entry)
                if filing:
                    prefetch(cells, base)
                    prefetch(cells, base + 1 + side)
            elif filing:
                prefetch(postings, 4 * np.int64(cells[entry + 1]))
                prefetch(postings, 4 * np.int64(cells[base + 1 + side]))
            else:
                prefetch(postings, 4 * np.int64(cells[entry]))
        elif ahead == 7:
            prefetch(postings, 4 * base)


@kernel
def add(
    start: Int, slots: Slots, words: Slots, box: Slots, tags: Postings, verify: NDArray[np.bool_], directory: Slots,
    groups: Slots, cells: Slots, postings: Postings, free: Slots, free_cells: Slots, state: Ints, per_posting: float,
    most_per_posting: float, list_length: Int,
) -> Int:  # fmt: skip
    """File postings from `start` on; return how many are filed: all, or as many as there is room for.

    `box` rows are low x, low y, high x, high y in quanta. Where the room is not enough, `state` says what is needed.
    """
    for i in range(start, slots.shape[0]):
        _hint(i, words, box, directory, groups, cells, postings, True)
        wide, high = box[i, 2] - box[i, 0], box[i, 3] - box[i, 1]
        size_class = 0
        while (1 << size_class) <= max(wide, high):
            size_class += 1
        g = _find_group(words[i], size_class, directory, groups)
        count = np.int64(groups[g, COUNT]) if g >= 0 else np.int64(0)
        side = np.int64(groups[g, SIDE]) if g >= 0 else np.int64(1)
        wanted = _wanted_side(g, groups, per_posting, most_per_posting, list_length) if g >= 0 else side
        state[NEED_POSTINGS] = 2 * count + wanted + 8
        state[NEED_CELLS] = wanted * (wanted + 2) if wanted != side else 0
        if (
            state[POSTINGS_TOP] + state[NEED_POSTINGS] > postings.shape[0]
            or state[CELLS_TOP] + state[NEED_CELLS] > cells.shape[0]
            or state[GROUPS_TOP] >= groups.shape[0]
        ):
            return i
        if g < 0:
            g = _open_group(words[i], size_class, directory, groups, state)
        if wanted != side:
            _regrid(g, wanted, groups, cells, postings, free, free_cells, state)
            side = wanted
        low_x, low_y = (
            np.uint32(box[i, 0]) | (np.uint32(wide) << SHIFT),
            np.uint32(box[i, 1]) | (np.uint32(high) << SHIFT),
        )
        if side == 1:
            place = _place_in_list(g, groups, postings, free, state)
        else:
            row = np.int64(groups[g, BASE]) + ((_centre(low_y) * side) >> 16) * (side + 2)
            column = (_centre(low_x) * side) >> 16
            place = _place_in_hole(g, row + 1 + column, groups, cells, postings)
            if place < 0:
                place = _place_in_row(row, column, side, cells, postings, free, state)
                neighbours = np.int64(cells[row + 2 + column]) - cells[row + 1 + column] - 1
                groups[g, CROWDING] = min(groups[g, CROWDING] + 2 * neighbours + 1, MOST_CROWDING)
        postings[place, 0] = low_x
        postings[place, 1] = low_y
        postings[place, 2] = np.uint32(slots[i]) | (VERIFY if verify[i] else np.uint32(0))
        postings[place, 3] = tags[i]
        groups[g, COUNT] += 1
        groups[g, HALF_X] = max(groups[g, HALF_X], (wide + 1) >> 1)
        groups[g, HALF_Y] = max(groups[g, HALF_Y], (high + 1) >> 1)
    return slots.shape[0]


@kernel
def discard(
    start: Int, slots: Slots, words: Slots, box: Slots, directory: Slots, groups: Slots, cells: Slots,
    postings: Postings, free: Slots, free_cells: Slots, state: Ints, per_posting: float, most_per_posting: float,
    list_length: Int,
) -> Int:  # fmt: skip
    """Take postings out from `start` on; return how many are out: all, or as many as there is room to lay out anew."""
    for i in range(start, slots.shape[0]):
        _hint(i, words, box, directory, groups, cells, postings, False)
        wide, high = box[i, 2] - box[i, 0], box[i, 3] - box[i, 1]
        size_class = 0
        while (1 << size_class) <= max(wide, high):
            size_class += 1
        g = _find_group(words[i], size_class, directory, groups)
        side, base, count = np.int64(groups[g, SIDE]), np.int64(groups[g, BASE]), np.int64(groups[g, COUNT])
        sparse = side > 1 and (
            2 * (count - 1) <= list_length or (count - 1) * 4 * max(2 * per_posting, most_per_posting) < side * side
        )
        holed = side > 1 and (_holes(g, groups) + 1) * POSTINGS_PER_HOLE > count - 1
        state[NEED_POSTINGS] = 2 * count + side + 8
        state[NEED_CELLS] = side * (side + 2)
        if (sparse or holed) and (
            state[POSTINGS_TOP] + state[NEED_POSTINGS] > postings.shape[0]
            or state[CELLS_TOP] + state[NEED_CELLS] > cells.shape[0]
        ):
            return i
        if side == 1:
            place = base
            while postings[place, 2] & SLOT != np.uint32(slots[i]):
                place += 1
            _copy(postings, base + count - 1, place)
        else:
            column = ((box[i, 0] + (wide >> 1)) * side) >> 16
            row = base + (((box[i, 1] + (high >> 1)) * side) >> 16) * (side + 2)
            place = np.int64(cells[row + 1 + column])
            while postings[place, 2] & SLOT != np.uint32(slots[i]):
                place += 1
            postings[place, 0] = postings[place, 1] = LOW16
            postings[place, 2], postings[place, 3] = HOLE, np.uint32(0)
            groups[g, SIZE] += 1 << SIZE_BITS
        groups[g, COUNT] -= 1
        if count == 1:
            _empty_group(g, groups, cells, postings, free, free_cells, state)
            _close_group(words[i], g, directory, groups, state)
        elif sparse or holed:
            smaller = min(_best_side(count - 1, per_posting, size_class, list_length), side) if sparse else side
            if smaller < side or holed:
                _regrid(g, smaller, groups, cells, postings, free, free_cells, state)
    return slots.shape[0]
