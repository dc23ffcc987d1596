"""Segments: the postings of consecutive objects, in a grid of its own for every word.

A segment never changes. Its arrays, by address in a row of the segment table (fields `FIRST` .. `ENTRY_LENGTH`):

    records    int32 x 4 a posting: x, y (float32, from the corner of the space), rank of the object from the segment's first,
               signature (one of 32 bits for each word of the object); by word, then cell, row by row
    starts     int32: the first posting of each cell, cells of all words in their order, and the end
    directory  int64 x 2 for 64 words: which of them the segment has, and how many it has before these
    entries    int64 a word that the segment has: its first cell << 4 | level; a grid of level L has 2^L x 2^L cells

Cells are cut from a frame (corner and steps to the unit) that holds nearly all objects of the segment; what is outside
belongs to the cells at the border. A cell is found from the float32 of a place alone, by steps that keep order: so an
object in a cell strictly between those of two bounds is strictly between the bounds, and needs no test.

Merging goes word by word, and can stop after any posting and go on later; the segments that are merged stay in use.
"""

from typing import Any

import numpy as np

from operators.indexes.objects.raw_arrays import ints_at, longs_at, singles_at
from streams.kernel import kernel, lean_kernel

__all__ = [
    "CELLS",
    "FIELDS",
    "FINEST",
    "KNOWN",
    "MOST_CELLS",
    "STATE_SIZE",
    "WORD",
    "build",
    "entry_of",
    "fine",
    "grid_of",
    "level_of",
    "merge",
    "signature_bit",
]

#: Fields of a row of the segment table.
FIRST, STOP, RECORDS, RECORD_LENGTH, STARTS, START_LENGTH, DIRECTORY, DIRECTORY_LENGTH, ENTRIES, ENTRY_LENGTH = range(
    10
)
FIELDS = 10

#: Fields of the state of a merge.
WORD, CELLS, POSTINGS, KNOWN, PHASE, PART, PLACE = range(7)
STATE_SIZE = 7

#: The level of the finest grid; places are cut into 2^FINEST steps to a side.
FINEST = 12
#: Postings of a cell, before levels are rounded up; a level more has four times as many cells, so there are no more than
#: `MOST_CELLS` for each posting.
A_CELL, MOST_CELLS = 2, 2
#: To look a word up, and to write its grid, takes about as long as so many postings; and half of one for each part.
A_WORD = 4


@lean_kernel
def fine(value: Any, low: Any, steps: Any) -> Any:
    """Return the step of a place on one axis; what is outside of the frame is on its border."""
    step = (value - low) * steps
    if not step > 0.0:
        return np.int64(0)
    if step >= 4095.0:
        return np.int64(4095)
    return np.int64(step)


@lean_kernel
def level_of(postings: Any) -> Any:
    """Return the level of the grid for so many postings."""
    level = 0
    while (A_CELL << (2 * level)) < postings and level < FINEST - 1:
        level += 1
    return level


@lean_kernel
def signature_bit(word: Any) -> Any:
    """Return the bit of a word in signatures."""
    return np.int32(1) << np.int32((np.int64(word) * np.int64(2654435761) >> np.int64(27)) & np.int64(31))


@lean_kernel
def entry_of(directory: Any, word: Any) -> Any:
    """Return the place of a word among the entries, -1 where the segment does not have it."""
    row = word >> 6
    if 2 * row >= directory.shape[0]:
        return np.int64(-1)
    bit = np.uint64(word & 63)
    bits = np.uint64(directory[2 * row])
    if (bits >> bit) & np.uint64(1) == np.uint64(0):
        return np.int64(-1)
    below = bits & ((np.uint64(1) << bit) - np.uint64(1))
    below = below - ((below >> np.uint64(1)) & np.uint64(0x5555555555555555))
    below = (below & np.uint64(0x3333333333333333)) + ((below >> np.uint64(2)) & np.uint64(0x3333333333333333))
    below = (below + (below >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    count = (below * np.uint64(0x0101010101010101)) >> np.uint64(56)
    return directory[2 * row + 1] + np.int64(count)


@lean_kernel
def grid_of(directory: Any, entries: Any, word: Any) -> Any:
    """Return a word's first cell << 4 | level, -1 where the segment does not have it."""
    entry = entry_of(directory, word)
    return entries[entry] if entry >= 0 else np.int64(-1)


@lean_kernel
def _enter(word: Any, entry: Any, count: Any, directory: Any, entries: Any) -> Any:
    """Write down the grid of a word; words come in ascending order. Return how many there are."""
    row = word >> 6
    if directory[2 * row] == 0:
        directory[2 * row + 1] = count
    directory[2 * row] |= np.int64(1) << (word & 63)
    entries[count] = entry
    return count + 1


@kernel
def build(
    x: Any, y: Any, off: Any, words: Any, corner: Any, frame: Any, counted: Any, place: Any, records: Any, singles: Any,
    starts: Any, directory: Any, entries: Any,
) -> Any:  # fmt: skip
    """Make a segment of objects; return how many cells and words it has.

    `counted` is 0 for every word, before and after; `singles` are the `records` as float32.
    """
    one = np.int32(1)
    for p in range(words.shape[0]):
        counted[words[p]] += one
    cells = 0
    known = 0
    for word in range(counted.shape[0]):
        if counted[word] > 0:
            level = level_of(counted[word])
            place[word] = (cells << 4) | level
            known = _enter(word, (cells << 4) | level, known, directory, entries)
            cells += 1 << (2 * level)
            counted[word] = 0
    starts[: cells + 2] = 0
    for writing in range(2):
        for row in range(x.shape[0]):
            at_x, at_y = np.float32(x[row] - corner[0]), np.float32(y[row] - corner[1])
            step_x = fine(np.float64(at_x), frame[0], frame[2])
            step_y = fine(np.float64(at_y), frame[1], frame[3])
            signature = np.int32(0)
            if writing:
                for p in range(off[row], off[row + 1]):
                    signature |= signature_bit(words[p])
            for p in range(off[row], off[row + 1]):
                level = place[words[p]] & 15
                cell = (place[words[p]] >> 4) + ((step_y >> (FINEST - level)) << level) + (step_x >> (FINEST - level))
                if writing:
                    to = starts[cell + 1]
                    starts[cell + 1] = to + one
                    singles[to, 0] = at_x
                    singles[to, 1] = at_y
                    records[to, 2] = row
                    records[to, 3] = signature
                else:
                    starts[cell + 2] += one
        if not writing:
            for cell in range(2, cells + 2):
                starts[cell] += starts[cell - 1]
    return cells, known


@lean_kernel
def _copy(records: Any, to: Any, source: Any, p: Any, ahead: Any) -> None:
    records[to, 0] = source[4 * p]
    records[to, 1] = source[4 * p + 1]
    records[to, 2] = source[4 * p + 2] + ahead
    records[to, 3] = source[4 * p + 3]


@lean_kernel
def _place_cells(
    segments: Any, begin: Any, end: Any, level: Any, frame: Any, records: Any, starts: Any, state: Any, budget: Any
) -> Any:  # fmt: skip
    """Write the postings of one word, which are [begin, end) in each segment, by their cells; return how many were read.

    All are read twice, to count and to write. The phase is 0 again when the word is done; else the budget was used up before.
    """
    one = np.int32(1)
    cells, side = state[CELLS], np.int64(1) << level
    read = 0
    if state[PHASE] == 0:
        for cell in range(cells, cells + side * side + 1):
            starts[cell] = 0
        state[PHASE], state[PART], state[PLACE] = 1, 0, 0
    while True:
        writing = state[PHASE] == 2
        while state[PART] < segments.shape[0]:
            j = state[PART]
            ahead = np.int32(segments[j, FIRST] - segments[0, FIRST])
            source = ints_at(segments[j, RECORDS], 4 * segments[j, RECORD_LENGTH])
            places = singles_at(segments[j, RECORDS], 4 * segments[j, RECORD_LENGTH])
            first = begin[j] + state[PLACE]
            last = min(end[j], first + max(budget - read, 0))
            for p in range(first, last):
                column = fine(np.float64(places[4 * p]), frame[0], frame[2]) >> (FINEST - level)
                row = fine(np.float64(places[4 * p + 1]), frame[1], frame[3]) >> (FINEST - level)
                cell = cells + (row << level) + column
                if writing:
                    _copy(records, starts[cell], source, p, ahead)
                starts[cell] += one
            read += last - first
            state[PLACE] += last - first
            if last < end[j]:
                return read
            state[PART] += 1
            state[PLACE] = 0
        if writing:
            break
        total = np.int32(state[POSTINGS])
        for cell in range(cells, cells + side * side):
            count = starts[cell]
            starts[cell] = total
            total += count
        state[PHASE], state[PART] = 2, 0
    for cell in range(cells + side * side - 1, cells, -1):
        starts[cell] = starts[cell - 1]
    starts[cells] = state[POSTINGS]
    state[PHASE] = 0
    return read


@lean_kernel
def _place_few(segments: Any, begin: Any, end: Any, records: Any, starts: Any, state: Any) -> None:
    """Write the postings of a word that has one cell, as most words do."""
    to = state[POSTINGS]
    starts[state[CELLS]] = to
    for j in range(segments.shape[0]):
        if begin[j] < end[j]:
            ahead = np.int32(segments[j, FIRST] - segments[0, FIRST])
            source = ints_at(segments[j, RECORDS], 4 * segments[j, RECORD_LENGTH])
            for p in range(begin[j], end[j]):
                _copy(records, to, source, p, ahead)
                to += 1


@kernel
def merge(
    segments: Any, frame: Any, state: Any, words: Any, budget: Any, records: Any, starts: Any, directory: Any, entries: Any
) -> Any:  # fmt: skip
    """Go on with a merge, until so many postings are read, or all words are merged; return how many were.

    To look a word up in all parts counts as some postings: most words are rare, and a step should not take long.

    `state` is how far it has come: next word, cells, postings and words written, and what of the next word is done.
    """
    parts = segments.shape[0]
    begin, end = np.empty(parts, np.int64), np.empty(parts, np.int64)
    read = 0
    while state[WORD] < words and read < budget:
        word = state[WORD]
        count = 0
        for j in range(parts):
            begin[j] = end[j] = 0
            index = longs_at(segments[j, DIRECTORY], segments[j, DIRECTORY_LENGTH])
            grid = grid_of(index, longs_at(segments[j, ENTRIES], segments[j, ENTRY_LENGTH]), word)
            if grid >= 0:
                cells = ints_at(segments[j, STARTS], segments[j, START_LENGTH])
                begin[j] = cells[grid >> 4]
                end[j] = cells[(grid >> 4) + (np.int64(1) << (2 * (grid & 15)))]
                count += end[j] - begin[j]
        read += A_WORD + parts // 2
        if count > 0:
            level = level_of(count)
            if level == 0 and state[PHASE] == 0:
                _place_few(segments, begin, end, records, starts, state)
                read += count
            else:
                read += _place_cells(segments, begin, end, level, frame, records, starts, state, max(budget - read, 1))
            if state[PHASE] != 0:
                break
            state[KNOWN] = _enter(word, (state[CELLS] << 4) | level, state[KNOWN], directory, entries)
            state[CELLS] += np.int64(1) << (2 * level)
            state[POSTINGS] += count
            starts[state[CELLS]] = state[POSTINGS]
        state[WORD] += 1
    return read
