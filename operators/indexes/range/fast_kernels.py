"""Kernels of FAST: a pyramid of cells, lists of keywords in them, tries of frequent ones; `list_kernels` has the layout."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from operators.indexes.range.list_kernels import (
    BASE,
    LENGTH,
    MARKS,
    STACK_TOP,
    _append,
    _close,
    _find,
    _find_or_open,
    _known,
    _note,
    _roomy,
    _settle,
    _together,
    _word,
)
from streams.flat_hash import place_of
from streams.kernel import kernel
from streams.prefetch import prefetch

Int = Any  # a machine integer, numpy's or Python's
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Slots = NDArray[np.int32]
Boxes = NDArray[np.uint16]
Bits = NDArray[np.uint64]

#: Marks of nodes: queries that may go deeper into the pyramid do; queries with a further keyword are in a trie.
DESCENDED, TRIE = 1, 2


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
def _ask(
    i: Int, word: Int, at_x: Int, at_y: Int, levels: Int, levels_of: Slots, reach: Ints, table: Ints, keys: Ints,
    owners: Slots, wanted: Int,
) -> Int:  # fmt: skip
    """Write the keys of a word's lists that an object reads and ask for their places; return how many there are by now."""
    for level in range(levels + 1):
        if not levels_of[word] >> level & 1:
            continue
        column, row = np.int64(at_x) >> (16 - level), np.int64(at_y) >> (16 - level)
        # A neighbour's queries reach as far as the largest on this level; further in, they need no look.
        inner = (1 << (16 - level)) - 1
        reached = 0
        if column > 0 and (at_x & inner) < reach[level, 0]:
            reached |= 1
        if row > 0 and (at_y & inner) < reach[level, 1]:
            reached |= 2
        for near in range(4):
            if near & reached == near:
                keys[wanted] = _cell_key(level, column - (near & 1), row - (near >> 1), word)
                owners[wanted] = i
                prefetch(table, 2 * place_of(keys[wanted], table.shape[0]))
                wanted += 1
    return wanted


@kernel
def fast_probe(
    start: Int, x: Floats, y: Floats, quanta_x: Slots, quanta_y: Slots, word_off: Ints, words: Slots,
    levels: Int, levels_of: Slots, reach: Ints, table: Ints, nodes: Slots, arena: Slots, shape: Floats, traits: Any, kw: Slots,
    pool: Slots, haversine: bool, present: Bits, keys: Ints, owners: Slots, stack: Slots, runs: Slots, out: Slots,
    off: Ints, examined: Ints,
) -> Int:  # fmt: skip
    """Match objects from `start` on; return how many are done: all, or as many as `out` has room for.

    A query is filed once, under the cell of its lower left corner, and shared with the cells right of and above it:
    so an object reads its own cell and those left of and below it. `keys`, `owners` and `stack` have room for what one
    object can ask for; runs are read whenever there are too many.
    """
    ends, first = off[1:], np.int64(start)
    while first < x.shape[0]:
        last = _together(first, word_off, 4 * (levels + 1), keys.shape[0])
        wanted = 0
        for i in range(first, last):
            examined[i], ends[i] = 0, -1
            for j in range(word_off[i] - 1, word_off[i + 1]):
                word = words[j] if j >= word_off[i] else np.int32(0)
                wanted = _ask(i, word, quanta_x[i], quanta_y[i], levels, levels_of, reach, table, keys, owners, wanted)
        known = _known(wanted, keys, owners, table, nodes)
        for n in range(known):
            if nodes[keys[n] >> 31, MARKS] & TRIE:
                for k in range(word_off[owners[n]], word_off[owners[n] + 1]):
                    prefetch(table, 2 * place_of(_trie_key(keys[n] >> 31, words[k]), table.shape[0]))
        found, count = off[first], 0
        for n in range(known):
            i, top = owners[n], 1
            stack[0] = keys[n] >> 31
            while top > 0:
                top -= 1
                node = np.int64(stack[top])
                count = _note(node, keys[n] & 0x7FFFFFFF, i, nodes, arena, runs, count)
                if nodes[node, MARKS] & TRIE:
                    for k in range(word_off[i], word_off[i + 1]):
                        child = _find(_trie_key(node, words[k]), table)
                        if child >= 0:
                            prefetch(nodes, 4 * child)
                            stack[top] = child
                            top += 1
                if count == runs.shape[0]:
                    found = _settle(
                        count, x, y, word_off, words, arena, present, shape, traits, kw, pool, haversine, runs, out,
                        found, ends, examined,
                    )  # fmt: skip
                    count = 0
                    if found < 0:
                        return first
        found = _settle(
            count, x, y, word_off, words, arena, present, shape, traits, kw, pool, haversine, runs, out, found,
            ends, examined,
        )  # fmt: skip
        if found < 0:
            return first
        _close(first, last, off)
        first = last
    return x.shape[0]
