"""Kernels of CIQ: bounds of subscriptions by covering cell, and inverted files that are merged by slot.

A place in the unit square has a cell on each level 1 to `depth`, which divides it into 4^level cells. What covers the square
for a subscription are the three other quarters of each of its cells, and its own finest cell: every place is in one of them,
and in no other. The cell of level l and quarter q is number ``3 * (l - 1) + (q ^ own) - 1`` of its cells, where `own` is
its own quarter there; its own cell is the last.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from operators.indexes.topk.scored_table import ALPHA, COUNT, FIRST, INLINE, NORM, THETA
from streams.kernel import kernel

Int = Any  # a machine integer, numpy's or Python's
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Slots = NDArray[np.int32]

LEAST = 1e-6
_UP = np.float32(1.000001)


@kernel
def _code(u: float, v: float, level: Int) -> Int:
    """Return the cell of a place on a level: two bits a level, the coarsest first."""
    side = 1 << level
    column, line = min(np.int64(u * side), side - 1), min(np.int64(v * side), side - 1)
    code = np.int64(0)
    for b in range(level):
        code |= (((column >> b) & 1) << (2 * b)) | (((line >> b) & 1) << (2 * b + 1))
    return code


@kernel
def codes(spots: Floats, depth: Int, out: Ints) -> None:
    """Write the finest cell of each place."""
    for i in range(spots.shape[0]):
        out[i] = _code(spots[i, 0], spots[i, 1], depth)


@kernel
def _apart(u: float, v: float, code: Int, level: Int) -> float:
    """Return how far a place is from a cell."""
    column, line = np.int64(0), np.int64(0)
    for b in range(level):
        column |= ((code >> (2 * b)) & 1) << b
        line |= ((code >> (2 * b + 1)) & 1) << b
    side = 1.0 / (1 << level)
    du = max(max(column * side - u, u - (column + 1) * side), 0.0)
    dv = max(max(line * side - v, v - (line + 1) * side), 0.0)
    return math.sqrt(du * du + dv * dv)


@kernel
def bounds(slots: Slots, spots: Floats, own: Ints, depth: Int, diagonal: float, lines: Floats, least: Singles) -> None:
    """Write MinT of subscriptions for each of their cells: what the texts must have in common at least, rounded down."""
    for i in range(slots.shape[0]):
        slot = slots[i]
        alpha, theta = lines[slot, ALPHA], lines[slot, THETA]
        by = max(1.0 - alpha, LEAST)  # it multiplies what is to be bounded: a larger one is a bound as well
        for cell in range(3 * depth + 1):
            level, code = depth, own[slot]
            if cell < 3 * depth:
                level = cell // 3 + 1
                code = (own[slot] >> (2 * (depth - level))) ^ (cell % 3 + 1)
            near = max(1.0 - _apart(spots[slot, 0], spots[slot, 1], code, level) / diagonal, 0.0)
            wanted = (theta - alpha * near) / by
            if abs(wanted) < np.inf:
                wanted -= 1e-5 * (abs(wanted) + alpha / by) + 1e-6
            least[slot, cell] = wanted


@kernel
def postings(
    slots: Slots, own: Ints, depth: Int, parts: Slots, long: Slots, lines: Floats, idf: Floats, keys: Ints, who: Slots,
    weights: Singles,
) -> None:  # fmt: skip
    """Write a posting for each cell and keyword of subscriptions; a key is the level and cell above, the word below."""
    count = 0
    for i in range(slots.shape[0]):
        slot = slots[i]
        for cell in range(3 * depth + 1):
            level, code = depth, own[slot]
            if cell < 3 * depth:
                level = cell // 3 + 1
                code = (own[slot] >> (2 * (depth - level))) ^ (cell % 3 + 1)
            for j in range(parts[slot, COUNT]):
                word = parts[slot, FIRST + j] if parts[slot, COUNT] <= INLINE else long[parts[slot, FIRST] + j]
                keys[count] = (((np.int64(1) << (2 * level)) | code) << 32) | word
                who[count] = slot
                weights[count] = np.float32(idf[word] / lines[slot, NORM]) * _UP
                count += 1


@kernel
def _find(key: Int, keys: Ints) -> Int:
    low, high = 0, keys.shape[0]
    while low < high:
        middle = (low + high) >> 1
        if keys[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low if low < keys.shape[0] and keys[low] == key else -1


@kernel
def disseminate(
    first: Int, spots: Floats, off: Ints, message_words: Slots, weights: Floats, depth: Int, keys: Ints, begins: Ints,
    who: Slots, posted: Singles, own: Ints, least: Singles, cursor: Ints, end: Ints, weight: Floats, out: Ints, tally: Ints,
) -> Int:  # fmt: skip
    """Write the candidates (slot above, message below) of messages from `first` on; return the message to go on with.

    Document at a time: the lists of a cell are read side by side, in the order of slots, and a subscription whose texts have
    enough in common is a candidate. `cursor`, `end` and `weight` have room for the keywords of any message.
    """
    count, examined = np.int64(0), np.int64(0)
    for m in range(first, spots.shape[0]):
        room = count
        path = _code(spots[m, 0], spots[m, 1], depth)
        for level in range(1, depth + 1):
            cell = (np.int64(1) << (2 * level)) | (path >> (2 * (depth - level)))
            lists = 0
            for j in range(off[m], off[m + 1]):
                at = _find((cell << 32) | message_words[j], keys)
                if at >= 0:
                    cursor[lists], end[lists], weight[lists] = begins[at], begins[at + 1], weights[j]
                    lists += 1
            while lists > 0:
                slot = who[cursor[0]]
                for k in range(1, lists):
                    slot = min(slot, who[cursor[k]])
                total, k = 0.0, 0
                while k < lists:
                    if who[cursor[k]] == slot:
                        total += weight[k] * posted[cursor[k]]
                        cursor[k] += 1
                        examined += 1
                        if cursor[k] == end[k]:
                            lists -= 1
                            cursor[k], end[k], weight[k] = cursor[lists], end[lists], weight[lists]
                            continue
                    k += 1
                quarter = (path >> (2 * (depth - level))) & 3
                mine = (own[slot] >> (2 * (depth - level))) & 3
                index = 3 * depth if quarter == mine else 3 * (level - 1) + (quarter ^ mine) - 1
                if total >= least[slot, index]:
                    if count == out.shape[0]:
                        tally[0] = room
                        tally[1] += examined
                        return m
                    out[count] = (np.int64(slot) << 32) | m
                    count += 1
    tally[0] = count
    tally[1] += examined
    return np.int64(spots.shape[0])
