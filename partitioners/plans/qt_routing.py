"""Kernels of the QT-tree: textual partitioning of objects, and routing down the tree.

Layout. Node n is a leaf (`split[n] == 0`, its number in `leaf[n]`), divided by space (1, at `middle[n]`) or by text
(2); its four children start at `child[n]`. A node divided by text is table `text[n]`: words `word_off[t]` ..
`word_off[t + 1]` ascending, with their shares in M_srq and M_skq and a bit for each child whose keyword list has the
word; `held[t, c]` are H_srq, H_skq of child c, `objects[t, c]` its objects, `weight[t]` the factors Pr(type) * p_type,
and `lengths[t]` the distribution of query lengths.
"""

import numpy as np
from numpy.typing import NDArray

from partitioners.columns import Csr, Floats, Ints, Offsets, Workers
from streams.kernel import kernel

__all__ = ["leaf_of_points", "learned_leaves", "leaves_of_regions", "split_by_text"]


@kernel
def _covered_share(covered: float, lengths: Floats) -> float:
    """SSTD's Equation 1, as `query_distribution.covered_share`."""
    covered = min(covered, 1.0)
    power, missed = 1.0, 1.0
    total = float(lengths[1, 0])
    for length in range(lengths.shape[1]):
        total += lengths[0, length] * power
        if length > 0:
            total += lengths[1, length] * (1.0 - missed)
        power *= covered
        missed *= 1.0 - covered
    return total


@kernel
def _increment(held: Floats, fresh: Floats, objects: float, weight: Floats, lengths: Floats) -> float:
    """The workload increment of a child that takes one more object.

    Only the terms of SRQ and SKQ differ between children: the others grow alike, because their regions are the same.
    """
    total = 0.0
    for kind in range(2):
        if weight[kind] > 0.0:
            after = _covered_share(held[kind] + fresh[kind], lengths[kind]) * (objects + 1.0)
            total += weight[kind] * (after - _covered_share(held[kind], lengths[kind]) * objects)
    return total


@kernel
def split_by_text(
    kw_off: Ints, place: Ints, shares: Floats, weight: Floats, lengths: Floats
) -> tuple[Workers, NDArray[np.uint8], Floats, Floats]:
    """Assign objects, in their order, to the child of smallest increment; ties go to the child of fewest objects.

    `place` are positions in the node's words, -1 for a keyword that no SRQ or SKQ asks for. Returns the child of each
    object, the bits of each word, and H and the number of objects of each child.
    """
    words = shares.shape[1]
    child = np.empty(len(kw_off) - 1, np.int32)
    bits = np.zeros(words, np.uint8)
    held = np.zeros((4, 2))
    objects = np.zeros(4)
    fresh = np.empty((4, 2))
    for i in range(len(kw_off) - 1):
        fresh[:] = 0.0
        for j in range(kw_off[i], kw_off[i + 1]):
            if place[j] >= 0:
                for c in range(4):
                    if not bits[place[j]] >> c & 1:
                        fresh[c, 0] += shares[0, place[j]]
                        fresh[c, 1] += shares[1, place[j]]
        best, least = 0, np.inf
        for c in range(4):
            cost = _increment(held[c], fresh[c], objects[c], weight, lengths)
            if cost < least or (cost == least and objects[c] < objects[best]):
                best, least = c, cost
        child[i] = best
        objects[best] += 1.0
        held[best] += fresh[best]
        for j in range(kw_off[i], kw_off[i + 1]):
            if place[j] >= 0:
                bits[place[j]] |= np.uint8(1 << best)
    return child, bits, held, objects


@kernel
def _weighed(
    kw: Ints,
    t: int,
    word_off: Offsets,
    word: Ints,
    shares: Floats,
    bits: NDArray[np.uint8],
    held: Floats,
    objects: Floats,
    weight: Floats,
    lengths: Floats,
    place: Ints,
    fresh: Floats,
    cost: Floats,
) -> None:
    """Work out what an object with these keywords adds to each of the four children of table t.

    Fills `place` (of each keyword among the words, -1 for one that is not listed), `fresh` (what H_srq and H_skq of each
    child gain) and `cost` (the increments).
    """
    fresh[:] = 0.0
    for j in range(len(kw)):
        low, high = word_off[t], word_off[t + 1]
        while low < high:
            half = (low + high) >> 1
            if word[half] < kw[j]:
                low = half + 1
            else:
                high = half
        place[j] = -1
        if low < word_off[t + 1] and word[low] == kw[j]:
            place[j] = low
            for c in range(4):
                if not bits[low] >> c & 1:
                    fresh[c, 0] += shares[low, 0]
                    fresh[c, 1] += shares[low, 1]
    for c in range(4):
        cost[c] = _increment(held[t, c], fresh[c], objects[t, c], weight[t], lengths[t])


@kernel
def leaf_of_points(
    x: Floats,
    y: Floats,
    kw_off: Offsets,
    kw: Ints,
    scattered: Ints,
    split: NDArray[np.uint8],
    child: Workers,
    middle: Floats,
    leaf: Workers,
    text: Workers,
    word_off: Offsets,
    word: Ints,
    shares: Floats,
    bits: NDArray[np.uint8],
    held: Floats,
    objects: Floats,
    weight: Floats,
    lengths: Floats,
) -> Workers:
    """Return the leaf of each object; among children of equal increment, `scattered` chooses."""
    out = np.empty(len(x), np.int32)
    place, fresh, cost = np.empty(len(kw), np.int64), np.empty((4, 2)), np.empty(4)
    for i in range(len(x)):
        node = 0
        words = kw[kw_off[i] : kw_off[i + 1]]
        while split[node] != 0:
            if split[node] == 1:
                node = child[node] + (1 if x[i] >= middle[node, 0] else 0) + (2 if y[i] >= middle[node, 1] else 0)
                continue
            t = text[node]
            _weighed(words, t, word_off, word, shares, bits, held, objects, weight, lengths, place, fresh, cost)
            least = cost.min()
            pick = scattered[i] % np.sum(cost == least)
            for c in range(4):
                if cost[c] == least:
                    if pick == 0:
                        node = child[node] + c
                        break
                    pick -= 1
        out[i] = leaf[node]
    return out


@kernel
def learned_leaves(
    x: Floats,
    y: Floats,
    kw_off: Offsets,
    kw: Ints,
    split: NDArray[np.uint8],
    child: Workers,
    middle: Floats,
    leaf: Workers,
    text: Workers,
    word_off: Offsets,
    word: Ints,
    shares: Floats,
    bits: NDArray[np.uint8],
    held: Floats,
    objects: Floats,
    weight: Floats,
    lengths: Floats,
) -> Workers:
    """Return the leaf of each object, in their order; the child that takes one learns its keywords (Section 4.2).

    Writes `bits`, `held` and `objects`. Ties go to the child of fewest objects, as in `split_by_text`.
    """
    out = np.empty(len(x), np.int32)
    place, fresh, cost = np.empty(len(kw), np.int64), np.empty((4, 2)), np.empty(4)
    for i in range(len(x)):
        node = 0
        words = kw[kw_off[i] : kw_off[i + 1]]
        while split[node] != 0:
            if split[node] == 1:
                node = child[node] + (1 if x[i] >= middle[node, 0] else 0) + (2 if y[i] >= middle[node, 1] else 0)
                continue
            t = text[node]
            _weighed(words, t, word_off, word, shares, bits, held, objects, weight, lengths, place, fresh, cost)
            best = 0
            for c in range(1, 4):
                if cost[c] < cost[best] or (cost[c] == cost[best] and objects[t, c] < objects[t, best]):
                    best = c
            objects[t, best] += 1.0
            held[t, best] += fresh[best]
            for j in range(len(words)):
                if place[j] >= 0:
                    bits[place[j]] |= np.uint8(1 << best)
            node = child[node] + best
        out[i] = leaf[node]
    return out


@kernel
def leaves_of_regions(
    bounds: tuple[Floats, Floats, Floats, Floats],
    split: NDArray[np.uint8],
    child: Workers,
    middle: Floats,
    leaf: Workers,
) -> Csr:
    """Return the leaves that each query overlaps in space; text is not looked at (Section 4.2)."""
    rows = len(bounds[0])
    off = np.zeros(rows + 1, np.int32)
    out = np.empty(4 * rows + 4, np.int32)
    stack = np.empty(4 * len(split) + 1, np.int32)
    size = 0
    for i in range(rows):
        top = 0
        if bounds[0][i] <= bounds[2][i] and bounds[1][i] <= bounds[3][i]:
            stack[0] = 0
            top = 1
        while top > 0:
            top -= 1
            node = stack[top]
            if split[node] == 0:
                if size == len(out):
                    wider = np.empty(2 * size, np.int32)
                    wider[:size] = out
                    out = wider
                out[size] = leaf[node]
                size += 1
                continue
            for c in range(4):
                if split[node] == 1:
                    # A point goes right where x >= middle, so a closed interval reaches left only if it starts before.
                    if c & 1:
                        if not bounds[2][i] >= middle[node, 0]:
                            continue
                    elif bounds[0][i] >= middle[node, 0]:
                        continue
                    if c & 2:
                        if not bounds[3][i] >= middle[node, 1]:
                            continue
                    elif bounds[1][i] >= middle[node, 1]:
                        continue
                stack[top] = child[node] + c
                top += 1
        out[off[i] : size].sort()
        off[i + 1] = size
    return off, out[:size].copy()
