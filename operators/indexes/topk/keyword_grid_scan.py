"""Postings of chosen cells become candidates, and candidates are scored: the inner part of `keyword_grid_search`."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from operators.indexes.knn.lanes import LANES, lowest, same_as
from operators.indexes.topk.keyword_grid_kernels import (
    BELOW,
    FAR,
    FRONT,
    GLOBE,
    HEADER,
    LENGTH,
    POSITION,
    RING,
    ROOM,
    SIGNATURE,
    SLACK,
    WEIGHT,
)  # fmt: skip
from streams.kernel import lean_kernel
from streams.prefetch import prefetch

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
def text_of(at: Int, weights: Floats, place: Slots, log: Floats, numbers: Ints, parts: Slots) -> Any:
    """Return the cosine of a message, and the last word that it shares, -1 for none."""
    mask = np.uint64(log.shape[0] - 1)
    length = np.uint64(numbers[np.uint64(at + 3) & mask])
    base, behind = np.uint64(2 * (at + HEADER)), np.uint64(at + HEADER) + ((length + np.uint64(1)) >> np.uint64(1))
    total, last, both = 0.0, np.int64(-1), np.uint64(2) * mask + np.uint64(1)
    for j in range(length):
        word = np.int64(parts[(base + j) & both])
        if place[word] >= 0:
            total += log[(behind + j) & mask] * weights[place[word]]
            last = word
    return total, last


@lean_kernel
def _shared(at: Int, length: Int, words: Slots, weights: Floats, log: Floats, parts: Slots) -> Any:
    """Return the cosine of a message, and the last word that it shares, sixteen of its words at a time; they stand in a row.

    Without branches: which words are shared cannot be foreseen. The sum goes by ids of keywords, in which both are.
    """
    base, behind, total, last = 2 * (at + HEADER), at + HEADER + ((length + 1) >> 1), 0.0, np.int64(-1)
    for w in range(words.shape[0]):
        word = words[w]
        for first in range(0, length, LANES):
            same = same_as(parts, base + first, word) & ((1 << min(length - first, LANES)) - 1)
            # Where there is no such word, the first one is weighed for nothing.
            part = log[np.uint64(behind + first + (lowest(same | (1 << LANES)) & (LANES - 1)))] * weights[w]
            total += part if same else 0.0
            last = np.int64(word) if same else last
    return total, last


@lean_kernel
def _listed_at(value: Any, seq: Int, found: Int, best: Floats, best_at: Ints, numbers: Ints) -> Int:
    """Return the rank of a message among those that are listed; without branches, as far as scores differ."""
    rank, mask = np.int64(0), np.uint64(numbers.shape[0] - 1)
    for i in range(np.uint64(found)):
        rank += best[i] > value
    while rank < found and best[rank] == value and numbers[np.uint64(best_at[rank] + 2) & mask] >= seq:
        rank += 1
    return rank


@lean_kernel
def _verify(
    word: Int, count: Int, one: One, words: Slots, weights: Floats, place: Slots, frame: Floats, log: Floats,
    numbers: Ints, parts: Slots, best: Floats, best_at: Ints, candidates: Slots, outcome: Ints,
) -> None:  # fmt: skip
    """Score candidates, and list those that are wanted, best first; each counts through the last word that it shares."""
    x, y, alpha, bound, ratio, first, stop = one
    mask = np.uint64(log.shape[0] - 1)
    least, most, found = outcome[LEAST], outcome[MOST], outcome[FOUND]
    limit, left = best[best.shape[0] - 1], False
    for c in range(count):
        at = np.int64(candidates[np.uint64(c)])
        seq = numbers[np.uint64(at + 2) & mask]
        if seq < first or seq >= stop:
            continue
        start, length = np.int64(np.uint64(at) & mask), np.int64(numbers[np.uint64(at + 3) & mask])
        if words.shape[0] <= LANES and start + 2 * (length + LANES) < log.shape[0]:
            total, last = _shared(start, length, words, weights, log, parts)
        else:  # many words are looked up; and a message may go round the end of the ring
            total, last = text_of(at, weights, place, log, numbers, parts)
        if last != word:
            continue
        far = _distance(log[np.uint64(at) & mask], log[np.uint64(at + 1) & mask], x, y, frame[GLOBE])
        value = alpha * (1.0 - far / frame[FAR]) + (1.0 - alpha) * total
        if value < limit:
            left = True
            continue
        rank = _listed_at(value, seq, found, best, best_at, numbers)
        if found == most:
            left = True
            if rank == most:
                continue
        else:
            found += 1
        before, behind = np.uint64(rank), np.uint64(found - 1)
        while behind > before:
            best[behind], best_at[behind] = best[behind - np.uint64(1)], best_at[behind - np.uint64(1)]
            behind -= np.uint64(1)
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
    word: Int, count: Int, one: One, words: Slots, weights: Floats, place: Slots, frame: Floats,
    log: Floats, numbers: Ints, parts: Slots, best: Floats, best_at: Ints, lot: Lot, outcome: Ints,
) -> None:  # fmt: skip
    """Verify a lot: first as many as are wanted, those of the highest bounds; then what their scores have left of the rest.

    Most bounds are next to the score, so few are verified in vain.
    """
    candidates, bounds, picked, counts = lot
    mask, alpha, rest = log.shape[0] - 1, one[2] + frame[SLACK], np.int64(0)
    least = np.float32(-np.inf)
    if count > outcome[LEAST]:
        least = _highest(count, bounds, alpha, outcome[LEAST], counts)
    for turn in range(2):
        taken = np.int64(0)
        for c in range(count if turn == 0 else rest):
            at, bound = candidates[c], bounds[c]
            if bound >= least:
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
                word, taken, one, words, weights, place, frame, log, numbers, parts, best, best_at, picked,
                outcome,
            )  # fmt: skip
        if rest == 0:
            return
        least = np.float32(best[best.shape[0] - 1] - alpha)


@lean_kernel
def scan(
    word: Int, begin: Int, end: Int, one: One, factors: Factors, chosen: Slots, here: Singles, cells: Slots,
    posts: Singles, marks: Slots, words: Slots, weights: Floats, place: Slots, frame: Floats, log: Floats,
    numbers: Ints, parts: Slots, best: Floats, best_at: Ints, lot: Lot, outcome: Ints,
) -> None:  # fmt: skip
    """Look at the rings of chosen cells, and list what is wanted.

    `factors` are the subscription's part of the bound: (1 - alpha) times the weight of the word and the norm below it, the
    signature of what is below. The bound of a posting is what its score can be above alpha. Without branches: whether a
    posting is a candidate cannot be foreseen.
    """
    weight, below, signature = factors
    dims, found = here.shape[0], np.uint64(0)
    # Unsigned, so that nothing is counted from the end: that costs as much as the test itself.
    of_weight, of_below = np.uint64(dims + WEIGHT), np.uint64(dims + BELOW)
    of_signature, of_position = np.uint64(dims + SIGNATURE), np.uint64(dims + POSITION)
    at_x, at_y, at_z = here[0], here[1], here[dims - 1]
    least = np.float32(best[best.shape[0] - 1] - one[2] - frame[SLACK])
    alpha, candidates, bounds = np.float32(one[2]), lot[0], lot[1]
    for c in range(begin, end):
        cell = np.int64(chosen[c])
        ring, front, length = np.int64(cells[cell, RING]), np.int64(cells[cell, FRONT]), np.int64(cells[cell, LENGTH])
        room = np.int64(1) << np.int64(cells[cell, ROOM])
        outcome[SEEN] += length
        while length > 0:  # what stands in a row, and fits into the lot
            some = min(min(length, room - front), ENOUGH - np.int64(found))
            was = found
            for o in range(np.uint64(ring + front), np.uint64(ring + front + some)):
                rest = below * posts[o, of_below]
                bound = weight * posts[o, of_weight]
                bound += rest if marks[o, of_signature] & signature != 0 else np.float32(0)
                across, up = posts[o, np.uint64(0)] - at_x, posts[o, np.uint64(1)] - at_y
                gap = across * across + up * up
                if dims > 2:
                    gap += (posts[o, np.uint64(2)] - at_z) * (posts[o, np.uint64(2)] - at_z)
                bound -= alpha * np.sqrt(gap)
                candidates[found], bounds[found] = marks[o, of_position], bound
                found += np.uint64(bound >= least)
            if np.int64(found - was) < some:
                outcome[LEFT] = 1
            length, front = length - some, (front + some) & (room - 1)
            if found == ENOUGH:
                _settle(
                    word, np.int64(found), one, words, weights, place, frame, log, numbers, parts, best,
                    best_at, lot, outcome,
                )  # fmt: skip
                found = np.uint64(0)
                least = np.float32(best[best.shape[0] - 1] - one[2] - frame[SLACK])
    if found > 0:
        _settle(
            word, np.int64(found), one, words, weights, place, frame, log, numbers, parts, best, best_at, lot,
            outcome,
        )  # fmt: skip
