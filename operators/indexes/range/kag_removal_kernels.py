"""How queries are taken out of KAG; `kag_group_kernels` has the layout."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from operators.indexes.range.kag_bundle_kernels import _leave
from operators.indexes.range.kag_group_kernels import (
    APART,
    BASE,
    CELLS_TOP,
    COUNT,
    MEMBERS,
    MOST_HOLES,
    NEED_CELLS,
    NEED_POSTINGS,
    POSTINGS_PER_HOLE,
    POSTINGS_TOP,
    QUERIES,
    SECOND_SIDE,
    SECOND_WORDS,
    SHARED,
    SIDE,
    SLOT,
    SWEPT,
    _across,
    _best_side,
    _class_of_box,
    _close_group,
    _edges,
    _empty_group,
    _find_group,
    _holes,
    _regrid,
    _side_number,
    _unchain,
)
from operators.indexes.range.kag_hint_kernels import _hint
from operators.indexes.range.kag_place_kernels import _cell, _take_out
from streams.kernel import lean_kernel

Int = Any  # a machine integer, numpy's or Python's
Ints = NDArray[np.int64]
Slots = NDArray[np.int32]
Postings = NDArray[np.uint32]


@lean_kernel
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


@lean_kernel
def _sparse(side: Int, count: Int, per_posting: float, most_per_posting: float, list_length: Int) -> bool:
    return bool(2 * count <= list_length or count * 4 * max(2 * per_posting, most_per_posting) < side * side)


@lean_kernel
def _holed(g: Int, groups: Slots) -> bool:
    holes = _holes(g, groups)
    return bool(holes * POSTINGS_PER_HOLE > groups[g, COUNT] or holes >= MOST_HOLES)


@lean_kernel
def _may_shrink(g: Int, groups: Slots, per_posting: float, most_per_posting: float, list_length: Int) -> bool:
    """Tell whether `_shrink` has something to do: a call of it for each posting costs more than to take the posting out."""
    side, count = np.int64(groups[g, SIDE]), np.int64(groups[g, COUNT])
    if side == 1 or count == 0:
        return bool(count == 0)
    return _sparse(side, count, per_posting, most_per_posting, list_length) or _holed(g, groups)


@lean_kernel
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
        sparse = _sparse(side, count, per_posting, most_per_posting, list_length)
        smaller = min(_best_side(count, per_posting, _across(g, groups), list_length), side) if sparse else side
        if smaller < side or _holed(g, groups):
            _regrid(g, smaller, -1, box, groups, cells, postings, free, free_cells, state)
    if whole >= 0 and groups[whole, COUNT] == 0:
        number = _side_number(SECOND_SIDE)
        cells[groups[whole, BASE]] = free_cells[number]
        free_cells[number] = groups[whole, BASE]
        _unchain(word, whole, directory, groups)
        _close_group(whole, groups, state)


@lean_kernel
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
        whole, second = np.int64(-1), np.int64(-1)
        if state[APART] > 0 and apart[slot] == 1:
            second = np.int64(kw[slot, 1]) & (SECOND_WORDS - 1)
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
        if gone > 0 and _may_shrink(g, groups, per_posting, most_per_posting, list_length):
            _shrink(
                words[i], g, whole, second, box, groups, cells, postings, directory, free, free_cells, state,
                per_posting, most_per_posting, list_length,
            )  # fmt: skip
    if noted:
        for j in range(slots.shape[0]):
            where[slots[j]] = 0
    return reached
