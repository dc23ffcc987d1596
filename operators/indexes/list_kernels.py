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

from operators.indexes.prefetch import prefetch
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
#: Nodes that filing one query may add at most: at the top, on the level of its size, and two in the trie below.
MOST_NEW_NODES = 4
#: Candidates of a list whose rows are asked for ahead of time.
AHEAD = 12


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
def _fits(
    slot: Int, word: Int, x: Int, y: Int, tick: Int, stamp: Slots, shape: Floats, traits: Any, kw: Slots, pool: Slots,
    haversine: bool,
) -> Any:  # fmt: skip
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


@kernel
def _stamp_words(i: Int, tick: Int, word_off: Ints, words: Slots, stamp: Slots) -> None:
    stamp[0] = tick + i
    for j in range(word_off[i], word_off[i + 1]):
        stamp[words[j]] = tick + i


@kernel
def _note(node: Int, word: Int, nodes: Slots, arena: Slots, runs: Slots, count: Int) -> Int:
    """Note a list for reading: its first place, its end and the word that led to it."""
    runs[count, 0] = nodes[node, BASE]
    runs[count, 1] = nodes[node, BASE] + nodes[node, LENGTH]
    runs[count, 2] = word
    prefetch(arena, nodes[node, BASE])
    return count + 1


@kernel
def _settle(
    count: Int, i: Int, x: Any, y: Any, tick: Int, arena: Slots, stamp: Slots, shape: Floats, traits: Any, kw: Slots,
    pool: Slots, haversine: bool, runs: Slots, out: Slots, found: Int, examined: Ints,
) -> Int:  # fmt: skip
    """Read lists and verify their queries; return the new number of matches, or -1 where `out` is full.

    A plain query, a rectangle with up to three keywords that must all be there, is decided here; others by `_fits`.
    """
    now = np.int32(tick)
    for z in range(count):
        first, last = np.int64(runs[z, 0]), np.int64(runs[z, 1])
        if found + last - first > out.shape[0]:
            return np.int64(-1)
        examined[i] += last - first
        for p in range(first, min(last, first + AHEAD)):
            prefetch(kw, 3 * np.int64(arena[p]))
            prefetch(traits, np.int64(arena[p]))
        for p in range(first, last):
            if p + AHEAD < last:
                prefetch(kw, 3 * np.int64(arena[p + AHEAD]))
                prefetch(traits, np.int64(arena[p + AHEAD]))
            slot = np.int64(arena[p])
            if traits[slot] & 135 == 1 and kw[slot, 2] >= -1:
                # Keywords first: most candidates fail here, and do not cost a look at their region.
                if (
                    (kw[slot, 1] < 0 or stamp[kw[slot, 1]] == now)
                    and (kw[slot, 2] < 0 or stamp[kw[slot, 2]] == now)
                    and (x >= shape[slot, 0]) & (x <= shape[slot, 2]) & (y >= shape[slot, 1]) & (y <= shape[slot, 3])
                ):
                    out[found] = slot
                    found += 1
            elif _fits(slot, runs[z, 2], x, y, now, stamp, shape, traits, kw, pool, haversine):
                out[found] = slot
                found += 1
    return np.int64(found)


# ------------------------------------------------------------------------------------------------ GI2


@kernel
def gi2_add(
    start: Int, slots: Slots, words: Slots, span: Slots, side: Int, most_cells: Int, table: Ints, nodes: Slots,
    arena: Slots, free: Slots, state: Ints,
) -> Int:  # fmt: skip
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
    start: Int, x: Floats, y: Floats, cell: Slots, side: Int, word_off: Ints, words: Slots, tick: Int, table: Ints,
    nodes: Slots, arena: Slots, state: Ints, shape: Floats, traits: Any, kw: Slots, pool: Slots, haversine: bool,
    stamp: Slots, keys: Ints, runs: Slots, out: Slots, off: Ints, examined: Ints,
) -> Int:  # fmt: skip
    """Match objects from `start` on; return how many are done: all, or as many as `out` has room for."""
    everywhere = np.int64(side) * side
    for i in range(start, x.shape[0]):
        _stamp_words(i, tick, word_off, words, stamp)
        examined[i] = 0
        found, count, wanted = off[i], 0, 0
        for j in range(word_off[i] - 1, word_off[i + 1]):
            word = np.int64(words[j]) if j >= word_off[i] else np.int64(0)
            for turn in range(2 if state[EVERYWHERE] > 0 else 1):
                keys[wanted] = (np.int64(cell[i]) if turn == 0 else everywhere) << 32 | word
                prefetch(table, 2 * _place(keys[wanted], table.shape[0]))
                wanted += 1
        known = 0
        for n in range(wanted):
            node = _find(keys[n], table)
            if node >= 0:
                keys[known] = node << 31 | (keys[n] & 0x7FFFFFFF)
                prefetch(nodes, 4 * node)
                known += 1
        for n in range(known):
            count = _note(keys[n] >> 31, keys[n] & 0x7FFFFFFF, nodes, arena, runs, count)
        found = _settle(
            count, i, x[i], y[i], tick + i, arena, stamp, shape, traits, kw, pool, haversine, runs, out, found, examined
        )
        if found < 0:
            return i
        off[i + 1] = found
    return x.shape[0]


# ------------------------------------------------------------------------------------------------ FAST


@kernel
def _own_level(slot: Int, levels: Int, box: Boxes) -> Int:
    """Return the level of a query's own size: the deepest whose cells are not smaller, so it overlaps two by two at most."""
    extent = max(np.int64(box[slot, 2]) - box[slot, 0], np.int64(box[slot, 3]) - box[slot, 1])
    level = np.int64(levels)
    while level > 0 and extent >= 1 << (16 - level):
        level -= 1
    return level


@kernel
def _cell_key(level: Int, column: Int, row: Int, word: Int) -> Int:
    return np.int64(level) << 56 | (np.int64(row) << level | column) << 31 | word


@kernel
def _trie_key(node: Int, word: Int) -> Int:
    return np.int64(1) << 62 | np.int64(node) << 31 | word


@kernel
def _push(slot: Int, word: Int, stack: Slots, state: Ints) -> None:
    top = state[STACK_TOP]
    stack[top, 0], stack[top, 1] = slot, word
    state[STACK_TOP] = top + 1


@kernel
def _split(
    node: Int, mark: Int, depth: Int, word: Int, level: Int, levels: Int, box: Boxes, kw: Slots, pool: Slots,
    traits: Any, nodes: Slots, arena: Slots, stack: Slots, state: Ints,
) -> None:  # fmt: skip
    """Mark a frequent keyword's node and put those of its queries back to work that belong further down now."""
    nodes[node, MARKS] |= mark
    base, kept = np.int64(nodes[node, BASE]), 0
    for p in range(base, base + nodes[node, LENGTH]):
        slot = np.int64(arena[p])
        if mark == DESCENDED:
            moves = _own_level(slot, levels, box) > level
        else:
            moves = traits[slot] & 4 == 0 and _word(slot, depth + 1, kw, pool) >= 0
        if moves:
            _push(slot, word, stack, state)
        else:
            arena[base + kept] = slot
            kept += 1
    nodes[node, LENGTH] = kept


@kernel
def fast_add(
    start: Int, slots: Slots, words: Slots, box: Boxes, frequent: Int, levels: Int, levels_of: Slots, reach: Ints, kw: Slots,
    pool: Slots, traits: Any, table: Ints, nodes: Slots, arena: Slots, free: Slots, stack: Slots, state: Ints,
) -> Int:  # fmt: skip
    """File postings from `start` on; return how many are taken up before room runs out (the stack may hold some yet)."""
    i = start
    while i < slots.shape[0] or state[STACK_TOP] > 0:
        if state[STACK_TOP] == 0:
            _push(slots[i], words[i], stack, state)
            i += 1
        top = state[STACK_TOP] - 1
        slot, word, level = np.int64(stack[top, 0]), np.int64(stack[top, 1]), np.int64(0)
        if not _roomy(0, table, nodes, arena, state):
            return i
        depth = 0
        node = _find_or_open(_cell_key(level, 0, 0, word), table, nodes, state)
        while True:
            marks = nodes[node, MARKS]
            if level == 0 and depth == 0 and marks & DESCENDED and _own_level(slot, levels, box) > 0:
                level = _own_level(slot, levels, box)
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
        marks = nodes[node, MARKS]
        if nodes[node, LENGTH] >= frequent and level == 0 and depth == 0 and not marks & DESCENDED:
            _split(node, DESCENDED, depth, word, level, levels, box, kw, pool, traits, nodes, arena, stack, state)
            if nodes[node, LENGTH] == 0:
                levels_of[word] &= ~np.int32(1)
        elif nodes[node, LENGTH] >= frequent and depth < 2 and not marks & TRIE:
            _split(node, TRIE, depth, word, level, levels, box, kw, pool, traits, nodes, arena, stack, state)
        else:
            _append(node, slot, nodes, arena, free, state)
            levels_of[word] |= np.int32(1 << level)
            reach[level, 0] = max(reach[level, 0], np.int64(box[slot, 2]) - box[slot, 0])
            reach[level, 1] = max(reach[level, 1], np.int64(box[slot, 3]) - box[slot, 1])
            state[STACK_TOP] -= 1
    return i


@kernel
def fast_probe(
    start: Int, x: Floats, y: Floats, quanta_x: Slots, quanta_y: Slots, word_off: Ints, words: Slots, tick: Int,
    levels: Int, levels_of: Slots, reach: Ints, table: Ints, nodes: Slots, arena: Slots, shape: Floats, traits: Any, kw: Slots,
    pool: Slots, haversine: bool, stamp: Slots, keys: Ints, stack: Slots, runs: Slots, out: Slots, off: Ints,
    examined: Ints,
) -> Int:  # fmt: skip
    """Match objects from `start` on; return how many are done: all, or as many as `out` has room for.

    A query is filed once, under the cell of its lower left corner, and shared with the cells right of and above it:
    so an object reads its own cell and those left of and below it. `keys` and `stack` have room for what one object
    can ask for; runs are read whenever there are too many.
    """
    for i in range(start, x.shape[0]):
        _stamp_words(i, tick, word_off, words, stamp)
        examined[i] = 0
        found, count, wanted = off[i], 0, 0
        for j in range(word_off[i] - 1, word_off[i + 1]):
            word = np.int64(words[j]) if j >= word_off[i] else np.int64(0)
            for level in range(levels + 1):
                if not levels_of[word] >> level & 1:
                    continue
                column, row = np.int64(quanta_x[i]) >> (16 - level), np.int64(quanta_y[i]) >> (16 - level)
                # A neighbour's queries reach as far as the largest on this level; further in, they need no look.
                inner = (1 << (16 - level)) - 1
                reached = 0
                if column > 0 and (quanta_x[i] & inner) < reach[level, 0]:
                    reached |= 1
                if row > 0 and (quanta_y[i] & inner) < reach[level, 1]:
                    reached |= 2
                for near in range(4):
                    if near & reached == near:
                        keys[wanted] = _cell_key(level, column - (near & 1), row - (near >> 1), word)
                        prefetch(table, 2 * _place(keys[wanted], table.shape[0]))
                        wanted += 1
        known = 0
        for n in range(wanted):
            node = _find(keys[n], table)
            if node >= 0:
                keys[known] = node << 31 | (keys[n] & 0x7FFFFFFF)
                prefetch(nodes, 4 * node)
                known += 1
        for n in range(known):
            top = 1
            stack[0, 0], stack[0, 1] = keys[n] >> 31, 0
            while top > 0:
                top -= 1
                node, depth = np.int64(stack[top, 0]), stack[top, 1]
                count = _note(node, keys[n] & 0x7FFFFFFF, nodes, arena, runs, count)
                if nodes[node, MARKS] & TRIE:
                    for k in range(word_off[i], word_off[i + 1]):
                        child = _find(_trie_key(node, words[k]), table)
                        if child >= 0:
                            stack[top, 0], stack[top, 1] = child, depth + 1
                            top += 1
                if count == runs.shape[0]:
                    found = _settle(
                        count, i, x[i], y[i], tick + i, arena, stamp, shape, traits, kw, pool, haversine, runs,
                        out, found, examined,
                    )  # fmt: skip
                    count = 0
                    if found < 0:
                        return i
        found = _settle(
            count, i, x[i], y[i], tick + i, arena, stamp, shape, traits, kw, pool, haversine, runs, out, found, examined
        )
        if found < 0:
            return i
        off[i + 1] = found
    return x.shape[0]
