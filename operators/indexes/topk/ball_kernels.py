"""Kernels of the ball index. `operators.indexes.topk.balls` explains the idea; this is the layout.

balls       float32 columns: u, v (the place), own, rest (what the message's weights are multiplied with), start: a message
            whose word has weight `a`, and whose words with smaller ids have norm `b`, is inside if it is not farther than
            ``own * a + rest * b + start``, the second term only if the signatures have a bit in common. They are read many at
            a time, so there is room for some behind the last one
owners      int32 columns: the signature; the slot above and which of its keywords in the low 3 bits (7: look for it), or a
            negative number for a hole
words       int32 rows by word, two of the last three float32: see the constants
starts      int32, for a word with grids: the largest slope of each level (float32 bits), then for each level its cells, row by
            row, and where the last ends; counted from the word's first ball. Level 0 has `LISTS` lists instead of cells
places      int32 rows by slot: where each of its balls is, counted from the word's first, and in the low `CODE_BITS` how it is
            filed: a list, `LISTS` + level, or `TAILED`; -1 for a keyword that is not filed. A subscription with many keywords
            has its row in `more`, at its place 0
state       int64: see the constants
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from operators.indexes.topk.scored_table import ALPHA, COUNT, FIRST, INLINE, NORM, THETA
from streams.kernel import lean_kernel

Int = Any  # a machine integer, numpy's or Python's
Single = Any  # a float32
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Slots = NDArray[np.int32]
Pool = Any  # the tuple of arrays that an index is made of
Rows = Any  # the arrays of the table

#: Columns of balls and of owners.
U, V, OWN, REST, START = range(5)
SIGNATURE, OWNER = range(2)
#: Places in a row of words: balls, where they begin, room for them, where the grids begin, which levels there are (a bit each),
#: where the tail begins, how much of it is used, balls that should be elsewhere, messages seen (up to `FEW`, and then since
#: norms were last compared); then in float32 the norm that levels are for, and the norm that few messages exceed; and how often
#: balls of the tail were tested.
BALLS, BEGIN, ROOM, GRID, LEVELS, TAIL, IN_TAIL, ASTRAY, SEEN, REFERENCE, USUAL, WASTED = range(12)
WORD_WIDTH = 12
#: Places in `state`.
BALLS_TOP, BALLS_LOST, STARTS_TOP, STARTS_LOST, MORE_TOP, NEED_BALLS, NEED_STARTS, NEED_SCRATCH, DUE = range(9)
STATE_SIZE = 9

#: The finest level has 2^10 cells to a side.
FINEST = 10
LISTS = 16
CODE_BITS = 5
TAILED = 31
#: Of so many messages, the largest norm is about the one that a fifth exceed.
FEW = 4
#: A word with up to so many balls has them in a single list.
FLAT = 24
#: How many places of a cell are looked at for a hole.
_TRIES = 32
_HOLE = np.float32(-1e9)
#: Below this alpha the place hardly counts, and is left out of the bound.
LEAST_ALPHA = 1e-3
#: What bounds are widened by: sums of a few float32 of the order of 1, and coordinates in the unit square.
_SCORE_SLACK, _PLACE_SLACK = 3e-6, 5e-7
_UP = np.float32(1.000001)
_AHEAD = 6


@lean_kernel
def bit_of(raw: Int) -> Int:
    """Return the bit of a keyword in signatures: the most frequent ones have their own."""
    return np.int32(1) << np.int32(raw if raw < 8 else 8 + raw % 23)


@lean_kernel
def _word(slot: Int, which: Int, parts: Slots, long: Slots) -> Int:
    if parts[slot, COUNT] <= INLINE:
        return np.int64(parts[slot, FIRST + which])
    return np.int64(long[parts[slot, FIRST] + which])


@lean_kernel
def _slope(slot: Int, lines: Floats, diagonal: float) -> Any:
    """Return what weights are multiplied with, so that they are distances, and the distance of a cosine of 0."""
    alpha = lines[slot, ALPHA]
    by = max(alpha, LEAST_ALPHA)
    start = (alpha - lines[slot, THETA] + _SCORE_SLACK) / by * diagonal + _PLACE_SLACK
    if alpha < LEAST_ALPHA:
        start += 2.0  # more than two places of the unit square can be apart
    slope = (1.0 - alpha) / lines[slot, NORM] / by * diagonal
    return slope, np.float32(min(max(start, -1e9), 1e9))


@lean_kernel
def _level(radius: Single) -> Int:
    """Return the finest level whose cells are no smaller than a radius; 0 for none at all, and for half the space or more."""
    if radius <= 0:
        return np.int64(0)
    _, exponent = math.frexp(radius)
    return np.int64(min(max(-exponent, 0), FINEST))


@lean_kernel
def _list(slope: Single, start: Single, reference: Single) -> Int:
    """Return the list of a ball: it is empty for messages of the lists below."""
    least = -start / max(slope, np.float32(1e-9))
    least -= abs(least) * np.float32(1e-5) + np.float32(1e-6)
    scaled = least * np.float32(LISTS // 2) / reference
    return np.int64(min(max(scaled, np.float32(0.0)), np.float32(LISTS - 1)))


@lean_kernel
def _steep(own: Single, rest: Single) -> Single:
    """Return the slope over the norm of a message's words up to the shared one: a bound on both terms (Cauchy-Schwarz)."""
    return np.float32(math.sqrt(own * own + rest * rest)) * _UP


@lean_kernel
def _wanted(slope: Single, start: Single, reference: Single) -> Int:
    """Return where a ball should be filed, as a code."""
    level = _level(slope * reference + start)
    return LISTS + level if level > 0 else _list(slope, start, reference)


@lean_kernel
def _cells(level: Int) -> Int:
    return np.int64(LISTS) if level == 0 else np.int64(1) << (2 * np.int64(level))


@lean_kernel
def _group(mask: Int, level: Int) -> Int:
    """Return the place of a level among those of a word."""
    group = np.int64(0)
    for below in range(level):
        group += (mask >> below) & 1
    return group


@lean_kernel
def grid_of(word: Int, level: Int, words: Slots) -> Int:
    """Return where the cells of a level begin in `starts`."""
    mask = np.int64(words[word, LEVELS])
    at = words[word, GRID] + _group(mask, FINEST + 1)
    for below in range(level):
        if (mask >> below) & 1:
            at += _cells(below)
    return at


@lean_kernel
def _cell(u: Single, v: Single, level: Int) -> Int:
    side = np.int64(1) << np.int64(level)
    return min(np.int64(v * side), side - 1) * side + min(np.int64(u * side), side - 1)


@lean_kernel
def _note(owner: Int, word: Int, place: Int, code: Int, rows: Rows, places: Slots, more: Slots) -> None:
    """Let a subscription know where its ball is."""
    parts, long, _ = rows
    slot: Int = owner >> 3
    which: Int = owner & 7
    packed = (place << CODE_BITS) | code
    if which < 7:
        places[slot, which] = packed
        return
    which = np.int64(0)
    while _word(slot, which, parts, long) != word:
        which += 1
    more[places[slot, 0] + which] = packed


@lean_kernel
def _place(slot: Int, which: Int, parts: Slots, places: Slots, more: Slots) -> Int:
    if parts[slot, COUNT] <= INLINE:
        return np.int64(places[slot, which])
    return np.int64(more[places[slot, 0] + which])


@lean_kernel
def _write(
    at: Int, u: Single, v: Single, own: Single, rest: Single, start: Single, sign: Int, owner: Int, pool: Pool
) -> None:
    balls, owners = pool[0], pool[1]
    balls[U, at], balls[V, at], balls[OWN, at], balls[REST, at], balls[START, at] = u, v, own, rest, start
    owners[SIGNATURE, at], owners[OWNER, at] = sign, owner


@lean_kernel
def _hole(at: Int, pool: Pool) -> None:
    _write(at, np.float32(0), np.float32(0), np.float32(0), np.float32(0), _HOLE, np.int64(0), np.int32(-1), pool)


@lean_kernel
def _free_in(first: Int, stop: Int, owners: Slots) -> Int:
    """Return a hole of a cell or list, or -1.

    As long as its last place is a hole, that counts: it is -1 less the places that have been filled from the front. Later on,
    some places are looked at.
    """
    if stop <= first:
        return np.int64(-1)
    count = owners[OWNER, stop - 1]
    if count < 0:
        place = first - count - 1
        if owners[OWNER, place] < 0:
            if place < stop - 1:
                owners[OWNER, stop - 1] = count - 1
            return place
    for place in range(first, min(stop, first + _TRIES)):
        if owners[OWNER, place] < 0 and place < stop - 1:
            return place
    return np.int64(-1)


@lean_kernel
def _free_place(word: Int, u: Single, v: Single, code: Int, lowest: Int, pool: Pool) -> Any:
    """Return a place for a ball and the code of where that is, or (-1, 0): its cell, a coarser one, a list, the tail."""
    owners, words, starts = pool[1], pool[2], pool[4]
    begin = np.int64(words[word, BEGIN])
    mask = np.int64(words[word, LEVELS])
    for level in range(code - LISTS, 0, -1):
        if (mask >> level) & 1:
            at = grid_of(word, level, words) + _cell(u, v, level)
            place = _free_in(begin + starts[at], begin + starts[at + 1], owners)
            if place >= 0:
                return place - begin, np.int64(LISTS + level)
    if mask & 1:
        at = grid_of(word, np.int64(0), words)
        for list_ in range(lowest, -1, -1):
            place = _free_in(begin + starts[at + list_], begin + starts[at + list_ + 1], owners)
            if place >= 0:
                return place - begin, np.int64(list_)
    if words[word, TAIL] + words[word, IN_TAIL] < words[word, ROOM]:
        words[word, IN_TAIL] += 1
        return np.int64(words[word, TAIL] + words[word, IN_TAIL] - 1), np.int64(TAILED)
    return np.int64(-1), np.int64(0)
