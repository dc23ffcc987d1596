"""Kernels of KAG, the keyword-adaptive grid. `operators.indexes.range.kag` explains the idea; this is the layout.

postings    uint32 rows of 16 bytes, four to a cache line:
            [x low | width << 16, y low | height << 16, slot | flags, tag | tag << 16], coordinates in the group's frame
directory   int32 by word: its first group, or -1
groups      int32 rows of 32 bytes: postings, side, base, half width | half height << 16, next group,
            size class | shift << 5 | holes << 9, capacity or crowding, origin.
            A group holds the postings of one word and one class of sizes. Side 1: a list of postings at base.
            Otherwise a grid of side x side cells: its rows are in `cells` at base. A posting that is taken out of a grid
            leaves a hole, which the next posting of its cell fills. Side 0: the postings are in groups by their second word,
            whose numbers are in `cells` at base
cells       int32, one run of side + 2 for each row of a grid: capacity, then start of cell 0, 1, .., end of the last cell.
            The postings of a row are one run, cell after cell, so that neighbouring cells are read in one sweep
bundles     int32 rows: base, queries, capacity, next free one. Where many queries are equal they share a posting, which has
            the bundle's number for a slot; their slots are at 4 x base in `postings`, as plain numbers
members     int32 rows by slot: bundle + 1, or 0, and the place in it
apart       uint8 by slot: the posting is in a group by second words
state       int64: see the constants

Coordinates are quanta of 2^-31 of the space (`operators.indexes.core.quanta`), of which a group's frame has 2^(16 + shift): it
is as small as its postings allow, so that a city is told apart as well in a world as in a space of its own. Frames start at
multiples of half their size. They only grow coarser while postings last, which loses nothing, because rounding down
twice is rounding down once. A posting is filed by its centre; with h the largest half extent in the group, every
match of an object at X has its centre within X - h .. X + h, and the cells of these bounds enclose it because
(v * side) >> 16 is monotone.
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

#: Places in `state`: ends of the used parts, heads of free groups, what to make room for, postings in free blocks, queries
#: that share a posting, end and head of bundles, postings filed by second word so far.
POSTINGS_TOP, CELLS_TOP, GROUPS_TOP, FREE_GROUP, NEED_POSTINGS, NEED_CELLS, NEED_GROUPS, UNUSED = range(8)
MEMBERS, BUNDLES_TOP, FREE_BUNDLE, APART = range(8, 12)
STATE_SIZE = 12
#: Columns of `groups`. CAPACITY is that of a list, and for a grid its crowding: the sum over its cells of the
#: squared number of postings, so that crowding / postings is what a posting finds in its cell on average.
COUNT, SIDE, BASE, HALVES, NEXT, SIZE, CAPACITY, ORIGIN = range(8)
#: Columns of `bundles`.
SLOTS_AT, QUERIES, ROOM, NEXT_FREE = range(4)
CROWDING = CAPACITY
MOST_CROWDING = 2**31 - 1
#: Bits of `groups[:, SIZE]`: the size class, the shift of the frame; the number of holes is above them.
CLASS_BITS, SHIFT_BITS = 5, 4
HOLE_SHIFT = CLASS_BITS + SHIFT_BITS
#: A grid is laid out anew before its holes outgrow their bits.
MOST_HOLES = 2**21
#: Bits of a coordinate, of one within a frame, and the largest shift: its frame is the space.
FINE_BITS, FRAME_BITS, LARGEST_SHIFT = 31, 16, 15

#: Flags of a posting: the table must be asked; the tags are words that must be absent; the region is a circle, of which the
#: box is the bounding one; it is a bundle's.
VERIFY, ABSENT, ROUND, SHARED = np.uint32(1 << 31), np.uint32(1 << 30), np.uint32(1 << 29), np.uint32(1 << 28)
SLOT = np.uint32((1 << 28) - 1)
LOW16 = np.uint32(0xFFFF)
#: What a hole has for slot and flags: no slot is that large. Its box is the last corner of the frame, and nothing.
HOLE = np.uint32(0xFFFFFFFF)
SHIFT = np.uint32(16)

#: Words below this have a tag of their own; the others share tags above it and are verified. The last tag is no word's.
EXACT_TAGS = 32768
NO_WORD = 65535

#: Sides of grids: each has twice the cells of the one before.
SIDES = np.array([1, 2, 3, 4, 6, 8, 11, 16, 23, 32, 45, 64, 91, 128, 181, 256, 362, 512], np.int64)
#: Groups by second word: so many, told apart by the word's last bits; their numbers take the room of a grid of side 16.
SECOND_WORDS, SECOND_SIDE = 256, 16
#: Candidates an object is expected to meet in a group before its next postings are told apart by their second words.
TOO_MANY = 128

#: Objects that go through the stages together; runs of postings they may have before those are read.
TOGETHER = 32
RUNS = 32768

#: A grid is laid out anew when it has one hole for so many postings.
POSTINGS_PER_HOLE = 2

#: Postings that a posting may find in its own cell on average before the grid grows finer.
CROWDED = 12
#: Postings at the end of a cell that a new one is compared with, because equal queries share one; and those among which
#: it looks for a hole.
COMPARED, LOOKED_AT = 24, 64
#: Equal postings among those from which on further ones share one: a few are read faster where they stand.
ALIKE = 8
#: Postings of a cell beyond which all that a batch takes out of it are looked for at once.
SWEPT = 256


@kernel
def _tag_of(word: Int) -> Int:
    return np.int32(word if word < EXACT_TAGS else min(EXACT_TAGS | (word & (EXACT_TAGS - 1)), NO_WORD - 1))


@kernel
def tag(
    slots: Slots, words: Slots, round_ones: NDArray[np.bool_], kw: Slots, pool: Slots, traits: Any, tags: Postings,
    flags: Postings,
) -> None:  # fmt: skip
    """Write the two tags of each posting and its flags.

    Where all words are asked for, the tags are the second and the third; tag 0 is present in every object. Where any will do,
    an object counts under the first of its words, so that those before it must be absent; the last tag always is.
    """
    for i in range(slots.shape[0]):
        slot = slots[i]
        more = kw[slot, 2] < -1
        kind = traits[slot] & 3
        doubt = kind >= 2 and not round_ones[i]
        flag = ROUND if round_ones[i] else np.uint32(0)
        if traits[slot] & 4 == 0:
            second, third = kw[slot, 1], pool[-1 - kw[slot, 2]] if more else kw[slot, 2]
            doubt = doubt or more or second >= EXACT_TAGS or third >= EXACT_TAGS
            first_tag, second_tag = _tag_of(max(second, 0)), _tag_of(max(third, 0))
        else:
            flag |= ABSENT
            first_tag, second_tag = np.int32(NO_WORD), np.int32(NO_WORD)
            j = 0
            while True:
                own = pool[-2 - kw[slot, 2] + j - 1] if more and j >= 2 else kw[slot, j]
                if own == words[i]:
                    break
                if own >= EXACT_TAGS or j >= 2:
                    doubt = True
                elif j == 0:
                    first_tag = own
                else:
                    second_tag = own
                j += 1
        tags[i] = np.uint32(first_tag) | np.uint32(second_tag) << SHIFT
        flags[i] = flag | (VERIFY if doubt else np.uint32(0))


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
def _swap(postings: Postings, one: Int, other: Int) -> None:
    for k in range(4):
        postings[one, k], postings[other, k] = postings[other, k], postings[one, k]


@kernel
def _centre(edge: Any) -> Int:
    """Return the centre of a packed (low, extent) in quanta."""
    return np.int64(edge & LOW16) + (np.int64(edge >> SHIFT) >> 1)


@kernel
def _size_class(g: Int, groups: Slots) -> Int:
    return np.int64(groups[g, SIZE]) & ((1 << CLASS_BITS) - 1)


@kernel
def _shift(g: Int, groups: Slots) -> Int:
    return (np.int64(groups[g, SIZE]) >> CLASS_BITS) & ((1 << SHIFT_BITS) - 1)


@kernel
def _holes(g: Int, groups: Slots) -> Int:
    return np.int64(groups[g, SIZE]) >> HOLE_SHIFT


@kernel
def _origin(packed: Int, shift: Int) -> Any:
    """Return where a frame starts: multiples of half its size are packed."""
    return (packed & 0xFFFF) << (15 + shift), ((packed >> 16) & 0xFFFF) << (15 + shift)


@kernel
def _frame(low_x: Int, low_y: Int, high_x: Int, high_y: Int, least: Int) -> Any:
    """Return shift and packed origin of the smallest frame around bounds, with at least some shift."""
    shift = least
    while shift < LARGEST_SHIFT:
        half, size = 15 + shift, np.int64(1) << (16 + shift)
        if high_x - ((low_x >> half) << half) < size and high_y - ((low_y >> half) << half) < size:
            return shift, (low_x >> half) | ((low_y >> half) << 16)
        shift += 1
    return np.int64(LARGEST_SHIFT), np.int64(0)


@kernel
def _set_frame(g: Int, groups: Slots, size_class: Int, shift: Int, packed: Int) -> None:
    """Give a group a frame, and no holes."""
    groups[g, SIZE] = size_class | (shift << CLASS_BITS)
    groups[g, ORIGIN] = np.int32(np.uint32(packed))


@kernel
def _in_frame(g: Int, groups: Slots, low_x: Int, low_y: Int, high_x: Int, high_y: Int) -> bool:
    shift = _shift(g, groups)
    from_x, from_y = _origin(np.int64(groups[g, ORIGIN]), shift)
    size = np.int64(1) << (16 + shift)
    return low_x >= from_x and low_y >= from_y and high_x - from_x < size and high_y - from_y < size


@kernel
def _edges(g: Int, groups: Slots, low_x: Int, low_y: Int, high_x: Int, high_y: Int) -> Any:
    """Return a box as a posting of this group has it, in its two packed words."""
    shift = _shift(g, groups)
    from_x, from_y = _origin(np.int64(groups[g, ORIGIN]), shift)
    left, below = (low_x - from_x) >> shift, (low_y - from_y) >> shift
    wide, high = ((high_x - from_x) >> shift) - left, ((high_y - from_y) >> shift) - below
    return np.uint32(left) | (np.uint32(wide) << SHIFT), np.uint32(below) | (np.uint32(high) << SHIFT)


@kernel
def _class_of_box(wide: Int, high: Int) -> Int:
    size_class = 0
    while (np.int64(1) << size_class) <= max(wide, high):
        size_class += 1
    return min(size_class, 31)


@kernel
def _best_side(count: Int, per_posting: float, across: Int, list_length: Int) -> Int:
    """Return the side for a group: enough cells for its postings, none smaller than a quarter of their regions.

    `across` is the number of bits of a region's extent in the frame.
    """
    if count <= list_length:
        return 1
    most = 1 << max(min(18 - across, 9), 1)
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
    across, holes = _across(g, groups), _holes(g, groups)
    if side == 1 and count < list_length:
        return side
    if side == 1 or count * per_posting > side * side:
        return max(side, _best_side(count + count // 2 + 1, per_posting, across, list_length))
    if groups[g, CROWDING] > CROWDED * (count + holes) and side * side < most_per_posting * count:
        return max(side, _best_side(2 * side * side, 1.0, across, 1))
    return side


@kernel
def _across(g: Int, groups: Slots) -> Int:
    """Return the number of bits of a region's extent in its group's frame."""
    return _size_class(g, groups) - _shift(g, groups)


@kernel
def _side_number(side: Int) -> Int:
    i = 0
    while SIDES[i] != side:
        i += 1
    return i


@kernel
def _take_cells(number: Int, cells: Slots, free_cells: Slots, state: Ints) -> Int:
    """Return where there is room for the cells of a grid."""
    base = np.int64(free_cells[number])
    if base >= 0:
        free_cells[number] = cells[base]
        return base
    side = SIDES[number]
    base = state[CELLS_TOP]
    state[CELLS_TOP] += side * (side + 2)
    return base


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
def _reframe(g: Int, old: Postings, i: Int, box: Slots, groups: Slots) -> None:
    """Give a group the smallest frame around its postings and one more box, and the postings their places in it."""
    shift, count = _shift(g, groups), old.shape[0]
    from_x, from_y = _origin(np.int64(groups[g, ORIGIN]), shift)
    low_x, low_y = np.int64(box[i, 0]), np.int64(box[i, 1])
    high_x, high_y = np.int64(box[i, 2]), np.int64(box[i, 3])
    for k in range(count):
        left, below = np.int64(old[k, 0] & LOW16), np.int64(old[k, 1] & LOW16)
        right, above = left + np.int64(old[k, 0] >> SHIFT), below + np.int64(old[k, 1] >> SHIFT)
        low_x, low_y = min(low_x, from_x + (left << shift)), min(low_y, from_y + (below << shift))
        high_x = max(high_x, from_x + ((right + 1) << shift) - 1)
        high_y = max(high_y, from_y + ((above + 1) << shift) - 1)
    coarser, packed = _frame(low_x, low_y, high_x, high_y, shift)
    to_x, to_y = _origin(packed, coarser)
    by_x, by_y, less = (from_x - to_x) >> shift, (from_y - to_y) >> shift, coarser - shift
    for k in range(count):
        left, below = np.int64(old[k, 0] & LOW16) + by_x, np.int64(old[k, 1] & LOW16) + by_y
        right, above = left + np.int64(old[k, 0] >> SHIFT), below + np.int64(old[k, 1] >> SHIFT)
        old[k, 0] = np.uint32(left >> less) | (np.uint32((right >> less) - (left >> less)) << SHIFT)
        old[k, 1] = np.uint32(below >> less) | (np.uint32((above >> less) - (below >> less)) << SHIFT)
    _set_frame(g, groups, _size_class(g, groups), coarser, packed)


@kernel
def _regrid(
    g: Int, side: Int, row_of_box: Int, box: Slots, groups: Slots, cells: Slots, postings: Postings, free: Slots,
    free_cells: Slots, state: Ints,
) -> None:  # fmt: skip
    """Lay a group out anew with another side, and a frame with room for a box if its row is one; there is room for it."""
    old = _gathered(g, groups, cells, postings)
    _empty_group(g, groups, cells, postings, free, free_cells, state)
    count = old.shape[0]
    if row_of_box >= 0:
        _reframe(g, old, row_of_box, box, groups)
    groups[g, SIZE] &= (1 << HOLE_SHIFT) - 1
    half_x: Any = np.int64(0)
    half_y: Any = np.int64(0)
    for i in range(count):
        half_x = max(half_x, (np.int64(old[i, 0] >> SHIFT) + 1) >> 1)
        half_y = max(half_y, (np.int64(old[i, 1] >> SHIFT) + 1) >> 1)
    groups[g, HALVES], groups[g, SIDE] = np.int32(np.uint32(half_x | (half_y << 16))), side
    if side == 1:
        block = _size_of(_class_of(max(count, 1)))
        base = _take_block(block, postings, free, state)
        postings[base : base + count] = old
        groups[g, BASE], groups[g, CAPACITY] = base, block
        return
    number = _side_number(side)
    base = _take_cells(number, cells, free_cells, state)
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
def _find_group(word: Int, size_class: Int, divided: bool, directory: Slots, groups: Slots) -> Int:
    """Return the group of a word and class, or the one whose postings are told apart by second words; -1 is none."""
    g = np.int64(directory[word])
    while g >= 0 and (_size_class(g, groups) != size_class or (groups[g, SIDE] == 0) != divided):
        g = np.int64(groups[g, NEXT])
    return g


@kernel
def _open_group(size_class: Int, groups: Slots, state: Ints) -> Int:
    """Return a new, empty list."""
    g = state[FREE_GROUP]
    if g >= 0:
        state[FREE_GROUP] = groups[g, NEXT]
    else:
        g = state[GROUPS_TOP]
        state[GROUPS_TOP] += 1
    groups[g] = 0
    groups[g, SIDE], groups[g, SIZE], groups[g, NEXT] = 1, size_class, -1
    return g


@kernel
def _close_group(g: Int, groups: Slots, state: Ints) -> None:
    groups[g, COUNT], groups[g, NEXT] = 0, state[FREE_GROUP]
    state[FREE_GROUP] = g


@kernel
def _unchain(word: Int, g: Int, directory: Slots, groups: Slots) -> None:
    """Take a group out of its word's chain."""
    if directory[word] == g:
        directory[word] = groups[g, NEXT]
        return
    before = directory[word]
    while groups[before, NEXT] != g:
        before = groups[before, NEXT]
    groups[before, NEXT] = groups[g, NEXT]


@kernel
def _divide(
    word: Int, size_class: Int, directory: Slots, groups: Slots, cells: Slots, free_cells: Slots, state: Ints
) -> Int:
    """Open a group whose postings are told apart by their second words."""
    g = _open_group(size_class, groups, state)
    base = _take_cells(_side_number(SECOND_SIDE), cells, free_cells, state)
    cells[base : base + SECOND_WORDS] = -1
    groups[g, SIDE], groups[g, BASE], groups[g, NEXT] = 0, base, directory[word]
    directory[word] = g
    return g


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
    """Return a hole among the last of a cell and count it as filled, or -1."""
    if _holes(g, groups) > 0:
        last = np.int64(cells[entry + 1])
        for place in range(max(np.int64(cells[entry]), last - LOOKED_AT), last):
            if postings[place, 2] == HOLE:
                groups[g, SIZE] -= 1 << HOLE_SHIFT
                return np.int64(place)
    return np.int64(-1)


@kernel
def _hint(
    i: Int, words: Slots, box: Slots, directory: Slots, groups: Slots, cells: Slots, postings: Postings, filing: bool
) -> None:
    """Ask for what the next postings of a batch will touch: the further ahead, the earlier the stage.

    Filing moves postings up to the end of the row, taking out touches one cell. Only the first group of a word is looked at.
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
        if side > 1 and _in_frame(g, groups, box[n, 0], box[n, 1], box[n, 2], box[n, 3]):
            edge_x, edge_y = _edges(g, groups, box[n, 0], box[n, 1], box[n, 2], box[n, 3])
            base += ((_centre(edge_y) * side) >> 16) * (side + 2)
            entry = base + 1 + ((_centre(edge_x) * side) >> 16)
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
        elif side == 1 and ahead == 7:
            prefetch(postings, 4 * base)


@kernel
def _cell(g: Int, edge_x: Any, edge_y: Any, groups: Slots, cells: Slots) -> Any:
    """Return where the postings of a box's cell begin and end; a list is one cell."""
    side, base = np.int64(groups[g, SIDE]), np.int64(groups[g, BASE])
    if side == 1:
        return base, base + np.int64(groups[g, COUNT])
    entry = base + ((_centre(edge_y) * side) >> 16) * (side + 2) + 1 + ((_centre(edge_x) * side) >> 16)
    return np.int64(cells[entry]), np.int64(cells[entry + 1])


@kernel
def _equal(one: Int, other: Int, shape: Floats, traits: Any, kw: Slots, pool: Slots) -> bool:
    """Tell whether two queries ask the same; who sleeps, and what was said that makes no difference, does not matter."""
    if traits[one] & 7 != traits[other] & 7 or traits[one] & 7 > 2:
        return False
    for k in range(4):
        if shape[one, k] != shape[other, k]:
            return False
    if kw[one, 0] != kw[other, 0] or kw[one, 1] != kw[other, 1]:
        return False
    if kw[one, 2] >= -1 or kw[other, 2] >= -1:
        return bool(kw[one, 2] == kw[other, 2])
    for j in range(pool[-2 - kw[one, 2]] + 1):  # noqa: SIM110 - a kernel has no generators
        if pool[-2 - kw[one, 2] + j] != pool[-2 - kw[other, 2] + j]:
            return False
    return True


@kernel
def _partner(
    slot: Int, first: Int, last: Int, edge_x: Any, edge_y: Any, flags: Any, tags: Any, postings: Postings,
    bundles: Slots, shape: Floats, traits: Any, kw: Slots, pool: Slots,
) -> Int:  # fmt: skip
    """Return the place of a posting that an equal query is to share, among the last of a cell, or -1."""
    alike, found = 0, np.int64(-1)
    for place in range(last - 1, max(first, last - COMPARED) - 1, -1):
        if (
            postings[place, 0] == edge_x
            and postings[place, 1] == edge_y
            and postings[place, 3] == tags
            and (postings[place, 2] & ~(SLOT | SHARED)) == flags
            and postings[place, 2] != HOLE
        ):
            other = np.int64(postings[place, 2] & SLOT)
            shared = postings[place, 2] & SHARED != 0
            if shared:
                other = np.int64(postings[bundles[other, SLOTS_AT], 0])
            if _equal(slot, other, shape, traits, kw, pool):
                alike += 1
                if shared:
                    return np.int64(place)
                if found < 0:
                    found = np.int64(place)
    return found if alike >= ALIKE else np.int64(-1)


@kernel
def _join(slot: Int, place: Int, postings: Postings, bundles: Slots, members: Slots, free: Slots, state: Ints) -> None:
    """Let a query share a posting; there is room for another bundle, and for this one to be half as large again."""
    if postings[place, 2] & SHARED == 0:
        other = np.int64(postings[place, 2] & SLOT)
        b = state[FREE_BUNDLE]
        if b >= 0:
            state[FREE_BUNDLE] = bundles[b, NEXT_FREE]
        else:
            b = state[BUNDLES_TOP]
            state[BUNDLES_TOP] += 1
        base = _take_block(1, postings, free, state)
        bundles[b, SLOTS_AT], bundles[b, QUERIES], bundles[b, ROOM] = base, 1, 4
        postings[base, 0] = np.uint32(other)
        members[other, 0], members[other, 1] = b + 1, 0
        state[MEMBERS] += 1
        postings[place, 2] = (postings[place, 2] & ~SLOT) | np.uint32(b) | SHARED
    b = np.int64(postings[place, 2] & SLOT)
    base, count, room = np.int64(bundles[b, SLOTS_AT]), np.int64(bundles[b, QUERIES]), np.int64(bundles[b, ROOM])
    if count == room:
        rows = _size_of(_class_of(room // 4 + room // 8 + 1))
        moved = _take_block(rows, postings, free, state)
        postings[moved : moved + room // 4] = postings[base : base + room // 4]
        _give_block(base, room // 4, postings, free, state)
        bundles[b, SLOTS_AT], bundles[b, ROOM] = moved, 4 * rows
        base = moved
    postings[base + (count >> 2), count & 3] = np.uint32(slot)
    members[slot, 0], members[slot, 1] = b + 1, count
    bundles[b, QUERIES] = count + 1
    state[MEMBERS] += 1


@kernel
def _leave(slot: Int, postings: Postings, bundles: Slots, members: Slots, free: Slots, state: Ints) -> None:
    """Take a query out of its bundle; an empty one is closed."""
    b = np.int64(members[slot, 0]) - 1
    base, left, at = np.int64(bundles[b, SLOTS_AT]), np.int64(bundles[b, QUERIES]) - 1, np.int64(members[slot, 1])
    moved = postings[base + (left >> 2), left & 3]
    postings[base + (at >> 2), at & 3] = moved
    members[moved, 1] = at
    members[slot, 0] = members[slot, 1] = 0
    bundles[b, QUERIES] = left
    state[MEMBERS] -= 1
    if left == 0:
        _give_block(base, np.int64(bundles[b, ROOM]) // 4, postings, free, state)
        bundles[b, NEXT_FREE] = state[FREE_BUNDLE]
        state[FREE_BUNDLE] = b


@kernel
def _crowd(g: Int, groups: Slots) -> Int:
    """Return how many of a group's postings an object is expected to meet, by the size of regions in the frame."""
    count, across = np.int64(groups[g, COUNT]), _across(g, groups)
    return count if across >= 15 else count >> (2 * (15 - across))


@kernel
def _group_for(
    slot: Int, word: Int, i: Int, box: Slots, size_class: Int, kw: Slots, traits: Any, apart: NDArray[np.uint8],
    directory: Slots, groups: Slots, cells: Slots, free_cells: Slots, state: Ints,
) -> Int:  # fmt: skip
    """Return the group that a posting belongs to, opened if need be; there is room for two groups and a table of them."""
    g = _find_group(word, size_class, False, directory, groups)
    if state[APART] > 0 and apart[slot] != 0:  # a page that nobody writes to is no memory
        apart[slot] = 0
    if traits[slot] & 4 == 0 and kw[slot, 1] >= 0:
        whole = _find_group(word, size_class, True, directory, groups)
        if whole < 0 and g >= 0 and _crowd(g, groups) >= TOO_MANY:
            whole = _divide(word, size_class, directory, groups, cells, free_cells, state)
        if whole >= 0:
            apart[slot] = 1
            state[APART] += 1
            entry = groups[whole, BASE] + (kw[slot, 1] & (SECOND_WORDS - 1))
            g = np.int64(cells[entry])
            if g < 0:
                g = _open_group(size_class, groups, state)
                cells[entry] = g
    if g < 0:
        g = _open_group(size_class, groups, state)
        groups[g, NEXT] = directory[word]
        directory[word] = g
    if groups[g, COUNT] == 0:
        shift, packed = _frame(
            np.int64(box[i, 0]), np.int64(box[i, 1]), np.int64(box[i, 2]), np.int64(box[i, 3]), np.int64(0)
        )
        _set_frame(g, groups, size_class, shift, packed)
    return g


@kernel
def add(
    start: Int, slots: Slots, words: Slots, box: Slots, tags: Postings, flags: Postings, directory: Slots,
    groups: Slots, cells: Slots, postings: Postings, free: Slots, free_cells: Slots, bundles: Slots, members: Slots,
    apart: NDArray[np.uint8], state: Ints, shape: Floats, traits: Any, kw: Slots, pool: Slots, per_posting: float,
    most_per_posting: float, list_length: Int,
) -> Int:  # fmt: skip
    """File postings from `start` on; return how many are filed: all, or as many as there is room for.

    `box` rows are low x, low y, high x, high y in quanta. Where the room is not enough, `state` says what is needed.
    """
    for i in range(start, slots.shape[0]):
        _hint(i, words, box, directory, groups, cells, postings, True)
        slot = np.int64(slots[i])
        low_x, low_y = np.int64(box[i, 0]), np.int64(box[i, 1])
        high_x, high_y = np.int64(box[i, 2]), np.int64(box[i, 3])
        size_class = _class_of_box(high_x - low_x, high_y - low_y)
        table = SECOND_SIDE * (SECOND_SIDE + 2)
        state[NEED_CELLS], state[NEED_POSTINGS] = table, 8
        if (
            state[CELLS_TOP] + table > cells.shape[0]
            or state[GROUPS_TOP] + 2 > groups.shape[0]
            or state[BUNDLES_TOP] >= bundles.shape[0]
        ):
            return i
        g = _group_for(
            slot, words[i], i, box, size_class, kw, traits, apart, directory, groups, cells, free_cells, state
        )  # fmt: skip
        count, side = np.int64(groups[g, COUNT]), np.int64(groups[g, SIDE])
        fits = _in_frame(g, groups, low_x, low_y, high_x, high_y)
        edge_x, edge_y = _edges(g, groups, low_x, low_y, high_x, high_y)
        if count > 0 and fits and traits[slot] & 4 == 0:
            first, last = _cell(g, edge_x, edge_y, groups, cells)
            place = _partner(
                slot, first, last, edge_x, edge_y, flags[i], tags[i], postings, bundles, shape, traits, kw, pool
            )  # fmt: skip
            if place >= 0:
                if postings[place, 2] & SHARED != 0:
                    state[NEED_POSTINGS] = np.int64(bundles[postings[place, 2] & SLOT, ROOM]) + 8
                if state[POSTINGS_TOP] + state[NEED_POSTINGS] > postings.shape[0]:
                    return i
                _join(slot, place, postings, bundles, members, free, state)
                _swap(postings, place, last - 1)
                continue
        wanted = _wanted_side(g, groups, per_posting, most_per_posting, list_length)
        anew = wanted != side or not fits
        state[NEED_POSTINGS] = 2 * count + wanted + 8
        state[NEED_CELLS] = wanted * (wanted + 2) + table if anew else 0
        if (
            state[POSTINGS_TOP] + state[NEED_POSTINGS] > postings.shape[0]
            or state[CELLS_TOP] + state[NEED_CELLS] > cells.shape[0]
        ):
            return i
        if anew:
            _regrid(g, wanted, i, box, groups, cells, postings, free, free_cells, state)
            side = wanted
            edge_x, edge_y = _edges(g, groups, low_x, low_y, high_x, high_y)
        if side == 1:
            place = _place_in_list(g, groups, postings, free, state)
        else:
            row = np.int64(groups[g, BASE]) + ((_centre(edge_y) * side) >> 16) * (side + 2)
            column = (_centre(edge_x) * side) >> 16
            place = _place_in_hole(g, row + 1 + column, groups, cells, postings)
            if place < 0:
                place = _place_in_row(row, column, side, cells, postings, free, state)
                neighbours = np.int64(cells[row + 2 + column]) - cells[row + 1 + column] - 1
                groups[g, CROWDING] = min(groups[g, CROWDING] + 2 * neighbours + 1, MOST_CROWDING)
        postings[place, 0] = edge_x
        postings[place, 1] = edge_y
        postings[place, 2] = np.uint32(slot) | flags[i]
        postings[place, 3] = tags[i]
        groups[g, COUNT] += 1
        if state[APART] > 0 and apart[slot] == 1:
            groups[_find_group(words[i], size_class, True, directory, groups), COUNT] += 1
        halves = np.int64(groups[g, HALVES])
        half_x = max(halves & 0xFFFF, (np.int64(edge_x >> SHIFT) + 1) >> 1)
        half_y = max((halves >> 16) & 0xFFFF, (np.int64(edge_y >> SHIFT) + 1) >> 1)
        groups[g, HALVES] = np.int32(np.uint32(half_x | (half_y << 16)))
    return slots.shape[0]


@kernel
def _take_out(place: Int, g: Int, groups: Slots, postings: Postings) -> None:
    """Take out a posting: a list's last one takes the place, in a grid a hole is left."""
    if groups[g, SIDE] == 1:
        _copy(postings, np.int64(groups[g, BASE]) + groups[g, COUNT] - 1, place)
    else:
        postings[place, 0] = postings[place, 1] = LOW16
        postings[place, 2], postings[place, 3] = HOLE, np.uint32(0)
        groups[g, SIZE] += 1 << HOLE_SHIFT
    groups[g, COUNT] -= 1


@kernel
def _sweep(
    first: Int, last: Int, word: Int, g: Int, words: Slots, where: Slots, done: NDArray[np.bool_], groups: Slots,
    postings: Postings,
) -> Int:  # fmt: skip
    """Take all postings of a batch out of one cell; return how many have gone. From the end on: a list's last moves up."""
    gone = 0
    for place in range(last - 1, first - 1, -1):
        if postings[place, 2] & SHARED != 0:  # a hole as well
            continue
        i = np.int64(where[postings[place, 2] & SLOT]) - 1
        if i < 0:
            continue
        while words[i] != word:
            i += 1
        if not done[i]:
            done[i] = True
            _take_out(place, g, groups, postings)
            gone += 1
    return gone


@kernel
def _shrink(
    word: Int, g: Int, whole: Int, second: Int, box: Slots, groups: Slots, cells: Slots, postings: Postings,
    directory: Slots, free: Slots, free_cells: Slots, state: Ints, per_posting: float, most_per_posting: float,
    list_length: Int,
) -> None:  # fmt: skip
    """Lay a group out anew where it has grown sparse or full of holes, close it where it is empty."""
    side, count = np.int64(groups[g, SIDE]), np.int64(groups[g, COUNT])
    if count == 0:
        _empty_group(g, groups, cells, postings, free, free_cells, state)
        if whole < 0:
            _unchain(word, g, directory, groups)
        else:
            cells[groups[whole, BASE] + second] = -1
        _close_group(g, groups, state)
    elif side > 1:
        sparse = 2 * count <= list_length or count * 4 * max(2 * per_posting, most_per_posting) < side * side
        holed = _holes(g, groups) * POSTINGS_PER_HOLE > count or _holes(g, groups) >= MOST_HOLES
        smaller = min(_best_side(count, per_posting, _across(g, groups), list_length), side) if sparse else side
        if smaller < side or holed:
            _regrid(g, smaller, -1, box, groups, cells, postings, free, free_cells, state)
    if whole >= 0 and groups[whole, COUNT] == 0:
        number = _side_number(SECOND_SIDE)
        cells[groups[whole, BASE]] = free_cells[number]
        free_cells[number] = groups[whole, BASE]
        _unchain(word, whole, directory, groups)
        _close_group(whole, groups, state)


@kernel
def discard(
    start: Int, slots: Slots, words: Slots, box: Slots, done: NDArray[np.bool_], where: Slots, directory: Slots,
    groups: Slots, cells: Slots, postings: Postings, free: Slots, free_cells: Slots, bundles: Slots, members: Slots,
    apart: NDArray[np.uint8], state: Ints, kw: Slots, per_posting: float, most_per_posting: float, list_length: Int,
) -> Int:  # fmt: skip
    """Take postings out from `start` on; return how many are out: all, or as many as there is room to lay out anew.

    `done` is False for all at first, and `where`, by slot, is 0: so it is left.
    """
    noted, reached = False, slots.shape[0]
    for i in range(start, slots.shape[0]):
        if done[i]:
            continue
        _hint(i, words, box, directory, groups, cells, postings, False)
        slot = np.int64(slots[i])
        b = np.int64(members[slot, 0]) - 1 if state[MEMBERS] > 0 else np.int64(-1)
        if b >= 0 and bundles[b, QUERIES] > 1:
            _leave(slot, postings, bundles, members, free, state)
            done[i] = True
            continue
        low_x, low_y = np.int64(box[i, 0]), np.int64(box[i, 1])
        high_x, high_y = np.int64(box[i, 2]), np.int64(box[i, 3])
        size_class = _class_of_box(high_x - low_x, high_y - low_y)
        whole, second = np.int64(-1), np.int64(kw[slot, 1]) & (SECOND_WORDS - 1)
        if state[APART] > 0 and apart[slot] == 1:
            whole = _find_group(words[i], size_class, True, directory, groups)
            g = np.int64(cells[groups[whole, BASE] + second])
        else:
            g = _find_group(words[i], size_class, False, directory, groups)
        side, count = np.int64(groups[g, SIDE]), np.int64(groups[g, COUNT])
        edge_x, edge_y = _edges(g, groups, low_x, low_y, high_x, high_y)
        first, last = _cell(g, edge_x, edge_y, groups, cells)
        state[NEED_POSTINGS], state[NEED_CELLS] = 2 * count + side + 8, side * (side + 2)
        if side > 1 and (
            state[POSTINGS_TOP] + state[NEED_POSTINGS] > postings.shape[0]
            or state[CELLS_TOP] + state[NEED_CELLS] > cells.shape[0]
        ):
            reached = i
            break
        if last - first > SWEPT and b < 0:
            if not noted:
                noted = True
                for j in range(slots.shape[0] - 1, -1, -1):
                    where[slots[j]] = j + 1
            gone = _sweep(first, last, words[i], g, words, where, done, groups, postings)
        else:
            if b >= 0:
                _leave(slot, postings, bundles, members, free, state)
            wanted = np.uint32(slot) if b < 0 else np.uint32(b) | SHARED
            place = first
            while postings[place, 2] & (SLOT | SHARED) != wanted:
                place += 1
            done[i] = True
            _take_out(place, g, groups, postings)
            gone = 1
        if whole >= 0:
            groups[whole, COUNT] -= gone
        if gone > 0:
            _shrink(
                words[i], g, whole, second, box, groups, cells, postings, directory, free, free_cells, state,
                per_posting, most_per_posting, list_length,
            )  # fmt: skip
    if noted:
        for j in range(slots.shape[0]):
            where[slots[j]] = 0
    return reached
