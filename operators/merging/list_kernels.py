"""Short lists of several evaluators as one: sorted, without what is listed twice, and cut, place by place."""

from typing import Any

import numpy as np

from streams.kernel import kernel

__all__ = ["MOST", "unite_short"]

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
