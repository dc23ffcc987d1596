"""The match kernel of KAG; `kag_kernels` has the layout.

Work goes in stages over a few objects at a time: every stage asks for the memory that the next one reads, so the cache
misses of many words overlap instead of following each other.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from operators.indexes.core.prefetch import prefetch
from operators.indexes.range.kag_kernels import (
    BASE,
    COUNT,
    EXACT_TAGS,
    HALF_X,
    HALF_Y,
    MOST_ROWS,
    NEXT,
    RUNS,
    SIDE,
    TOGETHER,
)
from streams.kernel import kernel

Int = Any  # a machine integer, numpy's or Python's
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Slots = NDArray[np.int32]
Packed = NDArray[np.uint64]

# A posting as two 64-bit numbers: (x low, width, y low, height) of 16 bits each, and (slot, VERIFY, tag, tag). Both axes
# are tested at once in the two 32-bit halves; the top bit of each half is set beforehand, so no half borrows from the other.
_LANES = np.uint64(0x0000FFFF_0000FFFF)
_TOPS = np.uint64(0x80000000_80000000)
_BELOW = np.uint64(0x7FFFFFFF_7FFFFFFF)
_ONES = np.uint64(0x00000001_00000001)
_NONE = np.uint64(0)
_VERIFY = np.uint64(1 << 31)
_SLOT = np.uint64((1 << 31) - 1)
_HOLE = (1 << 31) - 1
_LOW16 = np.uint64(0xFFFF)
_SHIFT = np.uint64(16)
_TAG, _TAG2 = np.uint64(32), np.uint64(48)

#: One match in so many candidates, or fewer, is rare enough for the processor to guess right most of the time.
RARE = 8
#: Postings are asked for so many runs before they are read: long enough for memory, short enough to stay in the cache.
RUNS_AHEAD = 10
#: Cache lines of a run, of four postings each, that are asked for; the processor follows a longer run by itself.
LINES_AHEAD = 8


@kernel
def _fits(
    slot: Int, word: Int, x: float, y: float, tick: Int, stamp: Slots, shape: Floats, traits: Any, kw: Slots,
    pool: Slots, haversine: bool,
) -> Any:  # fmt: skip
    """Verify a candidate exactly; one that any keyword finds counts under the first of its words that is present."""
    kind = traits[slot] & 3
    if kind & 1:  # a rectangle, or the box around a polygon
        if not (x >= shape[slot, 0] and x <= shape[slot, 2] and y >= shape[slot, 1] and y <= shape[slot, 3]):
            return False
    elif kind == 2 and not haversine:
        dx, dy = x - shape[slot, 0], y - shape[slot, 1]
        if not dx * dx + dy * dy <= shape[slot, 2] * shape[slot, 2]:
            return False
    either = traits[slot] & 4 != 0
    more = kw[slot, 2] < -1
    count = 2 + pool[-2 - kw[slot, 2]] if more else 3
    for j in range(count):
        own = pool[-2 - kw[slot, 2] + j - 1] if more and j >= 2 else kw[slot, j]
        if own < 0:
            break
        present = stamp[own] == tick
        if either and present:
            return own == word
        if not either and not present:
            return False
    return not either


@kernel
def _settle(
    runs: Int, x: Slots, y: Slots, exact_x: Floats, exact_y: Floats, word_off: Ints, words: Slots, tick: Int,
    cells: Slots, packed: Packed, shape: Floats, traits: Any, kw: Slots, pool: Slots, haversine: bool,
    stamp: Slots, tag_stamp: Slots, run_first: Ints, run_last: Ints, run_object: Slots, run_word: Slots, out: Slots,
    found: Int, ends: Ints, examined: Ints, guessing: bool,
) -> Int:  # fmt: skip
    """Read the runs and verify their postings; return the new number of matches, or -1 where `out` is full."""
    kept: Any = np.int64(0)
    for z in range(runs):
        if run_last[z] < 0:
            first, last = run_first[z], run_first[z] - run_last[z]
        else:
            first, last = np.int64(cells[run_first[z]]), np.int64(cells[run_last[z]])
        # No branch: whether a row has postings here is a coin toss.
        if kept < RUNS_AHEAD:
            prefetch(packed, 2 * first)
        run_first[kept], run_last[kept] = first, last
        run_object[kept], run_word[kept] = run_object[z], run_word[z]
        kept += np.int64(last > first)
    current = -1
    now = np.int32(0)
    target = _TOPS
    for z in range(kept):
        i = run_object[z]
        first, last = run_first[z], run_last[z]
        if z + RUNS_AHEAD < kept:
            later = run_first[z + RUNS_AHEAD]
            for line in range(later, min(run_last[z + RUNS_AHEAD], later + LINES_AHEAD * 4), 4):
                prefetch(packed, 2 * line)
        if found + last - first > out.shape[0]:
            return -1
        if i != current:
            current = i
            now = np.int32(tick + i)
            target = np.uint64(x[i]) | np.uint64(y[i]) << _TAG | _TOPS
            tag_stamp[0] = now
            stamp[0] = now
            for j in range(word_off[i], word_off[i + 1]):
                word = words[j]
                stamp[word] = now
                tag_stamp[word if word < EXACT_TAGS else EXACT_TAGS | (word & (EXACT_TAGS - 1))] = now
        examined[i] += last - first
        for p in range(np.uint64(first), np.uint64(last)):
            edges = packed[p, 0]
            after = target - (edges & _LANES)
            before = ((edges >> _SHIFT & _LANES) | _TOPS) - (after & _BELOW)
            inside = after & before & _TOPS == _TOPS
            # Where matches are rare most candidates are guessed right to be outside. Where they are common a match is a
            # coin toss, and a wrong guess costs more than the whole test: no branch then.
            if guessing and not inside:
                continue
            rest = packed[p, 1]
            hit = inside & (tag_stamp[rest >> _TAG & _LOW16] == now) & (tag_stamp[rest >> _TAG2] == now)
            certain = ((after - _ONES) & (before - _ONES) & _TOPS == _TOPS) & (rest & _VERIFY == _NONE)
            slot = np.int64(rest & _SLOT)
            out[found] = slot
            if hit & (not certain):
                hit = slot != _HOLE and _fits(
                    slot, run_word[z], exact_x[i], exact_y[i], now, stamp, shape, traits, kw, pool, haversine
                )
            found += np.int64(hit)
        ends[i] = found
    return found


@kernel
def probe(
    start: Int, x: Slots, y: Slots, exact_x: Floats, exact_y: Floats, word_off: Ints, words: Slots, tick: Int,
    directory: Slots, groups: Slots, cells: Slots, packed: Packed, shape: Floats, traits: Any, kw: Slots,
    pool: Slots, haversine: bool, stamp: Slots, tag_stamp: Slots, run_first: Ints, run_last: Ints, run_object: Slots,
    run_word: Slots, out: Slots, off: Ints, examined: Ints,
) -> Int:  # fmt: skip
    """Match objects from `start` on; return how many are done: all, or as many as `out` has room for.

    ``off[i + 1]`` becomes the end of object i's matches in `out`; object i is stamped as ``tick + i``. A run is noted as
    (place, -length) if it is a list, and as two places in `cells` if it is part of a row.
    """
    ends = off[1:]
    candidates, guessing = np.int64(0), True
    for first in range(start, x.shape[0], TOGETHER):
        last = min(first + TOGETHER, x.shape[0])
        for j in range(word_off[first], word_off[last]):
            prefetch(directory, words[j])
        for j in range(word_off[first], word_off[last]):
            if directory[words[j]] >= 0:
                prefetch(groups, 8 * np.int64(directory[words[j]]))
        found, runs = off[first], 0
        for i in range(first, last):
            examined[i] = 0
            ends[i] = -1
            at_x: Any = np.int64(x[i])
            at_y: Any = np.int64(y[i])
            for j in range(word_off[i] - 1, word_off[i + 1]):
                word = words[j] if j >= word_off[i] else np.int32(0)
                g = np.int64(directory[word])
                while g >= 0:
                    side, base = np.int64(groups[g, SIDE]), np.int64(groups[g, BASE])
                    if side == 1:
                        run_first[runs], run_last[runs] = base, -np.int64(groups[g, COUNT])
                        run_object[runs], run_word[runs] = i, word
                        runs += 1
                    else:
                        half_x: Any = np.int64(groups[g, HALF_X])
                        half_y: Any = np.int64(groups[g, HALF_Y])
                        low = base + 1 + ((max(at_x - half_x, 0) * side) >> 16)
                        high = base + 2 + ((min(at_x + half_x, 65535) * side) >> 16)
                        last_row = (min(at_y + half_y, 65535) * side) >> 16
                        for row in range((max(at_y - half_y, 0) * side) >> 16, last_row + 1):
                            prefetch(cells, low + row * (side + 2))
                            run_first[runs], run_last[runs] = low + row * (side + 2), high + row * (side + 2)
                            run_object[runs], run_word[runs] = i, word
                            runs += 1
                    g = np.int64(groups[g, NEXT])
                if runs > RUNS - MOST_ROWS:
                    found = _settle(
                        runs, x, y, exact_x, exact_y, word_off, words, tick, cells, packed, shape, traits, kw, pool,
                        haversine, stamp, tag_stamp, run_first, run_last, run_object, run_word,
                        out, found, ends, examined, guessing,
                    )  # fmt: skip
                    runs = 0
                    if found < 0:
                        return first
        found = _settle(
            runs, x, y, exact_x, exact_y, word_off, words, tick, cells, packed, shape, traits, kw, pool,
            haversine, stamp, tag_stamp, run_first, run_last, run_object, run_word, out, found, ends, examined, guessing,
        )  # fmt: skip
        if found < 0:
            return first
        for i in range(first, last):
            candidates += examined[i]
            if ends[i] < 0:
                ends[i] = off[i]
        guessing = (found - off[start]) * RARE < candidates
    return x.shape[0]
