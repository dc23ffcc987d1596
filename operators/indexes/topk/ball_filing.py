"""Kernels that file balls, take them out and file them anew for other thresholds; `ball_kernels` has the arrays."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from operators.indexes.topk.ball_kernels import (
    _AHEAD,
    _UP,
    ASTRAY,
    BALLS,
    BEGIN,
    CODE_BITS,
    DUE,
    GRID,
    LEVELS,
    LISTS,
    REFERENCE,
    ROOM,
    START,
    TAILED,
    WORD_WIDTH,
    _free_place,
    _group,
    _hole,
    _level,
    _list,
    _note,
    _place,
    _slope,
    _steep,
    _wanted,
    _word,
    _write,
    bit_of,
)
from operators.indexes.topk.ball_layout import _forget, layout
from operators.indexes.topk.scored_table import BITS, COUNT, FIRST, INLINE
from streams.kernel import lean_kernel
from streams.prefetch import prefetch

Int = Any  # a machine integer, numpy's or Python's
Single = Any  # a float32
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Slots = NDArray[np.int32]
Pool = Any  # the tuple of arrays that an index is made of
Rows = Any  # the arrays of the table


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
