"""Postings of chosen cells become candidates, and candidates are scored: the inner part of `keyword_grid_search`."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from operators.indexes.core.prefetch import prefetch
from operators.indexes.topk.keyword_grid_kernels import (
    BELOW,
    FAR,
    FRONT,
    GLOBE,
    HEADER,
    KINDS,
    LENGTH,
    LENGTH_BITS,
    POSITION,
    RING,
    ROOM,
    SIGNATURE,
    SLACK,
    WEIGHT,
    kind_of,
    length_of,
)  # fmt: skip
from streams.kernel import lean_kernel

__all__ = ["ENOUGH", "FOUND", "LEAST", "LEFT", "MOST", "OUTCOME_SIZE", "PARTS", "SEEN", "TOP", "scan", "text_of"]

Int = Any  # a machine integer, numpy's or Python's
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Slots = NDArray[np.int32]
Singles = NDArray[np.float32]

#: A request as a tuple of numbers: x, y, alpha, bound, ratio, first, stop; and the factors of a bound, see `scan`.
#: What is found is listed in `best` (scores) and `best_at` (positions), best first; the last place of `best` is the score that
#: a message must come up to in order to be wanted.
One = Any
Factors = Any

#: A lot of candidates is a tuple: their positions, bounds of their scores, positions of those that are verified next, and
#: counts of candidates by bound.
Lot = Any
#: Candidates of a lot, and the parts of the unit that they are counted by.
ENOUGH, PARTS = 512, 256

#: Places in `outcome`: of the search under way, how many are wanted at least and at most, how many are listed, whether
#: something was left out; of all searches, postings looked at, messages written.
LEAST, MOST, FOUND, LEFT, SEEN, TOP = range(6)
OUTCOME_SIZE = 6


@lean_kernel
def _distance(x: Any, y: Any, at_x: Any, at_y: Any, globe: Any) -> Any:
    """Return a distance, as `streams.geometry` has it; on the globe its last bits may differ."""
    if globe == 0.0:
        dx, dy = x - at_x, y - at_y
        return np.sqrt(dx * dx + dy * dy)
    lat, at_lat = math.radians(y), math.radians(at_y)
    half_lat, half_lon = math.sin((lat - at_lat) * 0.5), math.sin(math.radians(x - at_x) * 0.5)
    h = half_lat * half_lat + math.cos(lat) * math.cos(at_lat) * (half_lon * half_lon)
    return 2.0 * globe * math.asin(math.sqrt(min(h, 1.0)))


@lean_kernel
def text_of(at: Int, weights: Floats, bits: Any, place: Slots, log: Floats, numbers: Ints, parts: Slots) -> Any:
    """Return the cosine of a message, and the last word that it shares, -1 for none."""
    mask = np.uint64(log.shape[0] - 1)
    length = np.uint64(length_of(numbers[np.uint64(at + 3) & mask]))
    base, behind = np.uint64(2 * (at + HEADER)), np.uint64(at + HEADER) + ((length + np.uint64(1)) >> np.uint64(1))
    total, last, both = 0.0, np.int64(-1), np.uint64(2) * mask + np.uint64(1)
    for j in range(length):
        word = np.int64(parts[(base + j) & both])
        if kind_of(word) & bits != 0 and place[word] >= 0:
            total += log[(behind + j) & mask] * weights[place[word]]
            last = word
    return total, last


@lean_kernel
def _verify(
    word: Int, count: Int, one: One, factors: Factors, weights: Floats, bits: Any, place: Slots, frame: Floats,
    log: Floats, numbers: Ints, parts: Slots, best: Floats, best_at: Ints, candidates: Slots, outcome: Ints,
) -> None:  # fmt: skip
    """Score candidates, and list those that are wanted, best first; each counts through the last word that it shares.

    Most have one word in common with the subscription, and their kinds tell so.
    """
    x, y, alpha, bound, ratio, first, stop = one
    mask, own, others = np.uint64(log.shape[0] - 1), factors[3], factors[4]
    both, lengths = np.uint64(2) * mask + np.uint64(1), np.uint64((1 << LENGTH_BITS) - 1)
    least, most, found = outcome[LEAST], outcome[MOST], outcome[FOUND]
    limit, left = best[best.shape[0] - 1], False
    for c in range(count):
        at = np.int64(candidates[np.uint64(c)])
        seq = numbers[np.uint64(at + 2) & mask]
        if seq < first or seq >= stop:
            continue
        shape = np.uint64(numbers[np.uint64(at + 3) & mask])
        length, base = shape & lengths, np.uint64(2 * (at + HEADER))
        behind = np.uint64(at + HEADER) + ((length + np.uint64(1)) >> np.uint64(1))
        if (shape >> np.uint64(LENGTH_BITS)) & others == 0:
            which = np.uint64(0)
            for j in range(length):  # without branches
                which += j * np.uint64(parts[(base + j) & both] == word)
            total = log[(behind + which) & mask] * own
        else:
            total, last = 0.0, np.int64(-1)
            for j in range(length):
                shared = np.int64(parts[(base + j) & both])
                if (bits >> np.uint64(shared % KINDS)) & np.uint64(1) != 0 and place[shared] >= 0:
                    total += log[(behind + j) & mask] * weights[place[shared]]
                    last = shared
            if last != word:
                continue
        far = _distance(log[np.uint64(at) & mask], log[np.uint64(at + 1) & mask], x, y, frame[GLOBE])
        value = alpha * (1.0 - far / frame[FAR]) + (1.0 - alpha) * total
        if value < limit:
            left = True
            continue
        rank = np.uint64(found)
        if found == most:
            left = True
            rank -= np.uint64(1)
            if value == best[rank] and seq < numbers[np.uint64(best_at[rank] + 2) & mask]:
                continue
        else:
            found += 1
        while rank > np.uint64(0):
            ahead = rank - np.uint64(1)
            if best[ahead] > value or (best[ahead] == value and numbers[np.uint64(best_at[ahead] + 2) & mask] >= seq):
                break
            best[rank], best_at[rank] = best[ahead], best_at[ahead]
            rank = ahead
        best[rank], best_at[rank] = value, at
        if found >= least:
            last_wanted = best[least - 1]
            limit = min(last_wanted, ratio * last_wanted if ratio != 0.0 else bound)
            if found == most:
                limit = max(limit, best[most - 1])
    outcome[FOUND], best[best.shape[0] - 1] = found, limit
    if left:
        outcome[LEFT] = 1


@lean_kernel
def _highest(count: Int, bounds: Singles, base: Any, wanted: Int, counts: Slots) -> Any:
    """Return a bound that so many candidates come up to, and not many more: where a part of the unit begins."""
    for each in range(PARTS):
        counts[each] = 0
    for c in range(count):
        counts[np.uint64(min(max((bounds[c] + base) * PARTS, 0.0), PARTS - 1.0))] += 1
    part, above = np.int64(PARTS - 1), np.int64(counts[PARTS - 1])
    while part > 0 and above < wanted:
        part -= 1
        above += counts[part]
    return np.float32(part / PARTS - base)


@lean_kernel
def _settle(
    word: Int, count: Int, one: One, factors: Factors, weights: Floats, bits: Any, place: Slots, frame: Floats,
    log: Floats, numbers: Ints, parts: Slots, best: Floats, best_at: Ints, lot: Lot, outcome: Ints,
) -> None:  # fmt: skip
    """Verify a lot: first as many as are wanted, those of the highest bounds; then what their scores have left of the rest.

    Most bounds are next to the score, so few are verified in vain.
    """
    candidates, bounds, picked, counts = lot
    mask, alpha, rest = log.shape[0] - 1, one[2] + frame[SLACK], np.int64(0)
    lowest = np.float32(-np.inf)
    if count > outcome[LEAST]:
        lowest = _highest(count, bounds, alpha, outcome[LEAST], counts)
    for turn in range(2):
        taken = np.int64(0)
        for c in range(count if turn == 0 else rest):
            at, bound = candidates[c], bounds[c]
            if bound >= lowest:
                prefetch(log, np.int64(at) & mask)
                prefetch(log, (np.int64(at) + 8) & mask)
                picked[taken] = at
                taken += 1
            elif turn == 0:
                candidates[rest], bounds[rest] = at, bound
                rest += 1
            else:
                outcome[LEFT] = 1
        if taken > 0:
            _verify(
                word, taken, one, factors, weights, bits, place, frame, log, numbers, parts, best, best_at, picked,
                outcome,
            )  # fmt: skip
        if rest == 0:
            return
        lowest = np.float32(best[best.shape[0] - 1] - alpha)


@lean_kernel
def scan(
    word: Int, begin: Int, end: Int, one: One, factors: Factors, chosen: Slots, here: Singles, cells: Slots,
    posts: Singles, marks: Slots, weights: Floats, bits: Any, place: Slots, frame: Floats, log: Floats,
    numbers: Ints, parts: Slots, best: Floats, best_at: Ints, lot: Lot, outcome: Ints,
) -> None:  # fmt: skip
    """Look at the rings of chosen cells, and list what is wanted.

    `factors` are the subscription's part of the bound: (1 - alpha) times the weight of the word and the norm below it, the
    signature of what is below; then the weight of the word, and the kinds of all other words. The bound of a posting is what
    its score can be above alpha.
    """
    weight, below, signature, _, _ = factors
    dims, found = here.shape[0], np.uint64(0)
    # Unsigned, so that nothing is counted from the end: that costs as much as the test itself.
    of_weight, of_below = np.uint64(dims + WEIGHT), np.uint64(dims + BELOW)
    of_signature, of_position = np.uint64(dims + SIGNATURE), np.uint64(dims + POSITION)
    at_x, at_y, at_z = here[0], here[1], here[dims - 1]
    lowest = np.float32(best[best.shape[0] - 1] - one[2] - frame[SLACK])
    alpha, candidates, bounds = np.float32(one[2]), lot[0], lot[1]
    for c in range(begin, end):
        cell = np.int64(chosen[c])
        ring, front, length = np.int64(cells[cell, RING]), np.int64(cells[cell, FRONT]), np.int64(cells[cell, LENGTH])
        wrap = (np.int64(1) << np.int64(cells[cell, ROOM])) - 1
        outcome[SEEN] += length
        for i in range(length):
            o = np.uint64(ring + ((front + i) & wrap))
            bound = weight * posts[o, of_weight]
            bound += below * posts[o, of_below] if marks[o, of_signature] & signature != 0 else np.float32(0)
            across, up = posts[o, np.uint64(0)] - at_x, posts[o, np.uint64(1)] - at_y
            gap = across * across + up * up
            if dims > 2:
                gap += (posts[o, np.uint64(2)] - at_z) * (posts[o, np.uint64(2)] - at_z)
            bound -= alpha * np.sqrt(gap)
            if bound < lowest:
                outcome[LEFT] = 1
                continue
            candidates[found], bounds[found] = marks[o, of_position], bound
            found += np.uint64(1)
            if found == ENOUGH:
                _settle(
                    word, np.int64(found), one, factors, weights, bits, place, frame, log, numbers, parts, best, best_at,
                    lot, outcome,
                )  # fmt: skip
                found = np.uint64(0)
                lowest = np.float32(best[best.shape[0] - 1] - one[2] - frame[SLACK])
    if found > 0:
        _settle(
            word, np.int64(found), one, factors, weights, bits, place, frame, log, numbers, parts, best, best_at, lot,
            outcome,
        )  # fmt: skip
