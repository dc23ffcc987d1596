"""Records of the radius pyramid, for kernels. `operators.indexes.knn.pyramid` explains the idea; this is the layout.

units   float32, flat. A block of records is 1, 2 or 4 units: fields one after the other, each with room for 4, 8 or 16 numbers:
        the coordinates (two, or three of a unit vector), the square of the reach, the slot's bits. A ball without an end has,
        in place of the first coordinate, the bits of a second word that an object must have, or 0
owner   int32 by unit, of a block's first: the node that holds it and its place there, in 4 bits; or minus the room of a
        block that is all that a word has
nodes   float32, flat. 16 children: rows of their boxes, coordinate by coordinate the lower bounds and the upper ones; a row of
        the children: the first unit of a block and in 5 bits its records, or the number of a node; rows of their regions, which
        are where places belong to a child, as boxes are where its balls are
links   int32 rows by node: the node that holds it and its place there, in 4 bits, or -1; children; height, 1 above blocks
words   int32 rows by word: its tree of balls with an end, and that of balls without: -1 for none, a block and its records, as
        in nodes, or -2 - node; while objects are looked up, a bit for each of those that have it, otherwise 0
where   int32: for each posting of a subscription where its record is, the first unit of its block and 4 bits, or -1;
        `begin` by slot is the first of them
state   int64: see the constants
"""

from typing import Any

import numpy as np

from streams.kernel import lean_kernel

Int = Any  # a machine integer, numpy's or Python's
Pool = Any  # the tuple of arrays that a pyramid is made of

#: Columns of `words`: the trees of a word, and which objects have it.
CLOSED, OPEN, HAVE = range(3)
#: Places in `state`: ends of what is in use, the first free node, coordinates, the most that a block or a node has.
UNITS_TOP, NODES_TOP, WHERE_TOP, FREE_NODE, DIMENSIONS, MOST = range(6)
STATE_SIZE = 6
#: Records of a unit.
UNIT = 4
#: Units and nodes that one posting may need, however high its tree.
UNIT_ROOM, NODE_ROOM = 16, 40

UP, CHILDREN, HEIGHT = range(3)
PLACE, COUNT = 4, 5
PLACES, COUNTS = (1 << PLACE) - 1, (1 << COUNT) - 1


@lean_kernel
def _class_of(room: Int) -> Int:
    return 0 if room == UNIT else 1 if room == 2 * UNIT else 2


@lean_kernel
def take_block(room: Int, pool: Pool) -> Int:
    """Return a block: a free one, the first part of a larger free one, or a new one, for which there is room."""
    slots, free, state = pool[1], pool[9], pool[10]
    size = UNIT * (state[DIMENSIONS] + 2)
    wanted = _class_of(room)
    for block_class in range(wanted, 3):
        head = np.int64(free[block_class])
        if head >= 0:
            free[block_class] = slots[head * size]
            while block_class > wanted:  # the upper half of what is too large stays free
                block_class -= 1
                rest = head + (1 << block_class)
                slots[rest * size] = free[block_class]
                free[block_class] = rest
            return head
    head = state[UNITS_TOP]
    state[UNITS_TOP] += 1 << wanted
    return np.int64(head)


@lean_kernel
def give_block(unit: Int, room: Int, pool: Pool) -> None:
    """Take a block back."""
    slots, free, state = pool[1], pool[9], pool[10]
    block_class = _class_of(room)
    slots[unit * UNIT * (state[DIMENSIONS] + 2)] = free[block_class]
    free[block_class] = unit


@lean_kernel
def move_record(
    unit: Int, room: Int, lane: Int, to: Int, to_room: Int, to_lane: Int, units: Any, slots: Any, where: Any, begin: Any,
    state: Any,
) -> None:  # fmt: skip
    """Copy a record, and note where it is now."""
    fields = state[DIMENSIONS] + 2
    source, target = unit * UNIT * fields + lane, to * UNIT * fields + to_lane
    for field in range(fields):
        units[target + field * to_room] = units[source + field * room]
    p = np.int64(begin[slots[target + (fields - 1) * to_room]])
    old = (unit << PLACE) | lane
    while where[p] != old:
        p += 1
    where[p] = (to << PLACE) | to_lane


@lean_kernel
def write_record(
    slot: Int, which: Int, place: Any, reach: Any, unit: Int, room: Int, lane: Int, units: Any, slots: Any, where: Any,
    begin: Any, state: Any,
) -> None:  # fmt: skip
    """Write a record, and note where it is."""
    dimensions = state[DIMENSIONS]
    target = unit * UNIT * (dimensions + 2) + lane
    for field in range(dimensions):
        units[target + field * room] = place[field]
    units[target + dimensions * room] = reach
    slots[target + (dimensions + 1) * room] = slot
    where[begin[slot] + which] = (unit << PLACE) | lane


@lean_kernel
def resize_block(unit: Int, count: Int, room: Int, wanted: Int, pool: Pool) -> Int:
    """Return a block of another size with the same records."""
    units, slots, _, _, _, _, _, where, begin, _, state = pool
    other = take_block(wanted, pool)
    for lane in range(count):
        move_record(unit, room, lane, other, wanted, lane, units, slots, where, begin, state)
    give_block(unit, room, pool)
    return other
