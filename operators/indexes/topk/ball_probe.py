"""The kernels that find the balls messages are in; the layout is in `operators.indexes.topk.ball_kernels`.

An epoch is worked off keyword by keyword, the messages of each in the order of a curve that keeps neighbours together: what
one message has brought into the cache, the next one finds there. A probe is a message and one of its words.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from operators.indexes.knn.lanes import LANES, lowest, scored_balls_around
from operators.indexes.topk.ball_kernels import (
    ASTRAY,
    BALLS,
    BEGIN,
    DUE,
    FEW,
    FINEST,
    GRID,
    IN_TAIL,
    LEVELS,
    LISTS,
    OWN,
    OWNER,
    REFERENCE,
    REST,
    SEEN,
    SIGNATURE,
    START,
    TAIL,
    USUAL,
    WASTED,
    WORD_WIDTH,
    U,
    V,
    bit_of,
)
from streams.kernel import lean_kernel
from streams.prefetch import prefetch

__all__ = ["MOST_RUNS", "TOGETHER", "curve", "parted", "parted_hits", "probes", "scan"]

Int = Any  # a machine integer, numpy's or Python's
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Slots = NDArray[np.int32]

#: Probes that go through the stages together.
TOGETHER = 16
#: Runs of cells that one probe can have: every row of every level, a list and a tail.
MOST_RUNS = (2 << FINEST) + 2
#: Messages after which it is asked whether levels still suit them; how much of the way to a new norm is gone at a time; and how
#: many messages should be below it.
_ASKED, _STEP, _SHARE = 32, np.float32(0.05), np.float32(0.8)
#: How far norms may move before a word is laid out anew.
_SMALLER, _LARGER = np.float32(0.75), np.float32(1.33)
#: A word is laid out anew when balls of its tail were tested so many times as often as it has balls: that costs what it saves.
_WORTH = 16
_UP = np.float32(1.000001)
_WHICH_BITS = 32

#: Places in `tally`: candidates in `out`; balls tested; where to go on in a lot, a run and a ball of it; owners in `looked`,
#: one in how many tests is in it, and the next that will be.
COUNT, TESTED, RUN, BALL, LOOKED, EVERY, NEXT = range(7)
TALLY_SIZE = 7


@lean_kernel
def curve(spots: Singles, out: Ints) -> None:
    """Write each place's position on a Z-curve of 1024 by 1024 cells."""
    for i in range(spots.shape[0]):
        u, v = np.int64(spots[i, 0] * np.float32(1023)), np.int64(spots[i, 1] * np.float32(1023))
        code = np.int64(0)
        for b in range(10):
            code |= (((u >> b) & 1) << (2 * b)) | (((v >> b) & 1) << (2 * b + 1))
        out[i] = (code << 32) | i


@lean_kernel
def probes(
    order: Ints, off: Ints, words: Slots, weights: Floats, raw: Ints, keys: Ints, row: Slots, word: Slots,
    weight: Singles, norm: Singles, sign: Slots,
) -> None:  # fmt: skip
    """Write, for each message in this order and each of its words, what a probe needs."""
    count = 0
    for i in range(order.shape[0]):
        message = order[i] & 0xFFFFFFFF
        square, bits = 0.0, np.int32(0)
        for j in range(off[message], off[message + 1]):
            keys[count] = (np.int64(words[j]) << _WHICH_BITS) | count
            row[count], word[count] = message, words[j]
            weight[count] = np.float32(weights[j]) * _UP
            norm[count] = np.float32(math.sqrt(square)) * _UP
            sign[count] = bits
            square += weights[j] * weights[j]
            bits |= bit_of(raw[words[j]])
            count += 1


@lean_kernel
def _norm_seen(word: Int, norm: Any, words: Slots, marks: Singles, due: Slots, state: Ints) -> None:
    """Follow the norm that a fifth of a word's messages exceed; ask for a new layout where that has moved far.

    At first it is the largest of `FEW` messages: a word may have come with many balls, laid out before there was any message.
    """
    seen = words[word, SEEN]
    if seen < FEW:
        marks[word, USUAL] = norm if seen == 0 else max(marks[word, USUAL], norm)
    else:
        step = _STEP * marks[word, USUAL]
        marks[word, USUAL] += step * _SHARE if norm > marks[word, USUAL] else step * (_SHARE - np.float32(1.0))
    words[word, SEEN] = seen + 1
    if seen + 1 == FEW or seen + 1 >= FEW + _ASKED:
        words[word, SEEN] = FEW
        usual, reference = marks[word, USUAL], marks[word, REFERENCE]
        if (usual < _SMALLER * reference or usual > _LARGER * reference) and words[word, ASTRAY] >= 0:
            due[state[DUE]] = word
            state[DUE] += 1
            words[word, ASTRAY] = -(1 << 30)


@lean_kernel
def _waste(word: Int, words: Slots, due: Slots, state: Ints) -> None:
    """Count tests of a word's tail; ask for a new layout when they have cost more than that will."""
    if words[word, ASTRAY] < 0:
        return  # it is due already
    words[word, WASTED] += words[word, IN_TAIL]
    if words[word, WASTED] > _WORTH * np.int64(words[word, BALLS]):
        due[state[DUE]] = word
        state[DUE] += 1
        words[word, ASTRAY] = -(1 << 30)


@lean_kernel
def _look(begin: Int, end: Int, word: Int, whose: Slots, looked: Slots, tally: Ints) -> None:
    """Note the owners of some of the balls that are tested next; where there is no room, every other one is enough."""
    while tally[NEXT] < tally[TESTED] + end - begin:
        owner = np.int64(whose[begin + tally[NEXT] - tally[TESTED]])
        tally[NEXT] += tally[EVERY]
        if owner < 0:
            continue
        if tally[LOOKED] == looked.shape[1]:
            tally[LOOKED] //= 2
            tally[EVERY] *= 2
            for i in range(tally[LOOKED]):
                looked[0, i], looked[1, i] = looked[0, 2 * i], looked[1, 2 * i]
        looked[0, tally[LOOKED]], looked[1, tally[LOOKED]] = owner >> 3, word
        tally[LOOKED] += 1


@lean_kernel
def scan(
    keys: Ints, first: Int, row: Slots, word_of: Slots, weight: Singles, norm: Singles, sign: Slots, spots: Singles, pool: Any,
    due: Slots, runs: Ints, out: Ints, looked: Slots, tally: Ints,
) -> Int:  # fmt: skip
    """Write candidates (slot above, probe below) of probes from `first` on, until `out` is full; return where to go on.

    `looked` takes the slots, and the words, of some of the balls that are tested, evenly drawn.
    """
    balls, owners, words, marks, starts, lifts, _, _, state = pool
    zero, one, tiny = np.float32(0.0), np.float32(1.0), np.float32(1e-6)
    total, count = keys.shape[0], np.int64(0)
    us, vs, owns, rests, begins = balls[U], balls[V], balls[OWN], balls[REST], balls[START]
    signs, whose, stride = owners[SIGNATURE], owners[OWNER], np.int64(balls.shape[1])
    for base in range(first, total, TOGETHER):
        stop = min(base + TOGETHER, total)
        for i in range(stop, min(stop + TOGETHER, total)):
            prefetch(words, (keys[i] >> _WHICH_BITS) * WORD_WIDTH)
        found = 0
        for i in range(base, stop):
            word, probe = keys[i] >> _WHICH_BITS, keys[i] & 0xFFFFFFFF
            if words[word, BALLS] == 0:
                continue
            begin, mask = np.int64(words[word, BEGIN]), np.int64(words[word, LEVELS])
            if words[word, IN_TAIL] > 0:
                tail = begin + words[word, TAIL]
                runs[found, 0], runs[found, 1], runs[found, 2] = -1 - tail, tail + words[word, IN_TAIL], probe
                found += 1
            if mask == 0:
                continue
            if words[word, IN_TAIL] > 0:
                _waste(word, words, due, state)
            whole = np.float32(math.sqrt(weight[probe] * weight[probe] + norm[probe] * norm[probe])) * _UP
            reference = marks[word, REFERENCE]
            _norm_seen(word, whole, words, marks, due, state)
            beyond = max(zero, whole - reference)
            u, v = spots[row[probe], 0], spots[row[probe], 1]
            group, at = np.int64(words[word, GRID]), np.int64(words[word, GRID])
            for level in range(FINEST + 1):
                at += (mask >> level) & 1
            if mask & 1:
                last: Int = min(np.int64(whole * np.float32(LISTS // 2) / reference), LISTS - 1)
                runs[found, 0], runs[found, 1], runs[found, 2] = at, at + last + 1, (begin << 32) | probe
                prefetch(starts, at)
                found += 1
                group += 1
                at += LISTS
            side = np.int64(1)
            for level in range(1, FINEST + 1):
                side *= 2
                if (mask >> level) & 1 == 0:
                    continue
                cells = np.float32(side)
                reach = one / cells + lifts[group] * beyond + tiny
                left, right = np.int64(max(u - reach, zero) * cells), np.int64(min(u + reach, one) * cells)
                low, high = np.int64(max(v - reach, zero) * cells), np.int64(min(v + reach, one) * cells)
                right, high = min(right, side - 1), min(high, side - 1)
                for line in range(low, high + 1):
                    runs[found, 0], runs[found, 1] = at + line * side + left, at + line * side + right + 1
                    runs[found, 2] = (begin << 32) | probe
                    prefetch(starts, runs[found, 0])
                    found += 1
                group += 1
                at += side * side
        kept = 0
        for r in range(found):
            probe = runs[r, 2] & 0xFFFFFFFF
            if runs[r, 0] < 0:
                begin, end = -1 - runs[r, 0], runs[r, 1]
            else:
                offset = runs[r, 2] >> 32
                begin, end = offset + starts[runs[r, 0]], offset + starts[runs[r, 1]]
            if end > begin:
                for p in range(begin, min(end, begin + 32), 16):
                    prefetch(us, p)
                    prefetch(vs, p)
                    prefetch(owns, p)
                    prefetch(rests, p)
                    prefetch(begins, p)
                    prefetch(signs, p)
                runs[kept, 0], runs[kept, 1], runs[kept, 2] = begin, end, probe
                kept += 1
        for r in range(tally[RUN], kept):
            probe, p, end = runs[r, 2], runs[r, 0], runs[r, 1]
            u, v = spots[row[probe], 0], spots[row[probe], 1]
            if tally[BALL] > 0:
                p = tally[BALL] - 1
                tally[BALL] = 0
            else:
                if tally[NEXT] < tally[TESTED] + end - p:
                    _look(p, end, word_of[probe], whose, looked, tally)
                tally[TESTED] += end - p
            while p < end:
                if count + LANES > out.shape[0]:
                    tally[COUNT], tally[RUN], tally[BALL] = count, r, p + 1
                    return base
                inside = scored_balls_around(balls, owners, p, stride, u, v, weight[probe], norm[probe], sign[probe])
                if end - p < LANES:
                    inside &= (np.int64(1) << (end - p)) - 1
                while inside:
                    out[count] = (np.int64(whose[np.uint64(p + lowest(inside))] >> 3) << 32) | probe
                    inside &= inside - 1
                    count += 1
                p += LANES
        tally[RUN] = 0
    tally[COUNT] = count
    return total


@lean_kernel
def parted(candidates: Ints, shift: Int, ends: Ints, out: Ints) -> None:
    """Sort candidates by ranges of slots, so that what is verified together is near to each other."""
    for b in range(ends.shape[0]):
        ends[b] = 0
    for i in range(candidates.shape[0]):
        ends[(candidates[i] >> shift) + 1] += 1
    for b in range(1, ends.shape[0]):
        ends[b] += ends[b - 1]
    for i in range(candidates.shape[0]):
        b = candidates[i] >> shift
        out[ends[b]] = candidates[i]
        ends[b] += 1


@lean_kernel
def parted_hits(
    row: Slots, slot: Slots, score: Floats, shift: Int, ends: Ints, out_row: Slots, out_slot: Slots, out_score: Floats
) -> None:
    """Sort hits by ranges of slots: whoever has buffers for them goes through these once."""
    for b in range(ends.shape[0]):
        ends[b] = 0
    for i in range(slot.shape[0]):
        ends[(slot[i] >> shift) + 1] += 1
    for b in range(1, ends.shape[0]):
        ends[b] += ends[b - 1]
    for i in range(slot.shape[0]):
        b = slot[i] >> shift
        out_row[ends[b]], out_slot[ends[b]], out_score[ends[b]] = row[i], slot[i], score[i]
        ends[b] += 1
