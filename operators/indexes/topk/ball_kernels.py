"""Kernels of the ball index. `operators.indexes.topk.balls` explains the idea; this is the layout.

balls       float32 columns: u, v (the place), own, rest (what the message's weights are multiplied with), start: a message
            whose word has weight `a`, and whose words with smaller ids have norm `b`, is inside if it is not farther than
            ``own * a + rest * b + start``, the second term only if the signatures have a bit in common. They are read many at
            a time, so there is room for some behind the last one
owners      int32 columns: the signature; the slot above and which of its keywords in the low 3 bits (7: look for it), or a
            negative number for a hole
words       int32 rows by word, the last three of them float32: see the constants
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

from operators.indexes.knn.lanes import LANES
from operators.indexes.topk.scored_table import ALPHA, BITS, COUNT, FIRST, INLINE, NORM, THETA
from streams.kernel import kernel, lean_kernel
from streams.prefetch import prefetch

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


@lean_kernel
def _gather(word: Int, pool: Pool, scratch: Any) -> Int:
    """Copy the balls of a word; return how many there are."""
    balls, owners, words = pool[0], pool[1], pool[2]
    taken, owned, _ = scratch
    begin, count = np.int64(words[word, BEGIN]), np.int64(0)
    for p in range(begin, begin + words[word, TAIL] + words[word, IN_TAIL]):
        if owners[OWNER, p] >= 0:
            for c in range(5):
                taken[c, count] = balls[c, p]
            owned[SIGNATURE, count], owned[OWNER, count] = owners[SIGNATURE, p], owners[OWNER, p]
            count += 1
    return count


@kernel
def _levels(count: Int, reference: Single, scratch: Any) -> Int:
    """Find out where each ball should be filed, and make do without levels that would have more cells than they are worth."""
    taken, _, codes = scratch
    crowd = np.zeros(FINEST + 1, np.int64)
    for i in range(count):
        codes[i] = _wanted(_steep(taken[OWN, i], taken[REST, i]), taken[START, i], reference)
        crowd[max(codes[i] - LISTS, 0)] += 1
    instead = np.empty(FINEST + 1, np.int64)
    mask: Int = np.int64(0)
    for level in range(FINEST, 0, -1):
        instead[level] = level
        if crowd[level] * 2 < _cells(level):
            instead[level] = level - 1
            crowd[level - 1] += crowd[level]
        elif crowd[level] > 0:
            mask |= np.int64(1) << level
    instead[0] = 0
    if crowd[0] > 0:
        mask |= 1
    for i in range(count):
        if codes[i] > LISTS:
            at = np.int64(codes[i] - LISTS)
            while instead[at] != at:
                at = instead[at]
            codes[i] = LISTS + at
            if at == 0:
                codes[i] = _list(_steep(taken[OWN, i], taken[REST, i]), taken[START, i], reference)
    return mask


@lean_kernel
def layout(
    word: Int, u: Single, v: Single, own: Single, rest: Single, start: Single, sign: Int, owner: Int, rows: Rows, pool: Pool,
    scratch: Any,
) -> bool:  # fmt: skip
    """Lay out the balls of a word anew, with one more unless `owner` is -1; return False, with nothing done, without room."""
    balls, _, words, marks, starts, _, places, more, state = pool
    taken, owned, codes = scratch
    if words[word, BALLS] + 1 > codes.shape[0]:
        state[NEED_SCRATCH] = words[word, BALLS] + 1
        return False
    count = _gather(word, pool, scratch)
    if owner >= 0:
        taken[U, count], taken[V, count], taken[OWN, count], taken[REST, count], taken[START, count] = (
            u,
            v,
            own,
            rest,
            start,
        )
        owned[SIGNATURE, count], owned[OWNER, count] = sign, owner
        count += 1
    reference = marks[word, USUAL] if words[word, SEEN] > 0 else np.float32(1.0)
    mask: Int = np.int64(0)
    size: Int = np.int64(0)
    room = count + max(count // 2, 1)
    if count > FLAT:
        mask = _levels(count, reference, scratch)
        size = 1
        for level in range(FINEST + 1):
            if (mask >> level) & 1:
                size += 1 + _cells(level)
        room = 2 * count + count // 16 + 4
    if state[STARTS_TOP] + size > starts.shape[0] or state[BALLS_TOP] + room > balls.shape[1] - LANES:
        # Both are asked for: what makes room for one of them leaves the other no more than was asked for.
        state[NEED_STARTS], state[NEED_BALLS] = size, room
        return False
    _forget(word, words, state)
    begin = state[BALLS_TOP]
    words[word, BEGIN], words[word, GRID], words[word, LEVELS] = begin, state[STARTS_TOP], mask
    words[word, BALLS], words[word, ASTRAY], words[word, WASTED] = count, 0, 0
    words[word, SEEN] = min(words[word, SEEN], FEW)
    marks[word, REFERENCE] = reference
    if mask:
        tail = _fill(word, count, size, rows, pool, scratch)
        words[word, TAIL], words[word, IN_TAIL] = tail, 0
        room = tail + count // 16 + 4
    else:
        for i in range(count):
            _write(begin + i, taken[U, i], taken[V, i], taken[OWN, i], taken[REST, i], taken[START, i],
                   np.int64(owned[SIGNATURE, i]), owned[OWNER, i], pool)  # fmt: skip
            _note(owned[OWNER, i], word, i, np.int64(TAILED), rows, places, more)
        words[word, TAIL], words[word, IN_TAIL] = 0, count
    words[word, ROOM] = room
    state[BALLS_TOP] += room
    state[STARTS_TOP] += size
    return True


@kernel
def _fill(word: Int, count: Int, size: Int, rows: Rows, pool: Pool, scratch: Any) -> Int:
    """Fill lists and cells, each with room for a quarter more; return where they end."""
    _, owners, words, _, starts, lifts, places, more, _ = pool
    taken, owned, codes = scratch
    begin, mask = np.int64(words[word, BEGIN]), np.int64(words[word, LEVELS])
    grid: Int = np.int64(words[word, GRID])
    for at in range(grid, grid + size):
        starts[at] = 0
    group, base = np.zeros(FINEST + 1, np.int64), np.zeros(FINEST + 1, np.int64)
    groups = _group(mask, FINEST + 1)
    first = grid + groups
    at = first
    for level in range(FINEST + 1):
        if (mask >> level) & 1:
            group[level], base[level] = grid + _group(mask, level), at
            at += _cells(level)
    for i in range(count):
        level = max(codes[i] - LISTS, 0)
        at = base[level] + (_cell(taken[U, i], taken[V, i], level) if level > 0 else np.int64(codes[i]))
        starts[at + 1] += 1
        lifts[group[level]] = max(lifts[group[level]], _steep(taken[OWN, i], taken[REST, i]))
    for at in range(first + 1, grid + size):
        starts[at] = starts[at - 1] + starts[at] + (starts[at] + 3) // 4
    tail = np.int64(starts[grid + size - 1])
    for p in range(begin, begin + tail):
        _hole(p, pool)
    for i in range(count):
        if i + _AHEAD < count:
            prefetch(places, np.int64(owned[OWNER, i + _AHEAD] >> 3) * INLINE)
        level = max(codes[i] - LISTS, 0)
        at = base[level] + (_cell(taken[U, i], taken[V, i], level) if level > 0 else np.int64(codes[i]))
        # The last place of a cell is never filled here. It counts: -1 less the balls that have come.
        last = begin + starts[at + 1] - 1
        place = np.int64(starts[at]) - owners[OWNER, last] - 1
        owners[OWNER, last] -= 1
        _write(begin + place, taken[U, i], taken[V, i], taken[OWN, i], taken[REST, i], taken[START, i],
               np.int64(owned[SIGNATURE, i]), owned[OWNER, i], pool)  # fmt: skip
        _note(owned[OWNER, i], word, place, np.int64(codes[i]), rows, places, more)
    return tail


@lean_kernel
def _forget(word: Int, words: Slots, state: Ints) -> None:
    """Give up the memory of a word."""
    state[BALLS_LOST] += words[word, ROOM]
    mask = np.int64(words[word, LEVELS])
    if mask:
        state[STARTS_LOST] += grid_of(word, FINEST + 1, words) - words[word, GRID] + 1
    words[word, ROOM] = words[word, TAIL] = words[word, IN_TAIL] = words[word, LEVELS] = 0


@lean_kernel
def _file(
    word: Int, u: Single, v: Single, own: Single, rest: Single, start: Single, sign: Int, owner: Int, rows: Rows, pool: Pool,
    scratch: Any,
) -> bool:  # fmt: skip
    """File a ball; return False, with nothing done, where there is no room yet."""
    words, marks, lifts = pool[2], pool[3], pool[5]
    slope, code, lowest = _steep(own, rest), np.int64(0), np.int64(0)
    if words[word, LEVELS]:
        code = _wanted(slope, start, marks[word, REFERENCE])
        lowest = _list(slope, start, marks[word, REFERENCE])
    place, filed = _free_place(word, u, v, code, lowest, pool)
    if place < 0:
        return layout(word, u, v, own, rest, start, sign, owner, rows, pool, scratch)
    if words[word, LEVELS]:
        if filed != TAILED:
            at = words[word, GRID] + _group(np.int64(words[word, LEVELS]), max(filed - LISTS, 0))
            lifts[at] = max(lifts[at], slope)
        if filed == TAILED or filed + 1 < code:
            words[word, ASTRAY] += 1
    _write(words[word, BEGIN] + place, u, v, own, rest, start, sign, owner, pool)
    _note(owner, word, place, filed, rows, pool[6], pool[7])
    words[word, BALLS] += 1
    return True


@lean_kernel
def add(
    done: Ints, slots: Slots, spots: Singles, diagonal: float, lines: Floats, idf: Floats, raw: Ints, rows: Rows, pool: Pool,
    scratch: Any,
) -> bool:  # fmt: skip
    """File subscriptions from (slot, keyword) `done` on; return whether all are filed."""
    parts, long, filing = rows
    for i in range(done[0], slots.shape[0]):
        slot = np.int64(slots[i])
        slope, start = _slope(slot, lines, diagonal)
        count, sign = np.int64(parts[slot, COUNT]), np.int64(0)
        square: Any = 0.0
        for which in range(count):
            word = _word(slot, which, parts, long)
            if which >= done[1] and not _is_filed(slot, which, filing):
                _lose(slot, which, parts, pool[6], pool[7])
            elif which >= done[1]:
                own, rest = np.float32(slope * idf[word]) * _UP, np.float32(slope * math.sqrt(square)) * _UP
                owner = np.int32((slot << 3) | (which if count <= INLINE else 7))
                if not _file(word, spots[i, 0], spots[i, 1], own, rest, start, sign, owner, rows, pool, scratch):
                    done[0], done[1] = i, which
                    return False
            square += idf[word] * idf[word]
            sign |= bit_of(raw[word])
        done[1] = 0
    return True


@lean_kernel
def _due(word: Int, words: Slots, due: Slots, state: Ints) -> None:
    """Note, once, that the balls of a word are to be laid out anew."""
    if state[DUE] < due.shape[0] and words[word, ASTRAY] >= 0:
        due[state[DUE]] = word
        state[DUE] += 1
        words[word, ASTRAY] = -(1 << 30)


@lean_kernel
def _pull(word: Int, packed: Int, pool: Pool, due: Slots) -> None:
    """Take a ball out."""
    words, state = pool[2], pool[8]
    _hole(words[word, BEGIN] + (packed >> CODE_BITS), pool)
    words[word, BALLS] -= 1
    if words[word, BALLS] == 0:
        _forget(word, words, state)
        for c in range(WORD_WIDTH):
            words[word, c] = 0
        return
    # Its place is read as before: what leaves saves no work until the word is laid out anew.
    words[word, ASTRAY] += 1
    if words[word, ROOM] > 3 * words[word, BALLS] + 8 or 4 * words[word, ASTRAY] > words[word, BALLS] + 64:
        _due(word, words, due, state)


@lean_kernel
def discard(slots: Slots, rows: Rows, pool: Pool, due: Slots) -> None:
    """Take subscriptions out; `due` has room for every word."""
    parts, long, _ = rows
    for i in range(slots.shape[0]):
        slot = np.int64(slots[i])
        for which in range(np.int64(parts[slot, COUNT])):
            packed = _place(slot, which, parts, pool[6], pool[7])
            if packed >= 0:
                _pull(_word(slot, which, parts, long), packed, pool, due)


@lean_kernel
def _fits(filed: Int, slope: Single, start: Single, reference: Single) -> bool:
    """Tell whether a ball may stay where it is filed: what reads it there is what may be inside."""
    if filed == TAILED:
        return True
    if filed < LISTS:
        return bool(_list(slope, start, reference) >= filed)
    radius = slope * reference + start
    return bool(radius <= 0 or _level(radius) >= filed - LISTS)


@lean_kernel
def _astray(filed: Int, slope: Single, start: Single, reference: Single) -> bool:
    """Tell whether a ball is read far more often than it would be elsewhere."""
    if filed == TAILED:
        return False
    wanted = _wanted(slope, start, reference)
    if (filed < LISTS) != (wanted < LISTS):
        return bool(wanted > LISTS or wanted >= LISTS // 2)
    return bool(wanted > filed + 1)


@lean_kernel
def retune(
    done: Ints, slots: Slots, spots: Singles, diagonal: float, lines: Floats, idf: Floats, raw: Ints, rows: Rows, pool: Pool,
    scratch: Any, due: Slots,
) -> bool:  # fmt: skip
    """Give balls new sizes, where they are if they may stay, from (slot, keyword) `done` on; return whether all are done.

    Those of keywords that have come to be filed are made, and those that are not to be filed any more taken out.
    """
    balls, words, marks, places, more, state = pool[0], pool[2], pool[3], pool[6], pool[7], pool[8]
    parts, long, filing = rows
    total = slots.shape[0]
    for i in range(done[0], total):
        if i + 2 * _AHEAD < total:
            prefetch(lines, np.int64(slots[i + 2 * _AHEAD]) * 8)
            prefetch(places, np.int64(slots[i + 2 * _AHEAD]) * INLINE)
        if i + _AHEAD < total and parts[slots[i + _AHEAD], COUNT] <= INLINE:
            ahead = np.int64(slots[i + _AHEAD])
            for which in range(parts[ahead, COUNT]):
                begin = np.int64(words[parts[ahead, FIRST + which], BEGIN])
                prefetch(balls, START * balls.shape[1] + begin + (places[ahead, which] >> CODE_BITS))
        slot = np.int64(slots[i])
        slope, start = _slope(slot, lines, diagonal)
        count, sign = np.int64(parts[slot, COUNT]), np.int64(0)
        square: Any = 0.0
        for which in range(count):
            word = _word(slot, which, parts, long)
            if which >= done[1] and not _is_filed(slot, which, filing):
                packed = _place(slot, which, parts, places, more)
                if packed >= 0:
                    _pull(word, packed, pool, due)
                    _lose(slot, which, parts, places, more)
            elif which >= done[1]:
                own, rest = np.float32(slope * idf[word]) * _UP, np.float32(slope * math.sqrt(square)) * _UP
                packed = _place(slot, which, parts, places, more)
                steep, reference = _steep(own, rest), marks[word, REFERENCE]
                filed = packed & ((1 << CODE_BITS) - 1)
                if packed >= 0 and _fits(filed, steep, start, reference):
                    at = words[word, BEGIN] + (packed >> CODE_BITS)
                    if _astray(filed, steep, start, reference) and not _astray(
                        filed, steep, balls[START, at], reference
                    ):
                        words[word, ASTRAY] += 1
                    balls[START, at] = start
                else:
                    if packed >= 0:
                        _hole(words[word, BEGIN] + (packed >> CODE_BITS), pool)
                        words[word, BALLS] -= 1
                        _lose(slot, which, parts, places, more)
                    owner = np.int32((slot << 3) | (which if count <= INLINE else 7))
                    if not _file(word, spots[i, 0], spots[i, 1], own, rest, start, sign, owner, rows, pool, scratch):
                        done[0], done[1] = i, which
                        return False
                if 4 * words[word, ASTRAY] > words[word, BALLS] + 64:
                    _due(word, words, due, state)
            square += idf[word] * idf[word]
            sign |= bit_of(raw[word])
        done[1] = 0
    return True


@lean_kernel
def _is_filed(slot: Int, which: Int, filing: Ints) -> bool:
    """Tell whether a keyword is to be filed (`scored_table`)."""
    return bool(filing.shape[0] == 0 or which >= BITS or (filing[slot] >> which) & 1)


@lean_kernel
def _lose(slot: Int, which: Int, parts: Slots, places: Slots, more: Slots) -> None:
    """Note that a ball is nowhere."""
    if parts[slot, COUNT] <= INLINE:
        places[slot, which] = -1
    else:
        more[places[slot, 0] + which] = -1


@lean_kernel
def refresh(done: Ints, queue: Slots, rows: Rows, pool: Pool, scratch: Any) -> bool:
    """Lay out words anew, from `done` on; return whether all are done."""
    zero = np.float32(0.0)
    for i in range(done[0], queue.shape[0]):
        word = np.int64(queue[i])
        if pool[2][word, BALLS] > 0 and not layout(
            word, zero, zero, zero, zero, zero, np.int64(0), np.int32(-1), rows, pool, scratch
        ):
            done[0] = i
            return False
    return True
