"""The search of the IR-tree: best first (Cong, Jensen and Wu, Section 4), for many requests a call.

A heap has nodes by what a message below them can score at most, and messages by their scores. The bound of a node is

    alpha * (1 - mindist / maxdist) + (1 - alpha) * min(sum of a * largest b, norm of the a)

over the words of the subscription, of weights a, that are below the node, with the largest weight b there. It is computed in
the steps of a score, each of which is monotone, so it is no less than any of these scores in float64 either; the norm, by
which no cosine is larger, is widened. Of equal values a node comes first: it may have a newer message of the same score.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from operators.indexes.topk.ir_tree_files import FIRST, FOLLOWING, LANE, LEVEL, ROOT, entry_of, weight_of
from operators.indexes.topk.ir_tree_kernels import LANE as OWN_LANE
from operators.indexes.topk.ir_tree_kernels import LEAF, SEQ
from streams.kernel import kernel

__all__ = ["OUTCOME_SIZE", "SEEN", "TOP", "search", "texts"]

Int = Any  # a machine integer, numpy's or Python's
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Slots = NDArray[np.int32]

#: Places in `outcome`: nodes and messages looked at, messages written.
SEEN, TOP = range(2)
OUTCOME_SIZE = 2

#: In the heap a message is ordered by its `seq`, a node by a number above all of these.
_NODE = 1 << 62
#: What norms are widened by.
_UP = 1.0 + 1e-9


@kernel
def _better(score: Any, key: Int, other: Any, other_key: Int) -> Any:
    return score > other or (score == other and key > other_key)


@kernel
def _push(size: Int, score: Any, key: Int, item: Int, scores: Floats, keys: Ints, items: Slots) -> None:
    """Put an item into a heap of so many."""
    at = size
    while at > 0 and _better(score, key, scores[(at - 1) >> 1], keys[(at - 1) >> 1]):
        above = (at - 1) >> 1
        scores[at], keys[at], items[at] = scores[above], keys[above], items[above]
        at = above
    scores[at], keys[at], items[at] = score, key, item


@kernel
def _pop(size: Int, scores: Floats, keys: Ints, items: Slots) -> None:
    """Take the best item out of a heap of so many."""
    last, at = size - 1, np.int64(0)
    score, key, item = scores[last], keys[last], items[last]
    while 2 * at + 1 < last:
        below = 2 * at + 1
        if below + 1 < last and _better(scores[below + 1], keys[below + 1], scores[below], keys[below]):
            below += 1
        if not _better(scores[below], keys[below], score, key):
            break
        scores[at], keys[at], items[at] = scores[below], keys[below], items[below]
        at = below
    scores[at], keys[at], items[at] = score, key, item


@kernel
def _apart(point: Floats, low: Floats, high: Floats, globe: Any) -> Any:
    """Return how far a box is at least; on the globe coordinates are those of unit vectors, and last bits may be wrong."""
    total = 0.0
    for d in range(point.shape[0]):
        gap = max(low[d] - point[d], 0.0, point[d] - high[d])
        total += gap * gap
    if globe == 0.0:
        return np.sqrt(total)
    return 2.0 * globe * np.arcsin(min(1.0, 0.5 * np.sqrt(total)))


@kernel
def _gather(
    node: Int, words: Slots, weights: Floats, entries: Slots, table: Slots, lanes: Slots, weight_in: Floats, texts: Floats,
    squares: Floats, touched: Slots,
) -> Int:  # fmt: skip
    """Add up the products of weights by lane, and the squares of the words that are there; return how many lanes have one."""
    count = np.int64(0)
    for j in range(words.shape[0]):
        entry = entry_of(node, np.int64(words[j]), entries, table) if words[j] >= 0 else np.int64(-1)
        posting = np.int64(entries[entry, FIRST]) if entry >= 0 else np.int64(-1)
        while posting >= 0:
            lane = np.int64(lanes[posting, LANE])
            if squares[lane] < 0.0:
                texts[lane] = squares[lane] = 0.0
                touched[count] = lane
                count += 1
            texts[lane] += weight_in[posting] * weights[j]
            squares[lane] += weights[j] * weights[j]
            posting = np.int64(lanes[posting, FOLLOWING])
    return count


@kernel
def _expand(
    node: Int, size: Int, one: Any, here: Floats, words: Slots, weights: Floats, globe: Any, far: Any, log: Any, tree: Any,
    files: Any, heap: Any, texts: Floats, squares: Floats, touched: Slots, outcome: Ints,
) -> Int:  # fmt: skip
    """Put the children of a node that share a word into the heap, messages as far as they are of the range."""
    points, seqs, _, _ = log
    nodes, boxes, children = tree
    entries, table, lanes, weight_in = files
    scores, keys, items = heap
    alpha, first, stop = one
    dims, mask = here.shape[0], points.shape[0] - 1
    count = _gather(node, words, weights, entries, table, lanes, weight_in, texts, squares, touched)
    outcome[SEEN] += count
    for i in range(count):
        lane = np.int64(touched[i])
        child, text, norm = np.int64(children[node, lane]), texts[lane], np.sqrt(squares[lane]) * _UP
        squares[lane] = -1.0
        if nodes[node, LEVEL] > 0:
            key = _NODE + child
            apart, text = _apart(here, boxes[child, :dims], boxes[child, dims:], globe), min(text, norm)
        else:
            slot = child & mask
            key = seqs[slot, SEQ]
            if key < first or key >= stop:
                continue
            apart = _apart(here, points[slot], points[slot], globe)
        value = alpha * (1.0 - apart / far) + (1.0 - alpha) * text
        _push(size, value, key, child, scores, keys, items)
        size += 1
    return size


@kernel
def _search(
    begin: Int, asks: Any, words: Slots, here: Floats, globe: Any, far: Any, log: Any, tree: Any, files: Any, state: Ints,
    heap: Any, out: Any, outcome: Ints,
) -> Int:  # fmt: skip
    """Answer requests from `begin` on; return where to go on when there is room for more, or the end.

    `asks` are columns of `Requests`; `words` are the numbers of their keywords, -1 where no message has them; `out` takes
    offsets, scores, `seq`, names and floors.
    """
    alpha, off, weights, least, most, bound, ratio, first, stop = asks
    out_off, out_score, out_seq, out_at, floor = out
    scores, keys, items = heap
    lanes = tree[2].shape[1]
    texts, squares, touched = np.zeros(lanes), np.full(lanes, -1.0), np.empty(lanes, np.int32)
    for r in range(begin, here.shape[0]):
        one, part = (alpha[r], first[r], stop[r]), slice(off[r], off[r + 1])
        start, seen, count, limit = outcome[TOP], outcome[SEEN], np.int64(0), -np.inf
        _push(np.int64(0), np.inf, np.int64(_NODE), state[ROOT], scores, keys, items)
        size = np.int64(1)
        while size > 0 and count < most[r]:
            value, key, item = scores[0], keys[0], np.int64(items[0])
            if value < limit:
                break
            _pop(size, scores, keys, items)
            size -= 1
            if key >= _NODE:
                if size + lanes > scores.shape[0]:
                    outcome[TOP], outcome[SEEN] = start, seen
                    return np.int64(r)
                size = _expand(
                    item, size, one, here[r], words[part], weights[part], globe, far, log, tree, files, heap, texts,
                    squares, touched, outcome,
                )  # fmt: skip
                continue
            if outcome[TOP] == out_at.shape[0]:
                outcome[TOP], outcome[SEEN] = start, seen
                return np.int64(r)
            top = outcome[TOP]
            out_score[top], out_seq[top], out_at[top] = value, key, item
            outcome[TOP] += 1
            count += 1
            if count == least[r]:
                limit = min(value, ratio[r] * value) if ratio[r] != 0.0 else bound[r]
        out_off[r + 1] = outcome[TOP]
        # What is left in the heap is worse than the limit, or at most as good as the last one.
        if size == 0:
            floor[r] = -np.inf
        else:
            last = out_score[outcome[TOP] - 1]
            floor[r] = limit if scores[0] < limit <= last else last
    return np.int64(here.shape[0])


@kernel
def texts(
    off: Ints, at: Ints, word_off: Slots, words: Slots, weights: Floats, log: Any, files: Any, out: Floats
) -> None:
    """Write the cosines of messages that were found, for those who compute scores themselves."""
    _, _, homes, _ = log
    entries, table, lanes, weight_in = files
    for r in range(off.shape[0] - 1):
        for i in range(off[r], off[r + 1]):
            slot, out[i] = at[i] & (homes.shape[0] - 1), 0.0
            leaf, lane = np.int64(homes[slot, LEAF]), np.int64(homes[slot, OWN_LANE])
            for j in range(word_off[r], word_off[r + 1]):
                entry = entry_of(leaf, np.int64(words[j]), entries, table) if words[j] >= 0 else np.int64(-1)
                if entry >= 0:
                    weight = weight_of(entry, lane, entries, lanes, weight_in)
                    out[i] += max(weight, 0.0) * weights[j]


#: Its arguments come as tuples of arrays, which a type checker cannot count.
search: Any = _search
