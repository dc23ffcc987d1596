"""Kernels of IGPT: one leaf of the quadtree, with its inverted file, against the messages of an epoch.

Words go from rare to frequent in the paper, so ids of keywords descend: what is *after* a keyword has smaller ids. A posting is
a subscription under one of its keywords, in float64:

    K_STAR      kScore* = theta / (1 - alpha), a little lower, so that rounding errors prune nothing
    TAIL_WEIGHT maxwt(G[s]) and
    TAIL_ALPHA  G[s].alpha*: the largest of its group from here on (Equations 6 and 7)
    WEIGHT      of the keyword in the subscription
    SUM, MOST   wtsum(s.w) and maxwt(s.w): of the keyword and those after it; LATER: maxwt of those after it
    A_STAR      alpha* = alpha / (1 - alpha)
    INNER       how far the subscription is from the border of its cell, as a part of maxdist

1 - alpha is at least `LEAST` in these quotients: it multiplies what is to be bounded, so a larger one is a bound as well, and
alpha = 1 needs no case of its own.

`who` says which of the leaf's subscriptions a posting is. Postings of a keyword are together, groups of similar alpha one after
the other, by K_STAR within a group. `groups` are rows of the number of the group, its first posting and the next group's.
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
Slots = NDArray[np.int32]

K_STAR, TAIL_WEIGHT, TAIL_ALPHA, WEIGHT, SUM, MOST, LATER, A_STAR, INNER = range(9)
WIDTH = 9
GROUP, BEGIN, END = range(3)
LEAST = 1e-6
_SLACK = 1e-9

#: Bits of the techniques that are in use.
PREFIX, REFINED, INNER_BOUND, OUTER_BOUND, UNSEEN, GROUPS, EARLY, CELLS = (1 << bit for bit in range(8))


@kernel
def k_star(theta: float, alpha: float) -> float:
    """Return kScore*, a little lower."""
    by = max(1.0 - alpha, LEAST)
    return theta / by - _SLACK * (1.0 + abs(theta / by) + alpha / by) if abs(theta) < np.inf else theta


@kernel
def text_threshold(star: float, a_star: float, nearness: float) -> float:
    """Return lambda_T: what the texts must have in common at least (Equation 2)."""
    return star - a_star * nearness


@kernel
def unseen_bound(sum_s: float, most_s: float, sum_m: float, most_m: float) -> float:
    """Return what keywords that are still to come can add at most (Equation 5)."""
    return min(sum_s * most_m, sum_m * most_s)


@kernel
def place_threshold(theta: float, alpha: float) -> float:
    """Return lambda_S: how near a message must be at least, whatever it says (Equation 8); -inf where places do not count."""
    if alpha < LEAST:
        return -np.inf if theta <= 1.0 + 2.0 * LEAST else np.inf
    wanted = (theta - (1.0 - alpha)) / alpha
    return wanted - _SLACK * (1.0 + 1.0 / alpha) if abs(wanted) < np.inf else wanted


@kernel
def describe(
    slots: Slots, spots: Floats, low_u: float, low_v: float, side: float, diagonal: float, lines: Floats, parts: Slots,
    long: Slots, idf: Floats, postings: Floats, who: Slots, words: Slots,
) -> None:  # fmt: skip
    """Write the postings of subscriptions, one after the other."""
    count = 0
    for i in range(slots.shape[0]):
        slot = slots[i]
        alpha, theta = lines[slot, ALPHA], lines[slot, THETA]
        u, v = spots[slot, 0], spots[slot, 1]
        inner = min(min(u - low_u, low_u + side - u), min(v - low_v, low_v + side - v)) / diagonal
        total, most = 0.0, 0.0
        for j in range(parts[slot, COUNT]):
            word = parts[slot, FIRST + j] if parts[slot, COUNT] <= INLINE else long[parts[slot, FIRST] + j]
            weight = idf[word] / lines[slot, NORM]
            total += weight
            postings[count, K_STAR] = k_star(theta, alpha)
            postings[count, WEIGHT], postings[count, SUM] = weight, total
            postings[count, MOST], postings[count, LATER] = max(most, weight), most
            postings[count, A_STAR] = alpha / max(1.0 - alpha, LEAST)
            postings[count, INNER] = max(inner, 0.0)
            who[count], words[count] = i, word
            most = max(most, weight)
            count += 1


@kernel
def lowest(slots: Slots, lines: Floats) -> float:
    """Return the least place threshold of subscriptions."""
    least = np.inf
    for i in range(slots.shape[0]):
        least = min(least, place_threshold(lines[slots[i], THETA], lines[slots[i], ALPHA]))
    return least


@kernel
def message_sums(off: Ints, weights: Floats, sums: Floats, mosts: Floats) -> None:
    """Write wtsum and maxwt of each keyword of messages (Equations 3 and 4)."""
    for m in range(off.shape[0] - 1):
        total, most = 0.0, 0.0
        for j in range(off[m], off[m + 1]):
            total, most = total + weights[j], max(most, weights[j])
            sums[j], mosts[j] = total, most


@kernel
def tails(postings: Floats, begin: Int, end: Int) -> None:
    """Fill in what each posting of a group knows of those from it on."""
    weight, a_star = 0.0, 0.0
    for p in range(end - 1, begin - 1, -1):
        weight, a_star = max(weight, postings[p, MOST]), max(a_star, postings[p, A_STAR])
        postings[p, TAIL_WEIGHT], postings[p, TAIL_ALPHA] = weight, a_star


@kernel
def all_tails(postings: Floats, groups: Slots) -> None:
    """Do so for all groups of a leaf."""
    for g in range(groups.shape[0]):
        tails(postings, groups[g, BEGIN], groups[g, END])


@kernel
def _find(word: Int, words: Slots) -> Int:
    low, high = 0, words.shape[0]
    while low < high:
        middle = (low + high) >> 1
        if words[middle] < word:
            low = middle + 1
        else:
            high = middle
    return low if low < words.shape[0] and words[low] == word else -1


@kernel
def retune(
    rank: Slots, slots: Slots, lines: Floats, parts: Slots, long: Slots, words: Slots, word_groups: Slots, groups: Slots,
    group_of: Slots, postings: Floats, who: Slots,
) -> None:  # fmt: skip
    """Move the postings of subscriptions (their places in the leaf) to where their new thresholds belong."""
    row = np.empty(WIDTH)
    for i in range(rank.shape[0]):
        slot = slots[rank[i]]
        star = k_star(lines[slot, THETA], lines[slot, ALPHA])
        for j in range(parts[slot, COUNT]):
            word = parts[slot, FIRST + j] if parts[slot, COUNT] <= INLINE else long[parts[slot, FIRST] + j]
            at = _find(word, words)
            g = np.int64(word_groups[at])
            while groups[g, GROUP] != group_of[rank[i]]:
                g += 1
            p = np.int64(groups[g, BEGIN])
            while who[p] != rank[i]:
                p += 1
            for c in range(WIDTH):
                row[c] = postings[p, c]
            row[K_STAR] = star
            while p + 1 < groups[g, END] and postings[p + 1, K_STAR] < star:
                _move(p + 1, p, postings, who)
                p += 1
            while p > groups[g, BEGIN] and postings[p - 1, K_STAR] > star:
                _move(p - 1, p, postings, who)
                p -= 1
            for c in range(WIDTH):
                postings[p, c] = row[c]
            who[p] = rank[i]
            tails(postings, groups[g, BEGIN], groups[g, END])


@kernel
def _move(source: Int, target: Int, postings: Floats, who: Slots) -> None:
    for c in range(WIDTH):
        postings[target, c] = postings[source, c]
    who[target] = who[source]


@kernel
def _outer(u: float, v: float, low_u: float, low_v: float, side: float) -> float:
    """Return how far a place is from a cell."""
    du = max(max(low_u - u, u - (low_u + side)), 0.0)
    dv = max(max(low_v - v, v - (low_v + side)), 0.0)
    return math.sqrt(du * du + dv * dv)


@kernel
def _stop(begin: Int, end: Int, sum_m: float, near: float, postings: Floats) -> Int:
    """Return the first posting of a group from which on nothing can be entered (Theorem 4)."""
    while begin < end:
        p = (begin + end) >> 1
        if postings[p, TAIL_WEIGHT] * sum_m < text_threshold(postings[p, K_STAR], postings[p, TAIL_ALPHA], near):
            end = p
        else:
            begin = p + 1
    return begin


@kernel
def disseminate(
    first: Int, spots: Floats, off: Ints, message_words: Slots, sums: Floats, mosts: Floats, weights: Floats, use: Int,
    low_u: float, low_v: float, side: float, diagonal: float, least: float, slots: Slots, words: Slots, word_groups: Slots,
    groups: Slots, postings: Floats, who: Slots, seen: Ints, partial: Floats, skipped_at: Ints, skips: Ints, out: Ints,
    tally: Ints,
) -> Int:  # fmt: skip
    """Write the candidates (slot above, message below) of messages from `first` on; return the message to go on with.

    Algorithm 1, mended. A subscription that has come up at one keyword has a partial similarity; what its later keywords add
    counts before it is held against the threshold (Theorem 1 alone would lose it). And where its group was skipped since, as a
    whole or in part, its partial similarity may lack something, so from then on it is a candidate to the end. `sums` and
    `mosts` are wtsum and maxwt of messages; `seen`, `partial` and `skipped_at` are by place in the leaf, `skips` by group.
    """
    count, examined = np.int64(0), np.int64(0)
    for m in range(first, spots.shape[0]):
        if count + slots.shape[0] > out.shape[0]:
            tally[0], tally[1] = count, tally[1] + examined
            return m
        outer = _outer(spots[m, 0], spots[m, 1], low_u, low_v, side) / diagonal
        near = max(1.0 - (outer if use & OUTER_BOUND else 0.0) + _SLACK, 0.0)
        if use & CELLS and least > near:
            continue
        mark, opened = np.int64(m) + 1, count
        skips[:] = 0
        for j in range(off[m + 1] - 1, off[m] - 1, -1):
            at = _find(message_words[j], words)
            if at < 0:
                continue
            sum_m, most_m, later_sum = sums[j], mosts[j], sums[j] - weights[j]
            later_most = mosts[j - 1] if j > off[m] else 0.0
            for g in range(word_groups[at], word_groups[at + 1]):
                begin, end, number = np.int64(groups[g, BEGIN]), np.int64(groups[g, END]), groups[g, GROUP]
                if use & GROUPS and postings[begin, TAIL_WEIGHT] * sum_m < text_threshold(
                    postings[begin, K_STAR], postings[begin, TAIL_ALPHA], near
                ):  # Theorem 3
                    skips[number] += 1
                    continue
                stop = _stop(begin, end, sum_m, near, postings) if use & EARLY else end
                before_this = skips[number]
                if stop < end:
                    skips[number] += 1
                examined += stop - begin
                for p in range(begin, stop):
                    i = who[p]
                    known = seen[i] == mark
                    if known and partial[i] == -np.inf:
                        continue
                    inner = postings[p, INNER] if use & INNER_BOUND and outer > 0.0 else 0.0
                    wanted = text_threshold(postings[p, K_STAR], postings[p, A_STAR], max(near - inner, 0.0))
                    before = 0.0
                    if known:
                        before = partial[i] if skipped_at[i] == before_this else np.inf
                    else:
                        out[count] = i
                        count += 1
                    seen[i], skipped_at[i] = mark, skips[number]
                    if (use & PREFIX and before + postings[p, SUM] < wanted) or (
                        use & REFINED and before + most_m * postings[p, SUM] < wanted
                    ):  # Lemma 3, Theorem 1
                        partial[i] = -np.inf
                        continue
                    partial[i] = before + postings[p, WEIGHT] * weights[j]
                    rest = unseen_bound(
                        postings[p, SUM] - postings[p, WEIGHT], postings[p, LATER], later_sum, later_most
                    )
                    if use & UNSEEN and partial[i] + rest + _SLACK < wanted:  # Theorem 2
                        partial[i] = -np.inf
        kept = opened
        for c in range(opened, count):
            if partial[out[c]] != -np.inf:
                out[kept] = (np.int64(slots[out[c]]) << 32) | m
                kept += 1
        count = kept
    tally[0], tally[1] = count, tally[1] + examined
    return np.int64(spots.shape[0])
