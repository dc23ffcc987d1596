"""Lists of several evaluators as one, place by place: short ones united and cut, counts of terms added up."""

from typing import Any

import numpy as np

from streams.kernel import kernel

__all__ = ["MOST", "add_up", "unite_short"]

#: So many items of one place are sorted by insertion: lists come sorted, so it is a merge of a few runs.
MOST = 128


@kernel
def unite_short(
    head: Any, off: Any, seq: Any, value: Any, ascending: Any, first_seen: Any, k: Any, out_off: Any, out: Any
) -> None:
    """Write the places of the best items of each answer, the best first.

    Lists `head[i]` to `head[i + 1]` make up answer i, in all no more than `MOST` items; those of a list are `off[l]` to
    `off[l + 1]`. Where `ascending`, small values are best, then small `seq`; else large values, then large `seq`, or small
    (`first_seen`). Of items with the same `seq` the best counts; among equals the one that comes first.
    """
    item = np.empty(MOST, np.int64)
    rank = np.empty(MOST, np.float64)
    tie = np.empty(MOST, np.int64)
    top = 0
    for answer in range(head.shape[0] - 1):
        out_off[answer] = top
        count = 0
        for p in range(off[head[answer]], off[head[answer + 1]]):
            worth = value[p] if ascending[answer] else -value[p]
            second = seq[p] if ascending[answer] or first_seen else -seq[p]
            at = count
            while at > 0 and (worth < rank[at - 1] or (worth == rank[at - 1] and second < tie[at - 1])):
                item[at], rank[at], tie[at] = item[at - 1], rank[at - 1], tie[at - 1]
                at -= 1
            item[at], rank[at], tie[at] = p, worth, second
            count += 1
        begin = top
        for place in range(count):
            if top - begin == k[answer]:
                break
            twice = False
            for earlier in range(begin, top):
                if seq[out[earlier]] == seq[item[place]]:
                    twice = True
                    break
            if not twice:
                out[top] = item[place]
                top += 1
    out_off[head.shape[0] - 1] = top


@kernel
def add_up(begin: Any, terms: Any, values: Any, k: Any, row: Any, item: Any, total: Any) -> Any:
    """Add up the counts of each answer by term, and write those that reach the kth of it; return how many.

    Answer i has the items `begin[i]` to `begin[i + 1]`. Written are its number, an item that names the term, and the sum;
    `row`, `item` and `total` have room for all items. Terms of an answer are found again in a hash, whose places are stamped
    with the answer's number.
    """
    widest, most = np.int64(0), np.int64(1)
    for answer in range(begin.shape[0] - 1):
        widest, most = max(widest, begin[answer + 1] - begin[answer]), max(most, np.int64(k[answer]))
    room = np.int64(8)
    while room < 2 * widest:
        room *= 2
    stamp, place_of, best = np.zeros(room, np.int64), np.empty(room, np.int64), np.empty(most)
    top = 0
    for answer in range(begin.shape[0] - 1):
        size = np.int64(8)
        while size < 2 * (begin[answer + 1] - begin[answer]):
            size *= 2
        first = top
        for p in range(begin[answer], begin[answer + 1]):
            mixed = np.uint64(terms[p]) * np.uint64(0x9E3779B97F4A7C15)
            at = np.int64(mixed >> np.uint64(32)) & (size - 1)
            while stamp[at] == answer + 1 and terms[item[place_of[at]]] != terms[p]:
                at = (at + 1) & (size - 1)
            if stamp[at] == answer + 1:
                total[place_of[at]] += values[p]
            else:
                stamp[at], place_of[at] = answer + 1, top
                row[top], item[top], total[top] = answer, p, values[p]
                top += 1
        if top - first <= k[answer]:
            continue
        filled = 0
        for t in range(first, top):  # `best` ascends
            if filled == k[answer] and total[t] <= best[0]:
                continue
            if filled < k[answer]:
                i = filled
                while i > 0 and best[i - 1] > total[t]:
                    best[i] = best[i - 1]
                    i -= 1
                filled += 1
            else:
                i = 0
                while i + 1 < filled and best[i + 1] < total[t]:
                    best[i] = best[i + 1]
                    i += 1
            best[i] = total[t]
        kept = first
        for t in range(first, top):
            if total[t] >= best[0]:
                row[kept], item[kept], total[kept] = answer, item[t], total[t]
                kept += 1
        top = kept
    return top
