"""What KAG does with queries: tags and flags of their postings, filing and taking out; `kag_group_kernels` has the layout."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from operators.indexes.core.prefetch import prefetch
from operators.indexes.range.kag_group_kernels import (
    ABSENT,
    ALIKE,
    APART,
    BASE,
    BUNDLES_TOP,
    CELLS_TOP,
    COMPARED,
    COUNT,
    CROWDING,
    EXACT_TAGS,
    FREE_BUNDLE,
    GROUPS_TOP,
    HALVES,
    HOLE,
    HOLE_SHIFT,
    LOW16,
    MEMBERS,
    MOST_CROWDING,
    MOST_HOLES,
    NEED_CELLS,
    NEED_POSTINGS,
    NEXT,
    NEXT_FREE,
    NO_WORD,
    ORIGIN,
    POSTINGS_PER_HOLE,
    POSTINGS_TOP,
    QUERIES,
    ROOM,
    ROUND,
    SECOND_SIDE,
    SECOND_WORDS,
    SHARED,
    SHIFT,
    SIDE,
    SIZE,
    SLOT,
    SLOTS_AT,
    SWEPT,
    TAG_BITS,
    TOO_MANY,
    VERIFY,
    _across,
    _best_side,
    _centre,
    _class_of,
    _class_of_box,
    _close_group,
    _copy,
    _copy_all,
    _divide,
    _edges,
    _empty_group,
    _find_group,
    _frame,
    _give_block,
    _holes,
    _in_frame,
    _open_group,
    _place_in_hole,
    _place_in_list,
    _place_in_row,
    _reframe,
    _regrid,
    _set_frame,
    _shift,
    _side_number,
    _size_class,
    _size_of,
    _swap,
    _take_block,
    _unchain,
    _wanted_side,
)
from streams.kernel import lean_kernel

Int = Any  # a machine integer, numpy's or Python's
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Slots = NDArray[np.int32]
Postings = NDArray[np.uint32]


@lean_kernel
def _tag_of(word: Int) -> Int:
    return np.int32(word if word < EXACT_TAGS else min(EXACT_TAGS | (word & TAG_BITS), NO_WORD - 1))


@lean_kernel
def said(slots: Slots, traits: Any) -> Int:
    """Return the bits that are set in the traits of any of these queries."""
    bits = np.uint8(0)
    for i in range(slots.shape[0]):
        bits |= traits[slots[i]]
    return bits


@lean_kernel
def tag(
    slots: Slots, words: Slots, round_ones: NDArray[np.bool_], kw: Slots, pool: Slots, traits: Any, tags: Postings,
    flags: Postings,
) -> None:  # fmt: skip
    """Write the two tags of each posting and its flags.

    Where all words are asked for, the tags are the second and the third; tag 0 is present in every object. Where any will do,
    an object counts under the first of its words, so that those before it must be absent; the last tag always is. A query of
    any words that is filed by its place alone has word 0: no tag says more than the table.
    """
    for i in range(slots.shape[0]):
        slot = slots[i]
        more = kw[slot, 2] < -1
        kind = traits[slot] & 3
        doubt = kind == 2 and not round_ones[i]
        flag = ROUND if round_ones[i] else np.uint32(0)
        if traits[slot] & 4 == 0:
            second, third = kw[slot, 1], pool[-1 - kw[slot, 2]] if more else kw[slot, 2]
            doubt = doubt or more or second >= EXACT_TAGS or third >= EXACT_TAGS
            first_tag, second_tag = _tag_of(max(second, 0)), _tag_of(max(third, 0))
        elif words[i] == 0:
            doubt, first_tag, second_tag = True, np.int32(0), np.int32(0)
        else:
            flag |= ABSENT
            first_tag, second_tag = np.int32(NO_WORD), np.int32(NO_WORD)
            j = 0
            while True:
                own = pool[-2 - kw[slot, 2] + j - 1] if more and j >= 2 else kw[slot, j]
                if own == words[i]:
                    break
                if own >= EXACT_TAGS or j >= 2:
                    doubt = True
                elif j == 0:
                    first_tag = own
                else:
                    second_tag = own
                j += 1
        tags[i] = np.uint32(first_tag) | np.uint32(second_tag) << SHIFT
        flags[i] = flag | (VERIFY if doubt else np.uint32(0))


@lean_kernel
def _hint(
    i: Int, words: Slots, box: Slots, directory: Slots, groups: Slots, cells: Slots, postings: Postings, filing: bool
) -> None:
    """Ask for what the next postings of a batch will touch: the further ahead, the earlier the stage.

    Filing moves postings up to the end of the row, taking out touches one cell. Only the first group of a word is looked at,
    and the cell is the likely one: rounding may set it off by one.
    """
    last = words.shape[0] - 1
    prefetch(directory, words[min(i + 16, last)])
    prefetch(groups, 8 * np.int64(directory[words[min(i + 11, last)]]))
    for ahead in (7, 3):
        n = min(i + ahead, last)
        g = np.int64(directory[words[n]])
        if g < 0:
            continue
        side, base = np.int64(groups[g, SIDE]), np.int64(groups[g, BASE])
        shift, origin = _shift(g, groups), np.int64(groups[g, ORIGIN])
        x = ((np.int64(box[n, 0]) + box[n, 2]) >> (1 + shift)) - ((origin & 0xFFFF) << 15)
        y = ((np.int64(box[n, 1]) + box[n, 3]) >> (1 + shift)) - ((origin >> 16 & 0xFFFF) << 15)
        if side > 1 and (x | y) >> 16 == 0:
            base += ((y * side) >> 16) * (side + 2)
            entry = base + 1 + ((x * side) >> 16)
            if ahead == 7:
                prefetch(cells, entry)
                if filing:
                    prefetch(cells, base)
                    prefetch(cells, base + 1 + side)
            elif filing:
                prefetch(postings, 4 * np.int64(cells[entry + 1]))
                prefetch(postings, 4 * np.int64(cells[base + 1 + side]))
            else:
                prefetch(postings, 4 * np.int64(cells[entry]))
                prefetch(postings, 4 * np.int64(cells[entry + 1]) - 4)
        elif side == 1 and ahead == 7:
            prefetch(postings, 4 * base)
            if not filing:
                prefetch(postings, 4 * (base + np.int64(groups[g, COUNT]) - 1))


@lean_kernel
def _cell(g: Int, edge_x: Any, edge_y: Any, groups: Slots, cells: Slots) -> Any:
    """Return where the postings of a box's cell begin and end; a list is one cell."""
    side, base = np.int64(groups[g, SIDE]), np.int64(groups[g, BASE])
    if side == 1:
        return base, base + np.int64(groups[g, COUNT])
    entry = base + ((_centre(edge_y) * side) >> 16) * (side + 2) + 1 + ((_centre(edge_x) * side) >> 16)
    return np.int64(cells[entry]), np.int64(cells[entry + 1])


@lean_kernel
def _equal(one: Int, other: Int, shape: Floats, traits: Any, kw: Slots, pool: Slots) -> bool:
    """Tell whether two queries ask the same; who sleeps, and what was said that makes no difference, does not matter."""
    if traits[one] & 7 != traits[other] & 7 or traits[one] & 7 > 2:
        return False
    for k in range(4):
        if shape[one, k] != shape[other, k]:
            return False
    if kw[one, 0] != kw[other, 0] or kw[one, 1] != kw[other, 1]:
        return False
    if kw[one, 2] >= -1 or kw[other, 2] >= -1:
        return bool(kw[one, 2] == kw[other, 2])
    for j in range(pool[-2 - kw[one, 2]] + 1):  # noqa: SIM110 - a kernel has no generators
        if pool[-2 - kw[one, 2] + j] != pool[-2 - kw[other, 2] + j]:
            return False
    return True


@lean_kernel
def _partner(
    slot: Int, first: Int, last: Int, edge_x: Any, edge_y: Any, flags: Any, tags: Any, postings: Postings,
    bundles: Slots, shape: Floats, traits: Any, kw: Slots, pool: Slots,
) -> Int:  # fmt: skip
    """Return the place of a posting that an equal query is to share, among the last of a cell, or -1."""
    alike, found = 0, np.int64(-1)
    for place in range(last - 1, max(first, last - COMPARED) - 1, -1):
        if (
            postings[place, 0] == edge_x
            and postings[place, 1] == edge_y
            and postings[place, 3] == tags
            and (postings[place, 2] & ~(SLOT | SHARED)) == flags
            and postings[place, 2] != HOLE
        ):
            other = np.int64(postings[place, 2] & SLOT)
            shared = postings[place, 2] & SHARED != 0
            if shared:
                other = np.int64(postings[bundles[other, SLOTS_AT], 0])
            if _equal(slot, other, shape, traits, kw, pool):
                alike += 1
                if shared:
                    return np.int64(place)
                if found < 0:
                    found = np.int64(place)
    return found if alike >= ALIKE else np.int64(-1)


@lean_kernel
def _join(slot: Int, place: Int, postings: Postings, bundles: Slots, members: Slots, free: Slots, state: Ints) -> None:
    """Let a query share a posting; there is room for another bundle, and for this one to be half as large again."""
    if postings[place, 2] & SHARED == 0:
        other = np.int64(postings[place, 2] & SLOT)
        b = state[FREE_BUNDLE]
        if b >= 0:
            state[FREE_BUNDLE] = bundles[b, NEXT_FREE]
        else:
            b = state[BUNDLES_TOP]
            state[BUNDLES_TOP] += 1
        base = _take_block(1, postings, free, state)
        bundles[b, SLOTS_AT], bundles[b, QUERIES], bundles[b, ROOM] = base, 1, 4
        postings[base, 0] = np.uint32(other)
        members[other, 0], members[other, 1] = b + 1, 0
        state[MEMBERS] += 1
        postings[place, 2] = (postings[place, 2] & ~SLOT) | np.uint32(b) | SHARED
    b = np.int64(postings[place, 2] & SLOT)
    base, count, room = np.int64(bundles[b, SLOTS_AT]), np.int64(bundles[b, QUERIES]), np.int64(bundles[b, ROOM])
    if count == room:
        rows = _size_of(_class_of(room // 4 + room // 8 + 1))
        moved = _take_block(rows, postings, free, state)
        _copy_all(postings, base, moved, room // 4)
        _give_block(base, room // 4, postings, free, state)
        bundles[b, SLOTS_AT], bundles[b, ROOM] = moved, 4 * rows
        base = moved
    postings[base + (count >> 2), count & 3] = np.uint32(slot)
    members[slot, 0], members[slot, 1] = b + 1, count
    bundles[b, QUERIES] = count + 1
    state[MEMBERS] += 1


@lean_kernel
def _leave(slot: Int, postings: Postings, bundles: Slots, members: Slots, free: Slots, state: Ints) -> None:
    """Take a query out of its bundle; an empty one is closed."""
    b = np.int64(members[slot, 0]) - 1
    base, left, at = np.int64(bundles[b, SLOTS_AT]), np.int64(bundles[b, QUERIES]) - 1, np.int64(members[slot, 1])
    moved = postings[base + (left >> 2), left & 3]
    postings[base + (at >> 2), at & 3] = moved
    members[moved, 1] = at
    members[slot, 0] = members[slot, 1] = 0
    bundles[b, QUERIES] = left
    state[MEMBERS] -= 1
    if left == 0:
        _give_block(base, np.int64(bundles[b, ROOM]) // 4, postings, free, state)
        bundles[b, NEXT_FREE] = state[FREE_BUNDLE]
        state[FREE_BUNDLE] = b


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
def _deeper(slot: Int, flag: Any, kw: Slots, pool: Slots, traits: Any) -> Any:
    """Return tags and flags of a posting whose group is that of its second word: the tags are the words behind that."""
    third, fourth, more = np.int32(max(kw[slot, 2], 0)), np.int32(0), kw[slot, 2] < -1
    if more:
        third, fourth = pool[-1 - kw[slot, 2]], pool[-kw[slot, 2]]
    doubt = traits[slot] & 3 == 2 and flag & ROUND == 0
    doubt = doubt or third >= EXACT_TAGS or fourth >= EXACT_TAGS or (more and pool[-2 - kw[slot, 2]] > 2)
    tags = np.uint32(_tag_of(third)) | np.uint32(_tag_of(fourth)) << SHIFT
    return tags, (flag & ~VERIFY) | (VERIFY if doubt else np.uint32(0))


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


@lean_kernel
def _take_out(place: Int, g: Int, groups: Slots, postings: Postings) -> None:
    """Take out a posting: a list's last one takes the place, in a grid a hole is left."""
    if groups[g, SIDE] == 1:
        _copy(postings, np.int64(groups[g, BASE]) + groups[g, COUNT] - 1, place)
    else:
        postings[place, 0] = postings[place, 1] = LOW16
        postings[place, 2], postings[place, 3] = HOLE, np.uint32(0)
        groups[g, SIZE] += 1 << HOLE_SHIFT
    groups[g, COUNT] -= 1


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
