"""Kernels of the grids of messages: how messages come and go. `keyword_grids` says what they are for; this is the layout.

log         float64, a power of two of them, a ring: a message is its x, y, `seq`, number of words, words, weights.
            `numbers` are the same bytes as int64, `parts` as int32: words stand two in one place. A position counts from the
            first message ever; its low 31 bits name the message, whatever the size of the ring
directory   int32 rows by word: where its cells begin, -1 for none; its level; its postings; its norm of reference, a
            float32 (`references` are the same bytes)
cells       int32 rows: start of the ring of postings, log2 of its room, -1 for none; its head; its length. A word of level 0
            has one. A word of level L has two rows for four float64 (`spans` are the same bytes): where its grid begins,
            columns and rows to the unit, in the space as the unit square; then, by class of norms, 2^L rows of 2^L cells
posts       float32 rows: two or three coordinates in units of the largest distance, then (WEIGHT, BELOW) the weight of the
            word in the message and the norm of the part of the message with smaller ids, both rounded up; then, in `marks`,
            the same bytes as int32, a signature of that part (SIGNATURE) and the position (POSITION). Oldest first in a ring
free        int64: the first free block of cells of each level, then the first free ring of each size; -1 for none
state       int64: see the constants
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from streams.kernel import kernel, lean_kernel
from streams.prefetch import prefetch

__all__ = ["add", "drop", "lay_out", "take_out", "unroll"]

Int = Any  # a machine integer, numpy's or Python's
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Slots = NDArray[np.int32]
Singles = NDArray[np.float32]

#: Places in `state`: where the log ends and begins; messages; ends of the cells and posts in use; postings; cells and posts
#: that must be made room for.
HEAD, TAIL, MESSAGES, CELLS_TOP, POSTS_TOP, POSTINGS, NEED_CELLS, NEED_POSTS = range(8)
STATE_SIZE = 8

#: Columns of the directory, of cells, and of posts behind the coordinates.
START, LEVEL, COUNT, REFERENCE = range(4)
RING, ROOM, FRONT, LENGTH = range(4)
WEIGHT, BELOW, SIGNATURE, POSITION = range(4)

#: Classes of norms; so many of them are below the norm of reference. Levels are at most MOST_LEVELS.
CLASSES, BELOW_REFERENCE, MOST_LEVELS = 8, 6, 8
#: Rows of `cells` before the cells of a grid.
SPAN_ROWS = 2
#: A word of level 0 has up to so many postings; a cell of a class has about CELL of them.
SHORT, CELL = 256, 4
#: Sizes of rings in `free` begin behind the levels.
RINGS = MOST_LEVELS + 1
FREE_SIZE = RINGS + 32

#: Places in `frame`, which is what kernels know of the space, behind its corner and the units to its width and height: the
#: largest distance; units of the unit square to it, across and up; slack of bounds; the radius of the globe where
#: distances are on it, else 0.
FAR, ACROSS, UPWARD, SLACK, GLOBE = range(4, 9)
FRAME_SIZE = 9

#: Bounds are computed in float32: what is rounded up stays a bound.
UP = np.float32(1.000001)
_TINY = np.float32(1e-7)
#: Positions are kept in so many bits.
NAMES = 0x7FFFFFFF
HEADER = 4
_TOGETHER = 16


@lean_kernel
def unit_place(x: Any, y: Any, frame: Floats) -> Any:
    """Return a place in the space as the unit square; `frame` has the corner of the space, and units to its length."""
    return (x - frame[0]) * frame[2], (y - frame[1]) * frame[3]


@lean_kernel
def bit_of(word: Int) -> Int:
    """Return the bit of a word in a signature; the words met first, which are common ones, have bits of their own."""
    return np.int32(1) << np.int32(word if word < 9 else 9 + word % 23)


@lean_kernel
def cells_of(level: Int) -> Int:
    """Return how many rows of `cells` a word of a level has."""
    return np.int64(1) if level == 0 else SPAN_ROWS + (np.int64(CLASSES) << (2 * level))


@lean_kernel
def too_many(level: Int) -> Int:
    """Return the number of postings above which a level is too coarse."""
    return np.int64(SHORT) if level == 0 else np.int64(3 * CLASSES * CELL) << (2 * level)


@lean_kernel
def too_few(level: Int) -> Int:
    """Return the number of postings below which a level is too fine."""
    return np.int64(0) if level == 0 else np.int64(CLASSES * CELL // 4) << (2 * level)


@lean_kernel
def _cell(start: Int, level: Int, weight: Any, below: Any, reference: Any, u: Any, v: Any, spans: Floats) -> Int:
    """Return the cell of a posting: by the norm of its part up to the word, then by place; what is outside is at the border."""
    if level == 0:
        return start
    side = np.int64(1) << level
    norm = np.sqrt(weight * weight + below * below)
    kind = np.int64(min(np.float32(CLASSES - 1), np.float32(BELOW_REFERENCE) * norm / reference))
    column = np.int64(min(np.float64(side - 1), max(0.0, (u - spans[start, 0]) * spans[start + 1, 0])))
    row = np.int64(min(np.float64(side - 1), max(0.0, (v - spans[start, 1]) * spans[start + 1, 1])))
    return start + SPAN_ROWS + (((kind << level) + row) << level) + column


@lean_kernel
def _take_cells(level: Int, cells: Slots, free: Ints, state: Ints) -> Int:
    """Return empty cells for a word of a level; there is room for them."""
    count, start = cells_of(level), free[level]
    if start >= 0:
        free[level] = cells[start, RING]
    else:
        start = state[CELLS_TOP]
        state[CELLS_TOP] += count
    for c in range(start, start + count):
        cells[c, ROOM] = -1
        cells[c, LENGTH] = 0
    return start


@lean_kernel
def _give_cells(start: Int, level: Int, cells: Slots, free: Ints) -> None:
    cells[start, RING] = free[level]
    free[level] = start


@lean_kernel
def _enlarge(cell: Int, dims: Int, cells: Slots, marks: Slots, free: Ints, state: Ints) -> None:
    """Give a cell a ring, or one of twice the size; there is room for it."""
    length, room = np.int64(cells[cell, LENGTH]), np.int64(cells[cell, ROOM])
    larger: Int = max(np.int64(1), room + 1)
    ring = free[RINGS + larger]
    if ring >= 0:
        free[RINGS + larger] = marks[ring, dims + POSITION]
    else:
        ring = state[POSTS_TOP]
        state[POSTS_TOP] += 1 << larger
    if room >= 0:
        old, front = np.int64(cells[cell, RING]), np.int64(cells[cell, FRONT])
        for i in range(length):
            source = old + ((front + i) & ((1 << room) - 1))
            for c in range(dims + 4):
                marks[ring + i, c] = marks[source, c]
        marks[old, dims + POSITION] = free[RINGS + room]
        free[RINGS + room] = old
    cells[cell, RING], cells[cell, ROOM], cells[cell, FRONT] = ring, larger, 0


@lean_kernel
def _behind(cell: Int, dims: Int, cells: Slots, marks: Slots, free: Ints, state: Ints) -> Int:
    """Return where a cell's next posting goes, and count it."""
    length, room = np.int64(cells[cell, LENGTH]), np.int64(cells[cell, ROOM])
    if room < 0 or length == 1 << room:
        _enlarge(cell, dims, cells, marks, free, state)
        room = np.int64(cells[cell, ROOM])
    cells[cell, LENGTH] = length + 1
    return np.int64(cells[cell, RING]) + ((np.int64(cells[cell, FRONT]) + length) & ((1 << room) - 1))


@lean_kernel
def _pop(cell: Int, dims: Int, cells: Slots, marks: Slots, free: Ints) -> None:
    """Take the oldest posting out of a ring; an empty ring is given back."""
    room = np.int64(cells[cell, ROOM])
    cells[cell, FRONT] = (np.int64(cells[cell, FRONT]) + 1) & ((1 << room) - 1)
    cells[cell, LENGTH] -= 1
    if cells[cell, LENGTH] == 0:
        marks[cells[cell, RING], dims + POSITION] = free[RINGS + room]
        free[RINGS + room] = cells[cell, RING]
        cells[cell, ROOM] = -1


@lean_kernel
def _part(squares: Any, weight: Any) -> Any:
    """Return the weight of a word and the norm of what is below it, rounded up."""
    return np.float32(weight) * UP, np.float32(np.sqrt(squares)) * UP + _TINY


@kernel
def _add(
    begin: Int, x: Floats, y: Floats, seq: Ints, off: Slots, words: Slots, weights: Floats, at: Singles,
    frame: Floats, log: Floats, numbers: Ints, parts: Slots, directory: Slots, references: Singles, cells: Slots,
    spans: Floats, posts: Singles, marks: Slots, free: Ints, state: Ints, outgrown: Slots, crossed: Ints,
) -> Int:  # fmt: skip
    """Add messages from `begin` on; return where to go on when there is room for more, or the end.

    `at` are their coordinates for posts. A few messages go through the stages together: what one asks for has come when
    the next one reads it. Words whose grid has become too coarse are in `outgrown`, `crossed` of them.
    """
    count, dims, mask = x.shape[0], at.shape[1], log.shape[0] - 1
    most = np.int64(1)
    for i in range(count):
        most = max(most, _TOGETHER * np.int64(off[i + 1] - off[i]))
    cell_of, weight_of = np.empty(most, np.int64), np.empty(most, np.float32)
    below_of, signature_of = np.empty(most, np.float32), np.empty(most, np.int32)
    base = begin
    while base < count:
        stop, first = min(base + _TOGETHER, count), np.int64(off[base])
        total = np.int64(off[stop]) - first
        if state[CELLS_TOP] + total > cells.shape[0]:
            state[NEED_CELLS] = total
            return base
        for w in range(first, first + total):
            prefetch(directory, 4 * np.int64(words[w]))
        for i in range(base, stop):
            squares, signature = 0.0, np.int32(0)
            u, v = unit_place(x[i], y[i], frame)
            for w in range(off[i], off[i + 1]):
                word = np.int64(words[w])
                if directory[word, START] < 0:
                    directory[word, START], directory[word, LEVEL] = _take_cells(0, cells, free, state), 0
                    directory[word, COUNT] = 0
                weight, below = _part(squares, weights[w])
                level = np.int64(directory[word, LEVEL])
                cell = _cell(
                    np.int64(directory[word, START]), level, weight, below, references[word, REFERENCE], u, v, spans
                )
                prefetch(cells, 4 * cell)
                cell_of[w - first], weight_of[w - first], below_of[w - first] = cell, weight, below
                signature_of[w - first] = signature
                squares += weights[w] * weights[w]
                signature |= bit_of(word)
        need = np.int64(0)
        for w in range(total):
            room = np.int64(cells[cell_of[w], ROOM])
            if room >= 0:
                behind = np.int64(cells[cell_of[w], FRONT]) + cells[cell_of[w], LENGTH]
                prefetch(posts, (dims + 4) * (cells[cell_of[w], RING] + (behind & ((1 << room) - 1))))
            need += 4 if room < 0 else np.int64(4) << room
        if state[POSTS_TOP] + need + 8 * total > posts.shape[0]:
            state[NEED_POSTS] = need + 8 * total
            return base
        for i in range(base, stop):
            head, length = state[HEAD], np.int64(off[i + 1] - off[i])
            log[head & mask], log[(head + 1) & mask] = x[i], y[i]
            numbers[(head + 2) & mask], numbers[(head + 3) & mask] = seq[i], off[i + 1] - off[i]
            half = (length + 1) >> 1
            for j in range(length):
                w = off[i] + j
                word = np.int64(words[w])
                parts[(2 * (head + HEADER) + j) & (2 * mask + 1)] = word
                log[(head + HEADER + half + j) & mask] = weights[w]
                place = _behind(cell_of[w - first], dims, cells, marks, free, state)
                for c in range(dims):
                    posts[place, c] = at[i, c]
                posts[place, dims + WEIGHT], posts[place, dims + BELOW] = weight_of[w - first], below_of[w - first]
                marks[place, dims + SIGNATURE], marks[place, dims + POSITION] = signature_of[w - first], head & NAMES
                directory[word, COUNT] += 1
                if directory[word, COUNT] == too_many(directory[word, LEVEL]) + 1:
                    outgrown[crossed[0]] = word
                    crossed[0] += 1
            state[HEAD] = head + HEADER + half + length
            state[MESSAGES] += 1
            state[POSTINGS] += length
        base = stop
    return np.int64(count)


@kernel
def _drop(
    first: Int, dims: Int, frame: Floats, log: Floats, numbers: Ints, parts: Slots, directory: Slots,
    references: Singles, cells: Slots, spans: Floats, posts: Singles, marks: Slots, free: Ints, state: Ints,
    outgrown: Slots, crossed: Ints, released: Slots,
) -> Int:  # fmt: skip
    """Forget messages with ``seq < first``, as many as their words fit into `released`; return how many words are there.

    Words whose grid has become too fine are in `outgrown`, `crossed` of them.
    """
    mask, done = log.shape[0] - 1, np.int64(0)
    cell_of = np.empty(released.shape[0], np.int64)
    more = True
    while more:
        position, end, last = state[TAIL], state[TAIL], done
        for _ in range(_TOGETHER):
            more = end < state[HEAD] and numbers[(end + 2) & mask] < first
            if not more:
                break
            length = numbers[(end + 3) & mask]
            if last + length > released.shape[0]:
                more = False
                break
            for j in range(length):
                word = parts[(2 * (end + HEADER) + j) & (2 * mask + 1)]
                released[last + j] = word
                prefetch(directory, 4 * np.int64(word))
            last += length
            end += HEADER + ((length + 1) >> 1) + length
        w = done
        while position < end:
            length, squares = numbers[(position + 3) & mask], 0.0
            u, v = unit_place(log[position & mask], log[(position + 1) & mask], frame)
            weights = position + HEADER + ((length + 1) >> 1)
            for j in range(length):
                word = np.int64(released[w])
                weight, below = _part(squares, log[(weights + j) & mask])
                level = np.int64(directory[word, LEVEL])
                cell = _cell(
                    np.int64(directory[word, START]), level, weight, below, references[word, REFERENCE], u, v, spans
                )
                prefetch(cells, 4 * cell)
                cell_of[w] = cell
                squares += log[(weights + j) & mask] * log[(weights + j) & mask]
                w += 1
            position = weights + length
            state[MESSAGES] -= 1
        for r in range(done, last):
            word = np.int64(released[r])
            _pop(cell_of[r], dims, cells, marks, free)
            directory[word, COUNT] -= 1
            level = np.int64(directory[word, LEVEL])
            if directory[word, COUNT] == 0:
                _give_cells(np.int64(directory[word, START]), level, cells, free)
                directory[word, START] = -1
            elif directory[word, COUNT] == too_few(level) - 1:
                outgrown[crossed[0]] = word
                crossed[0] += 1
        state[POSTINGS] -= last - done
        state[TAIL] = end
        done = last
    return done


@lean_kernel
def take_out(
    word: Int, dims: Int, directory: Slots, cells: Slots, marks: Slots, free: Ints, state: Ints, taken: Slots
) -> None:
    """Copy the postings of a word, and give back its rings and cells."""
    start, level = np.int64(directory[word, START]), np.int64(directory[word, LEVEL])
    count = np.int64(0)
    for cell in range(start + (SPAN_ROWS if level > 0 else 0), start + cells_of(level)):
        room = np.int64(cells[cell, ROOM])
        if room < 0:
            continue
        ring, front = np.int64(cells[cell, RING]), np.int64(cells[cell, FRONT])
        for i in range(cells[cell, LENGTH]):
            for c in range(dims + 4):
                taken[count, c] = marks[ring + ((front + i) & ((1 << room) - 1)), c]
            count += 1
        marks[ring, dims + POSITION] = free[RINGS + room]
        free[RINGS + room] = ring
    _give_cells(start, level, cells, free)


@lean_kernel
def _lay_out(
    word: Int, level: Int, reference: Any, span: Floats, taken: Singles, places: Slots, dims: Int, frame: Floats,
    log: Floats, directory: Slots, references: Singles, cells: Slots, spans: Floats, posts: Singles, marks: Slots,
    free: Ints, state: Ints,
) -> bool:  # fmt: skip
    """File postings, oldest first, in new cells of a level; return whether there was room for them.

    `places` are the same postings as int32.
    """
    mask, count = log.shape[0] - 1, taken.shape[0]
    if state[CELLS_TOP] + cells_of(level) > cells.shape[0] or state[POSTS_TOP] + 8 * count > posts.shape[0]:
        state[NEED_CELLS], state[NEED_POSTS] = cells_of(level), 8 * count
        return False
    start = _take_cells(level, cells, free, state)
    directory[word, START], directory[word, LEVEL] = start, level
    references[word, REFERENCE] = reference
    if level > 0:
        spans[start, 0], spans[start, 1] = span[0], span[1]
        spans[start + 1, 0], spans[start + 1, 1] = span[2], span[3]
    for i in range(count):
        position = np.int64(places[i, dims + POSITION])
        u, v = unit_place(log[position & mask], log[(position + 1) & mask], frame)
        weight, below = taken[i, dims + WEIGHT], taken[i, dims + BELOW]
        cell = _cell(start, level, weight, below, reference, u, v, spans)
        place = _behind(cell, dims, cells, marks, free, state)
        for c in range(dims + 4):
            marks[place, c] = places[i, c]
    return True


@lean_kernel
def _unroll(
    log: Floats, numbers: Ints, parts: Slots, state: Ints, x: Floats, y: Floats, seq: Ints, off: Slots, words: Slots,
    weights: Floats,
) -> None:  # fmt: skip
    """Copy the messages of the log into columns."""
    mask, position, count = log.shape[0] - 1, state[TAIL], np.int64(0)
    for i in range(x.shape[0]):
        length = numbers[(position + 3) & mask]
        x[i], y[i], seq[i] = log[position & mask], log[(position + 1) & mask], numbers[(position + 2) & mask]
        off[i] = count
        behind = position + HEADER + ((length + 1) >> 1)
        for j in range(length):
            words[count] = parts[(2 * (position + HEADER) + j) & (2 * mask + 1)]
            weights[count] = log[(behind + j) & mask]
            count += 1
        position = behind + length
    off[x.shape[0]] = count


#: Their arguments come as tuples of arrays, which a type checker cannot count.
add: Any = _add
drop: Any = _drop
lay_out: Any = _lay_out
unroll: Any = _unroll
