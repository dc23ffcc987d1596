"""Kernels of the indexes that are made of inverted lists, GI2 and FAST.

table   int64 rows (key, node) of an open-addressed hash; key -1: empty
nodes   int32 rows: length of the list, its base in `arena`, capacity, marks
arena   int32: slots; a list lies in a block whose size is a power of two, blocks of one size form a free list
state   int64: ends of the used parts (nodes, arena), then what to make room for, the last entry of the work stack, the
        lists that hold queries of everywhere (GI2)
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from streams.kernel import kernel

Int = Any  # a machine integer, numpy's or Python's
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Slots = NDArray[np.int32]
Boxes = NDArray[np.uint16]

NODES_TOP, ARENA_TOP, NEED_ARENA, STACK_TOP, EVERYWHERE = range(5)
STATE_SIZE = 5
LENGTH, BASE, CAPACITY, MARKS = range(4)
#: Marks of FAST's nodes: queries that may go deeper into the pyramid do; queries with a further keyword are in a trie.
DESCENDED, TRIE = 1, 2
#: Nodes that filing one query may add at most: one on each level of the pyramid, and the trie below.
MOST_NEW_NODES = 24


@kernel
def _place(key: Int, places: Int) -> Int:
    mixed = np.int64(key) * np.int64(-7046029254386353131)
    return (((mixed >> 33) & 0x7FFFFFFF) * places) >> 31


@kernel
def _find(key: Int, table: Ints) -> Int:
    size = table.shape[0]
    place = _place(key, size)
    while table[place, 0] != key:
        if table[place, 0] < 0:
            return np.int64(-1)
        place = place + 1 if place + 1 < size else 0
    return table[place, 1]


@kernel
def _find_or_open(key: Int, table: Ints, nodes: Slots, state: Ints) -> Int:
    size = table.shape[0]
    place = _place(key, size)
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
            place = _place(old[i, 0], size)
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
def _roomy(length: Int, table: Ints, nodes: Slots, arena: Slots, state: Ints) -> bool:
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
def _fits(
    slot: Int,
    word: Int,
    x: Int,
    y: Int,
    tick: Int,
    stamp: Slots,
    shape: Floats,
    traits: Any,
    kw: Slots,
    pool: Slots,
    haversine: bool,
) -> Any:
    """Verify a candidate exactly; one that any keyword finds counts under the first of its words that is present."""
    trait = traits[slot]
    if trait & 128 != 0:
        return False
    kind = trait & 3
    if kind == 1:
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
        present = stamp[own] == tick
        if either and present:
            return own == word
        if not either and not present:
            return False
    return not either


# ------------------------------------------------------------------------------------------------ GI2


@kernel
def gi2_add(
    start: Int,
    slots: Slots,
    words: Slots,
    span: Slots,
    side: Int,
    most_cells: Int,
    table: Ints,
    nodes: Slots,
    arena: Slots,
    free: Slots,
    state: Ints,
) -> Int:
    """File postings from `start` on, each in every cell of its span; return how many are filed before room runs out.

    A posting that overlaps more than `most_cells` goes into the lists of everywhere, which every object reads.
    `state[STACK_TOP]` is the number of cells of the current posting that are done.
    """
    for i in range(start, slots.shape[0]):
        columns, rows = span[i, 2] - span[i, 0] + 1, span[i, 3] - span[i, 1] + 1
        cells = columns * rows
        if cells > most_cells:
            cells = 1
            state[EVERYWHERE] += 1
        for n in range(state[STACK_TOP], cells):
            cell = np.int64(side) * side
            if columns * rows <= most_cells:
                cell = (np.int64(span[i, 1]) + n // columns) * side + span[i, 0] + n % columns
            known = _find(cell << 32 | words[i], table)
            if not _roomy(nodes[known, LENGTH] if known >= 0 else 0, table, nodes, arena, state):
                state[STACK_TOP] = n
                if columns * rows > most_cells:
                    state[EVERYWHERE] -= 1
                return i
            node = known if known >= 0 else _find_or_open(cell << 32 | words[i], table, nodes, state)
            _append(node, slots[i], nodes, arena, free, state)
        state[STACK_TOP] = 0
    return slots.shape[0]


@kernel
def gi2_probe(
    start: Int,
    x: Floats,
    y: Floats,
    cell: Slots,
    side: Int,
    word_off: Ints,
    words: Slots,
    tick: Int,
    table: Ints,
    nodes: Slots,
    arena: Slots,
    state: Ints,
    shape: Floats,
    traits: Any,
    kw: Slots,
    pool: Slots,
    haversine: bool,
    stamp: Slots,
    out: Slots,
    off: Ints,
    examined: Ints,
) -> Int:
    """Match objects from `start` on; return how many are done: all, or as many as `out` has room for."""
    everywhere = np.int64(side) * side
    for i in range(start, x.shape[0]):
        found, now = off[i], np.int32(tick + i)
        examined[i] = 0
        stamp[0] = now
        for j in range(word_off[i], word_off[i + 1]):
            stamp[words[j]] = now
        for j in range(word_off[i] - 1, word_off[i + 1]):
            word = np.int64(words[j]) if j >= word_off[i] else np.int64(0)
            for turn in range(2 if state[EVERYWHERE] > 0 else 1):
                node = _find((np.int64(cell[i]) if turn == 0 else everywhere) << 32 | word, table)
                if node < 0:
                    continue
                base, length = np.int64(nodes[node, BASE]), np.int64(nodes[node, LENGTH])
                if found + length > out.shape[0]:
                    return i
                examined[i] += length
                for p in range(base, base + length):
                    slot = np.int64(arena[p])
                    if _fits(slot, word, x[i], y[i], now, stamp, shape, traits, kw, pool, haversine):
                        out[found] = slot
                        found += 1
        off[i + 1] = found
    return x.shape[0]


# ------------------------------------------------------------------------------------------------ FAST


@kernel
def _deepest(slot: Int, levels: Int, box: Boxes) -> Int:
    """Return the deepest level of the pyramid at which a query reaches no further than its neighbouring cells."""
    level = np.int64(levels)
    while level > 0:
        shift = 16 - level
        if (np.int64(box[slot, 2]) >> shift) - (np.int64(box[slot, 0]) >> shift) <= 1 and (
            (np.int64(box[slot, 3]) >> shift) - (np.int64(box[slot, 1]) >> shift) <= 1
        ):
            break
        level -= 1
    return level


@kernel
def _cell_key(level: Int, column: Int, row: Int, word: Int) -> Int:
    return np.int64(level) << 56 | (np.int64(row) << level | column) << 31 | word


@kernel
def _trie_key(node: Int, word: Int) -> Int:
    return np.int64(1) << 62 | np.int64(node) << 31 | word


@kernel
def _push(slot: Int, word: Int, level: Int, stack: Slots, state: Ints) -> None:
    top = state[STACK_TOP]
    stack[top, 0], stack[top, 1], stack[top, 2] = slot, word, level
    state[STACK_TOP] = top + 1


@kernel
def _split(
    node: Int,
    mark: Int,
    depth: Int,
    word: Int,
    level: Int,
    levels: Int,
    box: Boxes,
    kw: Slots,
    pool: Slots,
    traits: Any,
    nodes: Slots,
    arena: Slots,
    stack: Slots,
    state: Ints,
) -> None:
    """Mark a frequent keyword's node and put those of its queries back to work that belong further down now."""
    nodes[node, MARKS] |= mark
    base, kept = np.int64(nodes[node, BASE]), 0
    for p in range(base, base + nodes[node, LENGTH]):
        slot = np.int64(arena[p])
        if mark == DESCENDED:
            moves = _deepest(slot, levels, box) > level
        else:
            moves = traits[slot] & 4 == 0 and _word(slot, depth + 1, kw, pool) >= 0
        if moves:
            _push(slot, word, level, stack, state)
        else:
            arena[base + kept] = slot
            kept += 1
    nodes[node, LENGTH] = kept


@kernel
def fast_add(
    start: Int,
    slots: Slots,
    words: Slots,
    box: Boxes,
    frequent: Int,
    levels: Int,
    levels_of: Slots,
    kw: Slots,
    pool: Slots,
    traits: Any,
    table: Ints,
    nodes: Slots,
    arena: Slots,
    free: Slots,
    stack: Slots,
    state: Ints,
) -> Int:
    """File postings from `start` on; return how many are taken up before room runs out (the stack may hold some yet)."""
    i = start
    while i < slots.shape[0] or state[STACK_TOP] > 0:
        if state[STACK_TOP] == 0:
            _push(slots[i], words[i], 0, stack, state)
            i += 1
        top = state[STACK_TOP] - 1
        slot, word, level = np.int64(stack[top, 0]), np.int64(stack[top, 1]), np.int64(stack[top, 2])
        if not _roomy(0, table, nodes, arena, state):
            return i
        deepest = _deepest(slot, levels, box)
        depth = 0
        shift = 16 - level
        key = _cell_key(level, np.int64(box[slot, 0]) >> shift, np.int64(box[slot, 1]) >> shift, word)
        node = _find_or_open(key, table, nodes, state)
        while True:
            marks = nodes[node, MARKS]
            if depth == 0 and marks & DESCENDED and level < deepest:
                level += 1
                shift = 16 - level
                key = _cell_key(level, np.int64(box[slot, 0]) >> shift, np.int64(box[slot, 1]) >> shift, word)
                node = _find_or_open(key, table, nodes, state)
            elif marks & TRIE and depth < 2 and traits[slot] & 4 == 0 and _word(slot, depth + 1, kw, pool) >= 0:
                depth += 1
                node = _find_or_open(_trie_key(node, _word(slot, depth, kw, pool)), table, nodes, state)
            else:
                break
        if not _roomy(nodes[node, LENGTH], table, nodes, arena, state):
            return i
        levels_of[word] |= np.int32(1 << level)
        marks = nodes[node, MARKS]
        if nodes[node, LENGTH] >= frequent and depth == 0 and not marks & DESCENDED and level < levels:
            _split(node, DESCENDED, depth, word, level, levels, box, kw, pool, traits, nodes, arena, stack, state)
        elif nodes[node, LENGTH] >= frequent and depth < 2 and not marks & TRIE:
            _split(node, TRIE, depth, word, level, levels, box, kw, pool, traits, nodes, arena, stack, state)
        else:
            _append(node, slot, nodes, arena, free, state)
            state[STACK_TOP] -= 1
    return i


@kernel
def _read(
    node: Int,
    word: Int,
    x: Int,
    y: Int,
    at_x: Int,
    at_y: Int,
    tick: Int,
    box: Boxes,
    nodes: Slots,
    arena: Slots,
    stamp: Slots,
    shape: Floats,
    traits: Any,
    kw: Slots,
    pool: Slots,
    haversine: bool,
    out: Slots,
    found: Int,
) -> Int:
    """Verify the queries of one list; return the new number of matches, or -1 where `out` is full."""
    base, length = np.int64(nodes[node, BASE]), np.int64(nodes[node, LENGTH])
    if found + length > out.shape[0]:
        return np.int64(-1)
    for p in range(base, base + length):
        slot = np.int64(arena[p])
        if (box[slot, 0] <= at_x) & (at_x <= box[slot, 2]) & (box[slot, 1] <= at_y) & (at_y <= box[slot, 3]) and _fits(
            slot, word, x, y, tick, stamp, shape, traits, kw, pool, haversine
        ):
            out[found] = slot
            found += 1
    return np.int64(found)


@kernel
def fast_probe(
    start: Int,
    x: Floats,
    y: Floats,
    quanta_x: Slots,
    quanta_y: Slots,
    word_off: Ints,
    words: Slots,
    tick: Int,
    levels: Int,
    levels_of: Slots,
    box: Boxes,
    table: Ints,
    nodes: Slots,
    arena: Slots,
    shape: Floats,
    traits: Any,
    kw: Slots,
    pool: Slots,
    haversine: bool,
    stamp: Slots,
    out: Slots,
    off: Ints,
    examined: Ints,
) -> Int:
    """Match objects from `start` on; return how many are done: all, or as many as `out` has room for.

    A query is filed once, under the cell of its lower left corner, and shared with the cells right of and above it:
    so an object reads its own cell and those left of and below it.
    """
    for i in range(start, x.shape[0]):
        found, now = off[i], np.int32(tick + i)
        at_x, at_y = np.int64(quanta_x[i]), np.int64(quanta_y[i])
        examined[i] = 0
        stamp[0] = now
        for j in range(word_off[i], word_off[i + 1]):
            stamp[words[j]] = now
        for j in range(word_off[i] - 1, word_off[i + 1]):
            word = np.int64(words[j]) if j >= word_off[i] else np.int64(0)
            present = levels_of[word]
            for level in range(levels + 1):
                if not present >> level & 1:
                    continue
                column, row = at_x >> (16 - level), at_y >> (16 - level)
                for near in range(4):
                    if column < near & 1 or row < near >> 1:
                        continue
                    node = _find(_cell_key(level, column - (near & 1), row - (near >> 1), word), table)
                    if node < 0:
                        continue
                    found = _read(
                        node, word, x[i], y[i], at_x, at_y, now, box, nodes, arena, stamp, shape, traits, kw, pool,
                        haversine, out, found,
                    )  # fmt: skip
                    if found < 0:
                        return i
                    examined[i] += nodes[node, LENGTH]
                    if not nodes[node, MARKS] & TRIE:
                        continue
                    for k in range(word_off[i], word_off[i + 1]):
                        child = _find(_trie_key(node, words[k]), table)
                        if child < 0:
                            continue
                        found = _read(
                            child, word, x[i], y[i], at_x, at_y, now, box, nodes, arena, stamp, shape, traits, kw, pool,
                            haversine, out, found,
                        )  # fmt: skip
                        if found < 0:
                            return i
                        examined[i] += nodes[child, LENGTH]
                        if not nodes[child, MARKS] & TRIE:
                            continue
                        for m in range(word_off[i], word_off[i + 1]):
                            leaf = _find(_trie_key(child, words[m]), table)
                            if leaf < 0:
                                continue
                            found = _read(
                                leaf, word, x[i], y[i], at_x, at_y, now, box, nodes, arena, stamp, shape, traits, kw,
                                pool, haversine, out, found,
                            )  # fmt: skip
                            if found < 0:
                                return i
                            examined[i] += nodes[leaf, LENGTH]
        off[i + 1] = found
    return x.shape[0]
