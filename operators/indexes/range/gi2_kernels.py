"""Kernels of GI2: a list for each keyword in each cell; `list_kernels` has the layout."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from operators.indexes.range.list_kernels import (
    EVERYWHERE,
    LENGTH,
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
)
from streams.flat_hash import place_of
from streams.kernel import kernel
from streams.prefetch import prefetch

Int = Any  # a machine integer, numpy's or Python's
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Slots = NDArray[np.int32]
Bits = NDArray[np.uint64]


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
    start: Int, x: Floats, y: Floats, cell: Slots, side: Int, word_off: Ints, words: Slots, table: Ints,
    nodes: Slots, arena: Slots, state: Ints, shape: Floats, traits: Any, kw: Slots, pool: Slots, haversine: bool,
    present: Bits, keys: Ints, owners: Slots, runs: Slots, out: Slots, off: Ints, examined: Ints,
) -> Int:  # fmt: skip
    """Match objects from `start` on; return how many are done: all, or as many as `out` has room for.

    Objects go through the stages together, as in KAG: every stage asks for the memory that the next one reads. `keys`,
    `owners` and `runs` have room for what one object can ask for.
    """
    everywhere, ends, first = np.int64(side) * side, off[1:], np.int64(start)
    while first < x.shape[0]:
        last = _together(first, word_off, 2, keys.shape[0])
        wanted = 0
        for i in range(first, last):
            examined[i], ends[i] = 0, -1
            for j in range(word_off[i] - 1, word_off[i + 1]):
                word = np.int64(words[j]) if j >= word_off[i] else np.int64(0)
                for turn in range(2 if state[EVERYWHERE] > 0 else 1):
                    keys[wanted] = (np.int64(cell[i]) if turn == 0 else everywhere) << 32 | word
                    owners[wanted] = i
                    prefetch(table, 2 * place_of(keys[wanted], table.shape[0]))
                    wanted += 1
        count = 0
        for n in range(_known(wanted, keys, owners, table, nodes)):
            count = _note(keys[n] >> 31, keys[n] & 0x7FFFFFFF, owners[n], nodes, arena, runs, count)
        found = _settle(
            count, x, y, word_off, words, arena, present, shape, traits, kw, pool, haversine, runs, out, off[first],
            ends, examined,
        )  # fmt: skip
        if found < 0:
            return first
        _close(first, last, off)
        first = last
    return x.shape[0]
