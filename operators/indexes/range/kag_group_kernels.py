"""Groups of KAG: lists and grids of postings. `operators.indexes.range.kag` has the idea, this is the layout.

postings    uint32 rows of 16 bytes, four to a cache line:
            [x low | width << 16, y low | height << 16, slot | flags, tag | tag << 16], coordinates in the group's frame
directory   int32 by word: its first group, or -1
groups      int32 rows of 32 bytes: postings, side, base, half width | half height << 16, next group,
            size class | shift << 5 | holes << 9, capacity or crowding, origin.
            A group holds the postings of one word and one class of sizes. Side 1: a list of postings at base.
            Otherwise a grid of side x side cells: its rows are in `cells` at base. A posting that is taken out of a grid
            leaves a hole, which the next posting of its cell fills. Side 0: the postings are in groups by the last bits of
            their second word, whose numbers are in `cells` at base. Such a group has -2 - word for its next one: postings with
            that second word have the third and the fourth as tags, the others the second and the third
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

from streams.kernel import kernel, lean_kernel

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
EXACT_TAGS = 0xE000
NO_WORD = 0xFFFF
TAG_BITS = NO_WORD ^ EXACT_TAGS

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


@lean_kernel
def _class_of(size: Int) -> Int:
    """Return the class of the smallest block with room for `size`: every size to 4, 6, 8, then four to the octave."""
    if size <= 8:
        return size - 1 if size <= 4 else (size + 1) // 2 * 2 - 1
    bits = 4
    while (1 << bits) < size:
        bits += 1
    step = 1 << (bits - 3)
    return 8 + (bits - 4) * 4 + (size - (1 << (bits - 1)) + step - 1) // step - 1


@lean_kernel
def _size_of(block_class: Int) -> Int:
    if block_class < 8:
        return block_class + 1
    bits = 4 + (block_class - 8) // 4
    return (1 << (bits - 1)) + ((block_class - 8) % 4 + 1) * (1 << (bits - 3))


@lean_kernel
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


@lean_kernel
def _give_block(base: Int, size: Int, postings: Postings, free: Slots, state: Ints) -> None:
    if size > 0:
        block_class = _class_of(size)
        postings[base, 0] = np.uint32(free[block_class])
        free[block_class] = base
        state[UNUSED] += size


@lean_kernel
def _copy(postings: Postings, source: Int, target: Int) -> None:
    postings[target, 0] = postings[source, 0]
    postings[target, 1] = postings[source, 1]
    postings[target, 2] = postings[source, 2]
    postings[target, 3] = postings[source, 3]


@lean_kernel
def _copy_all(postings: Postings, source: Int, target: Int, count: Int) -> None:
    """Copy a block into another, row by row: a slice would be copied into memory of its own first."""
    for k in range(count):
        _copy(postings, source + k, target + k)


@lean_kernel
def _swap(postings: Postings, one: Int, other: Int) -> None:
    for k in range(4):
        postings[one, k], postings[other, k] = postings[other, k], postings[one, k]


@lean_kernel
def _centre(edge: Any) -> Int:
    """Return the centre of a packed (low, extent) in quanta."""
    return np.int64(edge & LOW16) + (np.int64(edge >> SHIFT) >> 1)


@lean_kernel
def _size_class(g: Int, groups: Slots) -> Int:
    return np.int64(groups[g, SIZE]) & ((1 << CLASS_BITS) - 1)


@lean_kernel
def _shift(g: Int, groups: Slots) -> Int:
    return (np.int64(groups[g, SIZE]) >> CLASS_BITS) & ((1 << SHIFT_BITS) - 1)


@lean_kernel
def _holes(g: Int, groups: Slots) -> Int:
    return np.int64(groups[g, SIZE]) >> HOLE_SHIFT


@lean_kernel
def _origin(packed: Int, shift: Int) -> Any:
    """Return where a frame starts: multiples of half its size are packed."""
    return (packed & 0xFFFF) << (15 + shift), ((packed >> 16) & 0xFFFF) << (15 + shift)


@lean_kernel
def _frame(low_x: Int, low_y: Int, high_x: Int, high_y: Int, least: Int) -> Any:
    """Return shift and packed origin of the smallest frame around bounds, with at least some shift."""
    shift = least
    while shift < LARGEST_SHIFT:
        half, size = 15 + shift, np.int64(1) << (16 + shift)
        if high_x - ((low_x >> half) << half) < size and high_y - ((low_y >> half) << half) < size:
            return shift, (low_x >> half) | ((low_y >> half) << 16)
        shift += 1
    return np.int64(LARGEST_SHIFT), np.int64(0)


@lean_kernel
def _set_frame(g: Int, groups: Slots, size_class: Int, shift: Int, packed: Int) -> None:
    """Give a group a frame, and no holes."""
    groups[g, SIZE] = size_class | (shift << CLASS_BITS)
    groups[g, ORIGIN] = np.int32(np.uint32(packed))


@lean_kernel
def _in_frame(g: Int, groups: Slots, low_x: Int, low_y: Int, high_x: Int, high_y: Int) -> bool:
    shift = _shift(g, groups)
    from_x, from_y = _origin(np.int64(groups[g, ORIGIN]), shift)
    size = np.int64(1) << (16 + shift)
    return bool(low_x >= from_x and low_y >= from_y and high_x - from_x < size and high_y - from_y < size)


@lean_kernel
def _edges(g: Int, groups: Slots, low_x: Int, low_y: Int, high_x: Int, high_y: Int) -> Any:
    """Return a box as a posting of this group has it, in its two packed words."""
    shift = _shift(g, groups)
    from_x, from_y = _origin(np.int64(groups[g, ORIGIN]), shift)
    left, below = (low_x - from_x) >> shift, (low_y - from_y) >> shift
    wide, high = ((high_x - from_x) >> shift) - left, ((high_y - from_y) >> shift) - below
    return np.uint32(left) | (np.uint32(wide) << SHIFT), np.uint32(below) | (np.uint32(high) << SHIFT)


@lean_kernel
def _class_of_box(wide: Int, high: Int) -> Int:
    """Return the number of bits of a box's larger extent, which has 31 at most."""
    left, size_class = np.int64(max(wide, high)), np.int64(0)
    for step in (16, 8, 4, 2, 1):
        if left >> step != 0:
            left >>= step
            size_class += step
    return size_class + left


@lean_kernel
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


@lean_kernel
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


@lean_kernel
def _across(g: Int, groups: Slots) -> Int:
    """Return the number of bits of a region's extent in its group's frame."""
    return _size_class(g, groups) - _shift(g, groups)


@lean_kernel
def _side_number(side: Int) -> Int:
    i = 0
    while SIDES[i] != side:
        i += 1
    return i


@lean_kernel
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


@lean_kernel
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


@lean_kernel
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


@lean_kernel
def _find_group(word: Int, size_class: Int, divided: bool, directory: Slots, groups: Slots) -> Int:
    """Return the group of a word and class, or the one whose postings are told apart by second words; -1 is none."""
    g = np.int64(directory[word])
    while g >= 0 and (_size_class(g, groups) != size_class or (groups[g, SIDE] == 0) != divided):
        g = np.int64(groups[g, NEXT])
    return g


@lean_kernel
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


@lean_kernel
def _close_group(g: Int, groups: Slots, state: Ints) -> None:
    groups[g, COUNT], groups[g, NEXT] = 0, state[FREE_GROUP]
    state[FREE_GROUP] = g


@lean_kernel
def _unchain(word: Int, g: Int, directory: Slots, groups: Slots) -> None:
    """Take a group out of its word's chain."""
    if directory[word] == g:
        directory[word] = groups[g, NEXT]
        return
    before = directory[word]
    while groups[before, NEXT] != g:
        before = groups[before, NEXT]
    groups[before, NEXT] = groups[g, NEXT]


@lean_kernel
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
