"""The match kernel of KAG; `kag_group_kernels` has the layout.

Work goes in stages over a few objects at a time: every stage asks for the memory that the next one reads, so the cache
misses of many words overlap instead of following each other.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from operators.indexes.range.kag_group_kernels import (
    BASE,
    CLASS_BITS,
    COUNT,
    EXACT_TAGS,
    HALVES,
    NEXT,
    NO_WORD,
    ORIGIN,
    QUERIES,
    RUNS,
    SECOND_WORDS,
    SHIFT_BITS,
    SIDE,
    SIZE,
    SLOTS_AT,
    TAG_BITS,
    TOGETHER,
)
from streams.kernel import lean_kernel
from streams.prefetch import prefetch

Int = Any  # a machine integer, numpy's or Python's
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Slots = NDArray[np.int32]
Packed = NDArray[np.uint64]
Flat = NDArray[np.uint32]
Marks = NDArray[np.uint8]

# A posting as two 64-bit numbers: (x low, width, y low, height) of 16 bits each, and (slot, flags, tag, tag). Both axes
# are tested at once in the two 32-bit halves; the top bit of each half is set beforehand, so no half borrows from the other.
_LANES = np.uint64(0x0000FFFF_0000FFFF)
_TOPS = np.uint64(0x80000000_80000000)
_BELOW = np.uint64(0x7FFFFFFF_7FFFFFFF)
_ONES = np.uint64(0x00000001_00000001)
_NONE = np.uint64(0)
_VERIFY, _ABSENT, _ROUND, _SHARED = (np.uint64(1 << bit) for bit in (31, 30, 29, 28))
_SPECIAL = _VERIFY | _SHARED
_DOUBTFUL = _SPECIAL | _ROUND
_SLOT = np.uint64((1 << 28) - 1)
_HOLE = (1 << 28) - 1
_LOW16 = np.uint64(0xFFFF)
_FIRST_LANE = np.uint64(0x7FFFFFFF)
_SHIFT = np.uint64(16)
_TAG, _TAG2 = np.uint64(32), np.uint64(48)
_PLACE = np.uint64(0xFFFFFFFF)
#: Where the last mark is kept, behind those of all tags.
_MARK = NO_WORD + 1

#: Columns of a run: its postings, or where in `cells` they begin and end; object << 32 and word; the object's place.
FIRST, LAST, WORD, TARGET = range(4)
#: Rows that the grid of one group has at most.
MOST_ROWS = 512
#: How far a circle in degrees may be from an ellipse in its bounding box, in terms of its squared radius.
BENT = 1 / 16
#: How far off, in half quanta, rounding may set a place and a radius; a little more than 2 and 1, for float64's own rounding.
OFF, NARROWER = 2.01, 1.01
#: Boxes narrower than this, in quanta, say too little of the circle inside.
ROUND_FROM = 12

#: One match in so many candidates, or fewer, is rare enough for the processor to guess right most of the time.
RARE = 8
#: Postings are asked for so many runs before they are read: long enough for memory, short enough to stay in the cache.
RUNS_AHEAD = 10
#: Candidates of an object that wait for the table together.
WAITING = 256
#: Cache lines of a run, of four postings each, that are asked for; the processor follows a longer run by itself.
LINES_AHEAD = 8


@lean_kernel
def _fits(
    slot: Int, word: Int, x: float, y: float, tick: Int, stamp: Slots, shape: Floats, traits: Any, kw: Slots,
    pool: Slots, haversine: bool,
) -> Any:  # fmt: skip
    """Verify a candidate exactly; one that any keyword finds counts under the first of its words that is present.

    Word 0: it is filed by its place alone.
    """
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
            return word == 0 or own == word
        if not either and not present:
            return False
    return not either


@lean_kernel
def _in_ellipse(edges: Any, after: Any, bent: float) -> Any:
    """Tell from quanta whether a place is surely inside of a circle that its box encloses.

    All are rounded down: in units of half a quantum the place is off the centre by |across| +- 2, and the radius is the box's
    extent +- 1; the rest is for float64. No branch: one place in five in the box of a circle is in its corners, which nobody
    guesses right.
    """
    wide, high = np.float64(edges >> _SHIFT & _LOW16), np.float64(edges >> _TAG2)
    across = abs(2.0 * np.float64(after & _FIRST_LANE) - wide) + OFF
    along = abs(2.0 * np.float64(after >> _TAG & _FIRST_LANE) - high) + OFF
    less_wide, less_high = wide - NARROWER, high - NARROWER
    x, y, most = across * less_high, along * less_wide, less_wide * less_high
    return (wide >= ROUND_FROM) & (high >= ROUND_FROM) & (x * x + y * y < most * most * (1.0 - bent))


@lean_kernel
def _off_ellipse(edges: Any, after: Any, bent: float) -> Any:
    """Tell from quanta whether a place is surely outside of a circle that its box encloses."""
    wide, high = np.float64(edges >> _SHIFT & _LOW16), np.float64(edges >> _TAG2)
    across = max(abs(2.0 * np.float64(after & _FIRST_LANE) - wide) - OFF, 0.0)
    along = max(abs(2.0 * np.float64(after >> _TAG & _FIRST_LANE) - high) - OFF, 0.0)
    more_wide, more_high = wide + NARROWER, high + NARROWER
    x, y, most = across * more_high, along * more_wide, more_wide * more_high
    return (wide >= ROUND_FROM) & (high >= ROUND_FROM) & (x * x + y * y > most * most * (1.0 + bent))


@lean_kernel
def _decide(
    slot: Int, edges: Any, rest: Any, after: Any, strictly: bool, word: Int, x: float, y: float, tick: Int,
    stamp: Slots, shape: Floats, traits: Any, kw: Slots, pool: Slots, haversine: bool,
) -> Int:  # fmt: skip
    """Decide on a candidate that passed the filter: 1 a match, 0 none, 2 one that the haversine formula decides.

    Word -1: a word of the same bits has led to a group by second words, so the tags may not be all there is to know.
    """
    if slot == _HOLE:
        return 0
    known = strictly
    if rest & _ROUND != _NONE:
        bent = BENT if haversine else 0.0
        known = _in_ellipse(edges, after, bent)
        if not known and _off_ellipse(edges, after, bent):
            return 0
    if (not known or word < 0 or rest & _VERIFY != _NONE) and not _fits(
        slot, word, x, y, tick, stamp, shape, traits, kw, pool, haversine
    ):
        return 0
    if haversine and traits[slot] & 3 == 2 and not (known and rest & _ROUND != _NONE):
        return 2
    return 1


@lean_kernel
def _look_up(
    count: Int, pending: Packed, runs: Ints, exact_x: float, exact_y: float, now: Int,
    packed: Packed, flat: Flat, bundles: Slots, shape: Floats, traits: Any, kw: Slots, pool: Slots, haversine: bool,
    stamp: Slots, out: Slots, found: Int,
) -> Int:  # fmt: skip
    """Decide on an object's candidates that need the table; return the new number of matches, or -1 where `out` is full.

    Their rows were asked for ahead. A match that the haversine formula decides is written as the complement of its slot.
    """
    for k in range(count):
        place, z = pending[k] & _PLACE, pending[k] >> _TAG
        edges, rest, target = packed[place, 0], packed[place, 1], np.uint64(runs[z, TARGET])
        after, before = _offsets(edges, target)
        strictly = (after - _ONES) & (before - _ONES) & _TOPS == _TOPS
        slot, many, at = np.int64(rest & _SLOT), np.int64(1), np.int64(0)
        if rest & _SHARED != _NONE and slot != _HOLE:
            many, at = np.int64(bundles[slot, QUERIES]), 4 * np.int64(bundles[slot, SLOTS_AT])
            slot = np.int64(flat[at])
        verdict = _decide(
            slot, edges, rest, after, strictly, np.int32(runs[z, WORD]), exact_x, exact_y, now, stamp, shape, traits,
            kw, pool, haversine,
        )  # fmt: skip
        if verdict > 0:
            if found + many + count - k > out.shape[0]:
                return -1
            flip = np.int32(-1 if verdict == 2 else 0)
            out[found] = np.int32(slot) ^ flip
            for more in range(1, many):
                out[found + more] = np.int32(flat[at + more]) ^ flip
            found += many
    return found


@lean_kernel
def _sift(
    waited: Int, waiting: Int, target: Any, bent: float, unsure: bool, rounds: bool, packed: Packed, shape: Floats,
    traits: Any, kw: Slots, pending: Packed, out: Slots, found: Int,
) -> Any:  # fmt: skip
    """Decide on circles among the candidates that a run has added to those that wait, and ask for the rows of the others.

    Return how many wait now, and the new number of matches.
    """
    left, hits = np.uint64(waiting), np.uint64(found)
    if rounds:
        left = np.uint64(waited)
        for k in range(np.uint64(waited), np.uint64(waiting)):
            edges, rest = packed[pending[k] & _PLACE, 0], packed[pending[k] & _PLACE, 1]
            within = _in_ellipse(edges, target - (edges & _LANES), bent)
            sure = within & (not unsure) & (rest & _DOUBTFUL == _ROUND)
            out[hits] = np.int32(rest & _SLOT)
            hits += np.uint64(sure)
            pending[left] = pending[k]
            left += np.uint64(not sure)
    kept = np.uint64(waited)
    for k in range(np.uint64(waited), left):
        edges, rest = packed[pending[k] & _PLACE, 0], packed[pending[k] & _PLACE, 1]
        pending[kept] = pending[k]
        kept += np.uint64((rest & _ROUND == _NONE) | (not _off_ellipse(edges, target - (edges & _LANES), bent)))
    for k in range(np.uint64(waited), kept):
        slot = np.int64(packed[pending[k] & _PLACE, 1] & _SLOT)
        prefetch(shape, shape.shape[1] * slot)
        prefetch(kw, 3 * slot)
        prefetch(traits, slot)
    return np.int64(kept), np.int64(hits)


@lean_kernel
def _mark(i: Int, word_off: Ints, words: Slots, marks: Marks) -> Any:
    """Mark the tags of an object's words; return the mark. Tag 0 is what every object has, `NO_WORD` what none has."""
    mark = np.uint8(marks[_MARK] + np.uint8(1))
    if mark == 0:
        marks[:] = np.uint8(0)
        mark = np.uint8(1)
    marks[_MARK] = marks[0] = mark
    for j in range(word_off[i], word_off[i + 1]):
        word = words[j]
        marks[word if word < EXACT_TAGS else min(EXACT_TAGS | (word & TAG_BITS), NO_WORD - 1)] = mark
    return mark


@lean_kernel
def _offsets(edges: Any, target: Any) -> Any:
    """Return how far a place is behind the low edges of a box, and before the high ones; the top bits say whether it is."""
    after = target - (edges & _LANES)
    return after, ((edges >> _SHIFT & _LANES) | _TOPS) - (after & _BELOW)


@lean_kernel
def _judged(rest: Any, after: Any, before: Any, unsure: Any, mark: Any, marks: Marks) -> Any:
    """Tell of a posting whose box holds a place whether its tags are right, and whether the table must be asked besides."""
    absent = rest & _ABSENT != _NONE
    right = ((marks[rest >> _TAG & _LOW16] == mark) != absent) & ((marks[rest >> _TAG2] == mark) != absent)
    strictly = (after - _ONES) & (before - _ONES) & _TOPS == _TOPS
    return right, (not strictly) | unsure | (rest & _DOUBTFUL != _NONE)


@lean_kernel
def _settle(
    count: Int, exact_x: Floats, exact_y: Floats, word_off: Ints, words: Slots, tick: Int,
    cells: Slots, packed: Packed, flat: Flat, bundles: Slots, shape: Floats, traits: Any, kw: Slots, pool: Slots,
    haversine: bool, rounds: bool, stamp: Slots, marks: Marks, runs: Ints, pending: Packed, out: Slots,
    found: Int, ends: Ints, examined: Ints,
    guessing: bool,
) -> Int:  # fmt: skip
    """Read the runs and verify their postings; return the new number of matches, or -1 where `out` is full.

    Candidates that need the table wait, as posting | run << 32, until their object is done, while their rows are on the way.
    """
    kept: Any = np.int64(0)
    for z in range(count):
        first, last = runs[z, FIRST], runs[z, LAST]
        if last < 0:
            last = first - last
        else:
            first, last = np.int64(cells[first]), np.int64(cells[last])
        # No branch: whether a row has postings here is a coin toss.
        if kept < RUNS_AHEAD:
            prefetch(packed, 2 * first)
        runs[kept, FIRST], runs[kept, LAST], runs[kept, WORD], runs[kept, TARGET] = (
            first, last, runs[z, WORD], runs[z, TARGET]
        )  # fmt: skip
        kept += np.int64(last > first)
    bent = BENT if haversine else 0.0
    current: Any = np.int64(-1)
    waiting: Any = np.int64(0)
    mark = np.uint8(0)
    for z in range(kept):
        i = runs[z, WORD] >> 32
        first, last = runs[z, FIRST], runs[z, LAST]
        if z + RUNS_AHEAD < kept:
            later = runs[z + RUNS_AHEAD, FIRST]
            for line in range(later, min(runs[z + RUNS_AHEAD, LAST], later + LINES_AHEAD * 4), 4):
                prefetch(packed, 2 * line)
        if i != current:
            current = i
            mark = _mark(i, word_off, words, marks)
        examined[i] += last - first
        target, run = np.uint64(runs[z, TARGET]), np.uint64(z) << _TAG
        unsure: Any = np.int32(runs[z, WORD]) < 0
        while first < last:
            # As many at a time as there is room for those that wait.
            until = min(last, first + pending.shape[0] - waiting)
            if found + waiting + until - first > out.shape[0]:
                return -1
            # Unsigned, because numba counts a negative place from the end, and would ask of each one whether it is.
            hits, doubts = np.uint64(found), np.uint64(waiting)
            # Where matches are rare most candidates are guessed right to be outside. Where they are common a match is a
            # coin toss, and a wrong guess costs more than the whole test: no branch then.
            if guessing:
                for p in range(np.uint64(first), np.uint64(until)):
                    after, before = _offsets(packed[p, 0], target)
                    if after & before & _TOPS != _TOPS:
                        continue
                    hit, doubt = _judged(packed[p, 1], after, before, unsure, mark, marks)
                    out[hits] = np.int32(packed[p, 1] & _SLOT)
                    hits += np.uint64(hit & (not doubt))
                    pending[doubts] = p | run
                    doubts += np.uint64(hit & doubt)
            else:
                for p in range(np.uint64(first), np.uint64(until)):
                    after, before = _offsets(packed[p, 0], target)
                    hit, doubt = _judged(packed[p, 1], after, before, unsure, mark, marks)
                    hit &= after & before & _TOPS == _TOPS
                    out[hits] = np.int32(packed[p, 1] & _SLOT)
                    hits += np.uint64(hit & (not doubt))
                    pending[doubts] = p | run
                    doubts += np.uint64(hit & doubt)
            first, found = until, np.int64(hits)
            if np.int64(doubts) > waiting:
                waiting, found = _sift(
                    waiting, np.int64(doubts), target, bent, unsure, rounds, packed, shape, traits, kw, pending, out, found
                )  # fmt: skip
            if waiting > 0 and (
                waiting == pending.shape[0] or (first == last and (z + 1 == kept or runs[z + 1, WORD] >> 32 != i))
            ):
                now = np.int32(tick + i)
                stamp[0] = now
                for j in range(word_off[i], word_off[i + 1]):
                    stamp[words[j]] = now
                found = _look_up(
                    waiting, pending, runs, exact_x[i], exact_y[i], now, packed, flat, bundles, shape,
                    traits, kw, pool, haversine, stamp, out, found,
                )  # fmt: skip
                waiting = 0
                if found < 0:
                    return -1
        ends[i] = found
    return found


@lean_kernel
def probe(
    start: Int, x: Slots, y: Slots, exact_x: Floats, exact_y: Floats, word_off: Ints, words: Slots, tick: Int,
    directory: Slots, groups: Slots, cells: Slots, packed: Packed, flat: Flat, bundles: Slots, shape: Floats,
    traits: Any, kw: Slots, pool: Slots, haversine: bool, rounds: bool, stamp: Slots, marks: Marks, runs: Ints,
    pending: Packed, met: Slots, out: Slots,
    off: Ints, examined: Ints,
) -> Int:  # fmt: skip
    """Match objects from `start` on; return how many are done: all, or as many as `out` has room for.

    ``off[i + 1]`` becomes the end of object i's matches in `out`; object i is stamped as ``tick + i``. `marks` says by tag
    which object had it last, as a number of a byte that goes round. `rounds`: there may be postings of circles. A run is
    noted as (place, -length) if it is a list, and as two places in `cells` if it is part of a row. `met` says of the last
    bits of second words for which visit they were met; its last entry counts visits.
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
        found, noted = off[first], 0
        for i in range(first, last):
            examined[i] = 0
            ends[i] = -1
            at_x: Any = np.int64(x[i])
            at_y: Any = np.int64(y[i])
            for j in range(word_off[i] - 1, word_off[i + 1]):
                word = words[j] if j >= word_off[i] else np.int32(0)
                g = np.int64(directory[word])
                # The groups of the word itself, then those that its other groups keep by second word, one after the other.
                table, table_next, second = np.int64(-1), np.int64(-1), word_off[i]
                led = word
                while True:
                    if g < 0:
                        if table >= 0:
                            while second < word_off[i + 1]:
                                bits = words[second] & (SECOND_WORDS - 1)
                                second += 1
                                if met[bits] != met[SECOND_WORDS]:
                                    met[bits] = met[SECOND_WORDS]
                                    g = np.int64(cells[table + bits])
                                    if g >= 0:
                                        # A word of the same bits: what its tags say takes another for granted.
                                        led = word if groups[g, NEXT] == -2 - words[second - 1] else np.int32(-1)
                                        break
                            if g < 0:
                                table, g, led = np.int64(-1), table_next, word
                                if g < 0:
                                    break
                        else:
                            break
                    side, base = np.int64(groups[g, SIDE]), np.int64(groups[g, BASE])
                    if side == 0:
                        table, table_next, second = base, np.int64(groups[g, NEXT]), word_off[i]
                        met[SECOND_WORDS] += 1
                        g = np.int64(-1)
                        continue
                    shift = (np.int64(groups[g, SIZE]) >> CLASS_BITS) & ((1 << SHIFT_BITS) - 1)
                    origin = np.int64(groups[g, ORIGIN])
                    here_x = (at_x >> shift) - ((origin & 0xFFFF) << 15)
                    here_y = (at_y >> shift) - ((origin >> 16 & 0xFFFF) << 15)
                    if (here_x | here_y) >> 16 == 0:
                        target = np.int64(np.uint64(here_x) | np.uint64(here_y) << _TAG | _TOPS)
                        whose = np.int64(i) << 32 | np.int64(np.uint32(led))
                        if side == 1:
                            runs[noted, FIRST], runs[noted, LAST] = base, -np.int64(groups[g, COUNT])
                            runs[noted, WORD], runs[noted, TARGET] = whose, target
                            noted += 1
                        else:
                            halves = np.int64(groups[g, HALVES])
                            half_x, half_y = halves & 0xFFFF, halves >> 16 & 0xFFFF
                            low = base + 1 + ((max(here_x - half_x, 0) * side) >> 16)
                            high = base + 2 + ((min(here_x + half_x, 65535) * side) >> 16)
                            last_row = (min(here_y + half_y, 65535) * side) >> 16
                            for row in range((max(here_y - half_y, 0) * side) >> 16, last_row + 1):
                                prefetch(cells, low + row * (side + 2))
                                runs[noted, FIRST], runs[noted, LAST] = low + row * (side + 2), high + row * (side + 2)
                                runs[noted, WORD], runs[noted, TARGET] = whose, target
                                noted += 1
                    g = np.int64(groups[g, NEXT])
                    if noted > RUNS - MOST_ROWS:
                        found = _settle(
                            noted, exact_x, exact_y, word_off, words, tick, cells, packed, flat, bundles, shape, traits, kw,
                            pool, haversine, rounds, stamp, marks, runs,
                            pending, out, found, ends, examined, guessing,
                        )  # fmt: skip
                        noted = 0
                        if found < 0:
                            return first
        found = _settle(
            noted, exact_x, exact_y, word_off, words, tick, cells, packed, flat, bundles, shape, traits, kw, pool,
            haversine, rounds, stamp, marks, runs, pending, out, found,
            ends, examined, guessing,
        )  # fmt: skip
        if found < 0:
            return first
        for i in range(first, last):
            candidates += examined[i]
            if ends[i] < 0:
                ends[i] = off[i]
        guessing = (found - off[start]) * RARE < candidates
    return x.shape[0]
