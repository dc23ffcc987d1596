"""Kernels of the lists of subscriptions by key. `operators.indexes.knn.ball_lists` says what they are; this is the layout.

ball    float64 by slot: a point in space (on the plane z = 0, or on the unit sphere) and how near an object's must be
refs    int32 by slot: in how many lists it stands
span    int16 by slot: the box of cells that it lies in (first column and row, last column and row); no rows at all where a
        slot stays in its cells for as long as it is there
table   int64 rows (key, node) of an open-addressed hash; key -1: empty; a key is ``cell << 32 | word``
nodes   int32 rows: length of the list, its base in `arena`, capacity, how many of it must have left
arena   int32: slots; a list lies in a block whose size is a power of two, blocks of one size form a free list
state   int64: see the constants
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from streams.flat_hash import place_of
from streams.geometry import EARTH_RADIUS_M
from streams.kernel import kernel
from streams.prefetch import prefetch

__all__ = ["ask", "enter", "leave", "note", "points", "read", "rehash", "rewrite"]

Int = Any  # a machine integer, numpy's or Python's
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Slots = NDArray[np.int32]
Boxes = NDArray[np.int16]

#: Places in `state`: ends of the used parts, entries to make room for, entries in lists, lists that are not empty, cells of
#: the posting under way that are done, candidates looked at, slots of subscriptions that have gone and now stand in no list.
NODES_TOP, ARENA_TOP, NEED, ENTRIES, LISTS, CELLS_DONE, EXAMINED, FREED = range(8)
STATE_SIZE = 8
LENGTH, BASE, CAPACITY, LEFT = range(4)

#: Lists up to this length are searched for a slot that leaves; longer ones are cleaned when one in so many has left.
SHORT, CLEAN_SHARE = 16, 4
#: Candidates whose balls are asked for ahead of time; objects whose lists are looked up together.
AHEAD, TOGETHER = 16, 32
#: What a distance on the sphere is widened by, because the sine of a kernel may differ from numpy's in the last bits.
WIDER, WIDER_BY = 1.0 + 1e-9, 1e-12


@kernel
def _find(key: Int, table: Ints) -> Int:
    size = table.shape[0]
    place = place_of(key, size)
    while table[place, 0] != key:
        if table[place, 0] < 0:
            return np.int64(-1)
        place = place + 1 if place + 1 < size else 0
    return table[place, 1]


@kernel
def _open(key: Int, table: Ints, nodes: Slots, state: Ints) -> Int:
    """Return the node of a key that has none yet."""
    size = table.shape[0]
    place = place_of(key, size)
    while table[place, 0] >= 0:
        place = place + 1 if place + 1 < size else 0
    node = state[NODES_TOP]
    table[place, 0], table[place, 1] = key, node
    nodes[node] = 0
    state[NODES_TOP] += 1
    return node


@kernel
def rehash(old: Ints, table: Ints) -> None:
    """Enter all rows of one table into another, empty one."""
    size = table.shape[0]
    for i in range(old.shape[0]):
        if old[i, 0] >= 0:
            place = place_of(old[i, 0], size)
            while table[place, 0] >= 0:
                place = place + 1 if place + 1 < size else 0
            table[place, 0], table[place, 1] = old[i, 0], old[i, 1]


@kernel
def rewrite(
    old: Ints, old_nodes: Slots, old_arena: Slots, table: Ints, nodes: Slots, arena: Slots, state: Ints
) -> None:
    """Copy all lists that are not empty, each into the smallest block that holds it."""
    state[NODES_TOP], state[ARENA_TOP] = 0, 0
    for i in range(old.shape[0]):
        length = np.int64(old_nodes[old[i, 1], LENGTH]) if old[i, 0] >= 0 else 0
        if length == 0:
            continue
        node = _open(old[i, 0], table, nodes, state)
        base, first, capacity = state[ARENA_TOP], np.int64(old_nodes[old[i, 1], BASE]), 1
        while capacity < length:
            capacity *= 2
        arena[base : base + length] = old_arena[first : first + length]
        nodes[node, LENGTH], nodes[node, BASE], nodes[node, CAPACITY] = length, base, capacity
        nodes[node, LEFT] = old_nodes[old[i, 1], LEFT]
        state[ARENA_TOP] = base + capacity


# ------------------------------------------------------------------------------------------------ balls


@kernel
def _point(x: Int, y: Int, haversine: bool) -> Any:
    if not haversine:
        return x, y, 0.0
    lon, lat = np.radians(x), np.radians(y)
    return np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)


@kernel
def note(slots: Slots, shape: Floats, radius: Floats, haversine: bool, ball: Floats) -> None:
    """Write down the balls of slots; on the sphere a radius is the length of its chord."""
    for i in range(slots.shape[0]):
        slot = slots[i]
        ball[slot, 0], ball[slot, 1], ball[slot, 2] = _point(shape[slot, 0], shape[slot, 1], haversine)
        far = radius[slot]
        if haversine:
            half = far / (2.0 * EARTH_RADIUS_M)
            far = 2.0 * np.sin(half) * WIDER + WIDER_BY if half < np.pi / 2 else np.inf
        ball[slot, 3] = far


@kernel
def points(x: Floats, y: Floats, haversine: bool) -> Floats:
    """Return where objects are, as balls have it."""
    out = np.empty((x.shape[0], 3))
    for i in range(x.shape[0]):
        out[i, 0], out[i, 1], out[i, 2] = _point(x[i], y[i], haversine)
    return out


# ------------------------------------------------------------------------------------------------ coming and going


@kernel
def _within(column: Int, row: Int, box: Boxes) -> bool:
    return bool(box[0] <= column and column <= box[2] and box[1] <= row and row <= box[3])


@kernel
def _roomy(length: Int, table: Ints, nodes: Slots, arena: Slots, state: Ints) -> bool:
    """Tell whether another posting fits, whatever it needs; what the arena needs is noted."""
    state[NEED] = 2 * length + 1
    return bool(
        state[NODES_TOP] < nodes.shape[0]
        and (state[NODES_TOP] + 1) * 10 <= table.shape[0] * 7
        and state[ARENA_TOP] + state[NEED] <= arena.shape[0]
    )


@kernel
def _append(node: Int, slot: Int, nodes: Slots, arena: Slots, free: Slots, state: Ints) -> None:
    length, base, capacity = np.int64(nodes[node, LENGTH]), np.int64(nodes[node, BASE]), np.int64(nodes[node, CAPACITY])
    if length == capacity:
        size_class = 0
        while (1 << size_class) <= capacity:
            size_class += 1
        moved = np.int64(free[size_class])
        if moved >= 0:
            free[size_class] = arena[moved]
        else:
            moved = state[ARENA_TOP]
            state[ARENA_TOP] += 1 << size_class
        arena[moved : moved + length] = arena[base : base + length]
        if capacity > 0:
            arena[base] = free[size_class - 1]
            free[size_class - 1] = base
        base = moved
        nodes[node, BASE], nodes[node, CAPACITY] = base, 1 << size_class
    arena[base + length] = slot
    nodes[node, LENGTH] = length + 1
    state[ENTRIES] += 1
    state[LISTS] += length == 0


@kernel
def enter(
    start: Int, slots: Slots, words: Slots, old: Boxes, new: Boxes, side: Int, table: Ints, nodes: Slots, arena: Slots,
    free: Slots, refs: Slots, state: Ints,
) -> Int:  # fmt: skip
    """File postings from `start` on, each in the cells of its new box that its old one has not; return how many are filed.

    Fewer than all are where room runs out; `state[CELLS_DONE]` is the number of cells of the next one that are done.
    """
    for i in range(start, slots.shape[0]):
        if i + AHEAD < slots.shape[0]:
            ahead = new[i + AHEAD]
            cell = np.int64(ahead[1]) * side + ahead[0]
            prefetch(table, 2 * place_of(cell << 32 | words[i + AHEAD], table.shape[0]))
        columns = np.int64(new[i, 2]) - new[i, 0] + 1
        for n in range(state[CELLS_DONE], columns * (np.int64(new[i, 3]) - new[i, 1] + 1)):
            column, row = new[i, 0] + n % columns, new[i, 1] + n // columns
            if _within(column, row, old[i]):
                continue
            key = (np.int64(row) * side + column) << 32 | words[i]
            node = _find(key, table)
            if not _roomy(nodes[node, LENGTH] if node >= 0 else 0, table, nodes, arena, state):
                state[CELLS_DONE] = n
                return i
            if node < 0:
                node = _open(key, table, nodes, state)
            _append(node, slots[i], nodes, arena, free, state)
            refs[slots[i]] += 1
        state[CELLS_DONE] = 0
    return slots.shape[0]


@kernel
def _release(slot: Int, ball: Floats, refs: Slots, state: Ints) -> None:
    """Count one list less that a slot stands in."""
    refs[slot] -= 1
    state[ENTRIES] -= 1
    state[FREED] += refs[slot] == 0 and ball[slot, 3] < 0.0


@kernel
def _take(node: Int, slot: Int, nodes: Slots, arena: Slots, ball: Floats, refs: Slots, state: Ints) -> None:
    """Take a slot out of a short list; the last one takes its place."""
    base, end = np.int64(nodes[node, BASE]), np.int64(nodes[node, BASE]) + nodes[node, LENGTH]
    for p in range(base, end):
        if arena[p] == slot:
            arena[p] = arena[end - 1]
            nodes[node, LENGTH] -= 1
            state[LISTS] -= nodes[node, LENGTH] == 0
            _release(slot, ball, refs, state)
            return


@kernel
def _clean(
    node: Int, column: Int, row: Int, nodes: Slots, arena: Slots, ball: Floats, span: Boxes, refs: Slots, state: Ints
) -> None:
    """Take all slots out of a list that have gone, or whose box does not have its cell any more."""
    base, kept = np.int64(nodes[node, BASE]), np.int64(0)
    length = np.int64(nodes[node, LENGTH])
    for p in range(base, base + length):
        slot = arena[p]
        if ball[slot, 3] >= 0.0 and (span.shape[0] == 0 or _within(column, row, span[slot])):
            arena[base + kept] = slot
            kept += 1
        else:
            _release(slot, ball, refs, state)
    nodes[node, LENGTH], nodes[node, LEFT] = kept, 0
    state[LISTS] -= kept == 0 and length > 0


@kernel
def leave(
    slots: Slots, words: Slots, old: Boxes, new: Boxes, side: Int, table: Ints, nodes: Slots, arena: Slots, ball: Floats,
    span: Boxes, refs: Slots, state: Ints,
) -> None:  # fmt: skip
    """Take postings out of the cells of their old boxes that the new ones have not.

    Out of a long list they are taken together: so none is searched through for each of them. Balls and spans are those of
    afterwards already.
    """
    for i in range(slots.shape[0]):
        if i + AHEAD < slots.shape[0]:
            ahead = old[i + AHEAD]
            cell = np.int64(ahead[1]) * side + ahead[0]
            prefetch(table, 2 * place_of(cell << 32 | words[i + AHEAD], table.shape[0]))
        for row in range(old[i, 1], old[i, 3] + 1):
            for column in range(old[i, 0], old[i, 2] + 1):
                if _within(column, row, new[i]):
                    continue
                node = _find((np.int64(row) * side + column) << 32 | words[i], table)
                if node < 0:
                    continue
                if nodes[node, LENGTH] <= SHORT:
                    _take(node, slots[i], nodes, arena, ball, refs, state)
                    continue
                nodes[node, LEFT] += 1
                if CLEAN_SHARE * nodes[node, LEFT] > nodes[node, LENGTH]:
                    _clean(node, column, row, nodes, arena, ball, span, refs, state)


# ------------------------------------------------------------------------------------------------ probing


@kernel
def ask(cell_off: Ints, cells: Ints, word_off: Ints, words: Slots, by_word: bool, off: Ints, keys: Ints) -> None:
    """Write the keys of the lists that each object reads: its cells, each with word 0 and, `by_word`, with every word."""
    count = 0
    for i in range(cell_off.shape[0] - 1):
        off[i] = count
        for c in range(cell_off[i], cell_off[i + 1]):
            keys[count] = cells[c] << 32
            count += 1
            if by_word:
                for j in range(word_off[i], word_off[i + 1]):
                    keys[count] = cells[c] << 32 | words[j]
                    count += 1
    off[cell_off.shape[0] - 1] = count


@kernel
def _scan(
    begin: Int, end: Int, x: Int, y: Int, z: Int, everything: bool, ball: Floats, arena: Slots, out: Slots, found: Int
) -> Int:
    """Write the slots of a list whose balls have a point in them behind those found; return how many there are by now."""
    for p in range(begin, end):
        ahead = p + AHEAD if p + AHEAD < end else p
        prefetch(ball, 4 * np.int64(arena[ahead]))
        slot = np.int64(arena[p])
        dx, dy, dz = x - ball[slot, 0], y - ball[slot, 1], z - ball[slot, 2]
        reach = ball[slot, 3]
        # No branch: whether an object is in a ball is hard to foretell.
        near = (reach >= 0.0) if everything else (np.sqrt(dx * dx + dy * dy + dz * dz) < reach)
        out[found] = slot
        found += np.int64(near)
    return found


@kernel
def _foresee(begin: Int, end: Int, found_nodes: Slots, nodes: Slots, arena: Slots, ball: Floats) -> None:
    """Ask for the first balls of lists; `_scan` asks for the others."""
    for q in range(begin, end):
        node = np.int64(found_nodes[q])
        if node >= 0:
            base = np.int64(nodes[node, BASE])
            for p in range(base, base + min(nodes[node, LENGTH], AHEAD)):
                prefetch(ball, 4 * np.int64(arena[p]))


@kernel
def read(
    start: Int, asked: Ints, keys: Ints, place: Floats, most: Int, everything: bool, ball: Floats, table: Ints,
    nodes: Slots, arena: Slots, found_nodes: Slots, out: Slots, off: Ints, state: Ints,
) -> Int:  # fmt: skip
    """Collect the slots whose balls objects are in, from object `start` on; return the object to go on with.

    That is one after the last where all are done; otherwise `most` pairs have been collected, or `out` lacks the room that
    is noted. Lists are looked up for several objects together, so that each stage asks for the memory that the next one
    reads; `found_nodes` has room for what one object asks for.
    """
    first = np.int64(start)
    count = asked.shape[0] - 1
    while first < count:
        last = first + 1
        while last < min(first + TOGETHER, count) and asked[last + 1] - asked[first] <= found_nodes.shape[0]:
            last += 1
        begin, end = asked[first], asked[last]
        for q in range(begin, end):
            prefetch(table, 2 * place_of(keys[q], table.shape[0]))
        for q in range(begin, end):
            node = _find(keys[q], table)
            found_nodes[q - begin] = node
            prefetch(nodes, 4 * max(node, 0))
        for q in range(begin, end):
            prefetch(arena, np.int64(nodes[max(found_nodes[q - begin], 0), BASE]))
        _foresee(0, asked[first + 1] - begin, found_nodes, nodes, arena, ball)
        for o in range(first, last):
            if o + 1 < last:
                _foresee(asked[o + 1] - begin, asked[o + 2] - begin, found_nodes, nodes, arena, ball)
            found, seen = off[o], np.int64(0)
            if found >= most:
                return o
            x, y, z = place[o, 0], place[o, 1], place[o, 2]
            for q in range(asked[o], asked[o + 1]):
                node = np.int64(found_nodes[q - begin])
                if node < 0 or nodes[node, LENGTH] == 0:
                    continue
                base, length = np.int64(nodes[node, BASE]), np.int64(nodes[node, LENGTH])
                if found + length > out.shape[0]:
                    state[NEED] = found + length
                    return o
                seen += length
                found = _scan(base, base + length, x, y, z, everything, ball, arena, out, found)
            off[o + 1] = found
            state[EXAMINED] += seen
        first = last
    return count
