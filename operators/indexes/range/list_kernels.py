"""Kernels of the indexes that are made of inverted lists, GI2 and FAST.

table   int64 rows (key, node) of an open-addressed hash; key -1: empty
nodes   int32 rows: length of the list, its base in `arena`, capacity, marks
arena   int32: slots; a list lies in a block whose size is a power of two, blocks of one size form a free list
present uint64: a bit for each word, set while it is one of the object's; few enough bytes to stay in the nearest cache
state   int64: ends of the used parts (nodes, arena), then what to make room for, the last entry of the work stack, the
        lists that hold queries of everywhere (GI2)
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from streams.flat_hash import place_of
from streams.kernel import kernel
from streams.prefetch import prefetch

Int = Any  # a machine integer, numpy's or Python's
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Slots = NDArray[np.int32]
Boxes = NDArray[np.uint16]
Bits = NDArray[np.uint64]

NODES_TOP, ARENA_TOP, NEED_ARENA, STACK_TOP, EVERYWHERE = range(5)
STATE_SIZE = 5
LENGTH, BASE, CAPACITY, MARKS = range(4)
#: Nodes that filing one query may add at most: at the top, on the level of its size, and two in the trie below.
MOST_NEW_NODES = 4
#: Candidates whose rows are asked for ahead of time; objects that go through the stages together.
AHEAD = 12
TOGETHER = 32


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
def _find_or_open(key: Int, table: Ints, nodes: Slots, state: Ints) -> Int:
    size = table.shape[0]
    place = place_of(key, size)
    while table[place, 0] != key:
        if table[place, 0] < 0:
            table[place, 0] = key
            table[place, 1] = state[NODES_TOP]
            nodes[state[NODES_TOP]] = 0
            state[NODES_TOP] += 1
            break
        place = place + 1 if place + 1 < size else 0
    return table[place, 1]


@kernel
def rehash(old: Ints, table: Ints) -> None:
    """Enter all rows of one table into another, empty one."""
    size = table.shape[0]
    for i in range(old.shape[0]):
        if old[i, 0] >= 0:
            place = place_of(old[i, 0], size)
            while table[place, 0] >= 0:
                place = place + 1 if place + 1 < size else 0
            table[place, 0] = old[i, 0]
            table[place, 1] = old[i, 1]


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


@kernel
def _roomy(length: Int, table: Ints, nodes: Slots, arena: Slots, state: Ints) -> Any:
    """Tell whether another query fits; what the arena needs is noted."""
    state[NEED_ARENA] = 2 * length + 8
    return (
        state[NODES_TOP] + MOST_NEW_NODES <= nodes.shape[0]
        and (state[NODES_TOP] + MOST_NEW_NODES) * 10 <= table.shape[0] * 7
        and state[ARENA_TOP] + state[NEED_ARENA] <= arena.shape[0]
    )


@kernel
def _word(slot: Int, nth: Int, kw: Slots, pool: Slots) -> Int:
    """Return a query's nth word (0, 1 or 2), -1 where it has none."""
    if nth == 2 and kw[slot, 2] < -1:
        return np.int64(pool[-1 - kw[slot, 2]])
    return np.int64(kw[slot, nth])


@kernel
def _there(word: Int, present: Bits) -> Any:
    return (present[word >> 6] >> np.uint64(word & 63)) & np.uint64(1) != np.uint64(0)


@kernel
def _change_object(old: Int, new: Int, word_off: Ints, words: Slots, present: Bits) -> None:
    """Let the words present be those of another object, none where it is -1; word 0 always is."""
    if old >= 0:
        for j in range(word_off[old], word_off[old + 1]):
            present[words[j] >> 6] = 0
    present[0] = 1
    if new >= 0:
        for j in range(word_off[new], word_off[new + 1]):
            present[words[j] >> 6] |= np.uint64(1) << np.uint64(words[j] & 63)


@kernel
def _fits(
    slot: Int, word: Int, x: Int, y: Int, present: Bits, shape: Floats, traits: Any, kw: Slots, pool: Slots,
    haversine: bool,
) -> Any:  # fmt: skip
    """Verify a candidate exactly; one that any keyword finds counts under the first of its words that is present."""
    trait = traits[slot]
    if trait & 128 != 0:
        return False
    kind = trait & 3
    if kind & 1:  # a rectangle, or the box around a polygon
        if not (x >= shape[slot, 0] and x <= shape[slot, 2] and y >= shape[slot, 1] and y <= shape[slot, 3]):
            return False
    elif kind == 2 and not haversine:
        dx, dy = x - shape[slot, 0], y - shape[slot, 1]
        if not dx * dx + dy * dy <= shape[slot, 2] * shape[slot, 2]:
            return False
    either = trait & 4 != 0
    more = kw[slot, 2] < -1
    count = 2 + pool[-2 - kw[slot, 2]] if more else 3
    for j in range(count):
        own = pool[-2 - kw[slot, 2] + j - 1] if more and j >= 2 else kw[slot, j]
        if own < 0:
            break
        there = _there(own, present)
        if either and there:
            return own == word
        if not either and not there:
            return False
    return not either


@kernel
def _note(node: Int, word: Int, i: Int, nodes: Slots, arena: Slots, runs: Slots, count: Int) -> Int:
    """Note a list for reading: its first place, its end, the word that led to it and the object."""
    if nodes[node, LENGTH] == 0:
        return count
    runs[count, 0] = nodes[node, BASE]
    runs[count, 1] = nodes[node, BASE] + nodes[node, LENGTH]
    runs[count, 2] = word
    runs[count, 3] = i
    prefetch(arena, nodes[node, BASE])
    return count + 1


@kernel
def _settle(
    count: Int, x: Floats, y: Floats, word_off: Ints, words: Slots, arena: Slots, present: Bits,
    shape: Floats, traits: Any, kw: Slots, pool: Slots, haversine: bool, runs: Slots, out: Slots, found: Int,
    ends: Ints, examined: Ints,
) -> Int:  # fmt: skip
    """Read lists and verify their queries; return the new number of matches, or -1 where `out` is full.

    A plain query, a rectangle with up to three keywords that must all be there, waits in `out` for its region when its
    keywords are there, which most are not; others are decided at once by `_fits` and wait as their complement.
    """
    listed = np.int64(0)
    for z in range(count):
        listed += runs[z, 1] - runs[z, 0]
        examined[runs[z, 3]] += runs[z, 1] - runs[z, 0]
    if found + listed > out.shape[0]:
        return np.int64(-1)
    kept, current = np.int64(found), -1
    # A second reader goes `lead` queries ahead over all lists, none of which is empty, and asks for the rows.
    begun, place, end, lead = 0, np.int64(0), np.int64(0), 0
    for z in range(count):
        i = runs[z, 3]
        if i != current:
            _change_object(current, i, word_off, words, present)
            current = i
        for p in range(runs[z, 0], runs[z, 1]):
            while lead < AHEAD and (place < end or begun < count):
                if place == end:
                    place, end = np.int64(runs[begun, 0]), np.int64(runs[begun, 1])
                    begun += 1
                prefetch(kw, 3 * np.int64(arena[place]))
                prefetch(traits, np.int64(arena[place]))
                place += 1
                lead += 1
            lead -= 1
            slot = np.int64(arena[p])
            if (traits[slot] & 135 == 1) & (kw[slot, 2] >= -1):
                # No branch: whether a keyword is there is a coin toss. Word 0, which every object has, stands for none.
                out[kept] = slot
                kept += np.int64(_there(max(kw[slot, 1], 0), present) & _there(max(kw[slot, 2], 0), present))
            elif _fits(slot, runs[z, 2], x[i], y[i], present, shape, traits, kw, pool, haversine):
                out[kept] = ~slot
                kept += 1
        ends[i] = kept
    _change_object(current, -1, word_off, words, present)
    return _inside(count, x, y, shape, runs, out, found, kept, ends)


@kernel
def _inside(
    count: Int, x: Floats, y: Floats, shape: Floats, runs: Slots, out: Slots, found: Int, waiting_end: Int, ends: Ints
) -> Int:
    """Keep of the queries that wait in `out` those whose regions contain the object; return the number of matches."""
    waiting, current = np.int64(found), -1
    for z in range(count):
        i = runs[z, 3]
        if i == current:
            continue
        current = i
        at_x, at_y = x[i], y[i]
        for p in range(waiting, ends[i]):
            later = np.int64(out[min(p + AHEAD, waiting_end - 1)])
            prefetch(shape, 4 * max(later, ~later))
            slot = np.int64(out[p])
            sure = slot < 0
            slot = ~slot if sure else slot
            out[found] = slot
            found += np.int64(
                sure
                or (at_x >= shape[slot, 0])
                & (at_x <= shape[slot, 2])
                & (at_y >= shape[slot, 1])
                & (at_y <= shape[slot, 3])
            )
        waiting = ends[i]
        ends[i] = found
    return np.int64(found)


@kernel
def _known(wanted: Int, keys: Ints, owners: Slots, table: Ints, nodes: Slots) -> Int:
    """Turn keys into the nodes that exist, in place, and ask for them; return how many there are."""
    known = 0
    for n in range(wanted):
        node = _find(keys[n], table)
        if node >= 0:
            keys[known] = node << 31 | (keys[n] & 0x7FFFFFFF)
            owners[known] = owners[n]
            prefetch(nodes, 4 * node)
            known += 1
    return known


@kernel
def _together(first: Int, word_off: Ints, keys_of_word: Int, room: Int) -> Int:
    """Return the end of the objects that go through the stages together; what one of them asks for always has room."""
    last = first + 1
    while last < min(first + TOGETHER, word_off.shape[0] - 1):
        if keys_of_word * (word_off[last + 1] - word_off[first] + last + 1 - first) > room:
            break
        last += 1
    return last


@kernel
def _close(first: Int, last: Int, off: Ints) -> None:
    """Give objects that no list was read for the end of the object before them."""
    for i in range(first, last):
        if off[i + 1] < 0:
            off[i + 1] = off[i]


# ------------------------------------------------------------------------------------------------ GI2
