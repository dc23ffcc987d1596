"""How queries are filed in KAG; `kag_group_kernels` has the layout."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from operators.indexes.range.kag_bundle_kernels import _join, _partner
from operators.indexes.range.kag_group_kernels import (
    ALIKE,
    APART,
    BASE,
    BUNDLES_TOP,
    CELLS_TOP,
    COUNT,
    CROWDING,
    GROUPS_TOP,
    HALVES,
    MEMBERS,
    MOST_CROWDING,
    NEED_CELLS,
    NEED_POSTINGS,
    NEXT,
    POSTINGS_TOP,
    ROOM,
    SECOND_SIDE,
    SECOND_WORDS,
    SHARED,
    SHIFT,
    SIDE,
    SLOT,
    TOO_MANY,
    _across,
    _centre,
    _class_of_box,
    _divide,
    _edges,
    _find_group,
    _frame,
    _in_frame,
    _open_group,
    _reframe,
    _regrid,
    _set_frame,
    _size_class,
    _swap,
    _wanted_side,
)
from operators.indexes.range.kag_hint_kernels import _hint
from operators.indexes.range.kag_place_kernels import _cell, _place_in_hole, _place_in_list, _place_in_row
from operators.indexes.range.kag_tag_kernels import _deeper
from streams.kernel import lean_kernel

Int = Any  # a machine integer, numpy's or Python's
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Slots = NDArray[np.int32]
Postings = NDArray[np.uint32]


@lean_kernel
def _crowd(g: Int, groups: Slots) -> Int:
    """Return how many of a group's postings an object is expected to meet, by the size of regions in the frame."""
    count, across = np.int64(groups[g, COUNT]), _across(g, groups)
    return count if across >= 15 else count >> (2 * (15 - across))


@lean_kernel
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
                groups[g, NEXT] = -2 - kw[slot, 1]
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


@lean_kernel
def _alone(g: Int, size_class: Int, groups: Slots) -> bool:
    """Tell whether a word has one group, which takes a posting of this class as it is: `_group_for` would return it."""
    return bool(
        groups[g, NEXT] < 0
        and groups[g, SIDE] > 0
        and _size_class(g, groups) == size_class
        and _crowd(g, groups) < TOO_MANY
    )


@lean_kernel
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
        g = np.int64(directory[words[i]])
        if state[APART] > 0 or g < 0 or not _alone(g, size_class, groups):
            g = _group_for(
                slot, words[i], i, box, size_class, kw, traits, apart, directory, groups, cells, free_cells, state
            )  # fmt: skip
        tag_pair, flag = tags[i], flags[i]
        if state[APART] > 0 and apart[slot] == 1 and groups[g, NEXT] == -2 - kw[slot, 1]:
            tag_pair, flag = _deeper(slot, flag, kw, pool, traits)
        count, side = np.int64(groups[g, COUNT]), np.int64(groups[g, SIDE])
        fits = _in_frame(g, groups, low_x, low_y, high_x, high_y)
        edge_x, edge_y = _edges(g, groups, low_x, low_y, high_x, high_y)
        if count > 0 and fits and traits[slot] & 4 == 0:
            first, last = _cell(g, edge_x, edge_y, groups, cells)
            place = np.int64(-1)
            if state[MEMBERS] > 0 or last - first >= ALIKE:
                place = _partner(
                    slot, first, last, edge_x, edge_y, flag, tag_pair, postings, bundles, shape, traits, kw, pool
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
            if wanted == 1 and count > 0:
                _reframe(g, postings[groups[g, BASE] : groups[g, BASE] + count], i, box, groups)
            else:
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
        postings[place, 2] = np.uint32(slot) | flag
        postings[place, 3] = tag_pair
        groups[g, COUNT] += 1
        if state[APART] > 0 and apart[slot] == 1:
            groups[_find_group(words[i], size_class, True, directory, groups), COUNT] += 1
        halves = np.int64(groups[g, HALVES])
        half_x = max(halves & 0xFFFF, (np.int64(edge_x >> SHIFT) + 1) >> 1)
        half_y = max((halves >> 16) & 0xFFFF, (np.int64(edge_y >> SHIFT) + 1) >> 1)
        groups[g, HALVES] = np.int32(np.uint32(half_x | (half_y << 16)))
    return slots.shape[0]
