"""R-trees with inverted lists in their leaves and a table of terms in every node (SSTD, Section 6.1).

A tree is packed and never changes. Its arrays, by address in a row of the tree table (fields `FIRST` .. `LIST_LENGTH`):

    x, y    float64 an object, leaf by leaf: `LEAF` objects to a leaf
    order   int32: the rank of each from the tree's first
    boxes   float64 x 4 a node: leaves first, then level by level; `FAN` nodes have one above them, the root is last
    levels  int64: the first node of each level, and the end
    table   int32 a node and the end: its first term
    terms   int32: the words of a node, ascending
    counts  int32 a term: how many objects below the node have it
    begins  int32 a term of a leaf and the end: where its list begins
    lists   uint8: places of objects within their leaf
"""

from typing import Any

import numpy as np
from numba import carray  # type: ignore[attr-defined]

from operators.indexes.objects.nearest_kernels import offer, search_open
from operators.indexes.objects.probe_kernels import (
    ALL,
    ANY,
    AT_X,
    AT_Y,
    CIRCLE,
    EXAMINED,
    MAX_X,
    MAX_Y,
    MIN_X,
    MIN_Y,
    NEEDED,
    ONE,
    RADIUS,
    REGION_SIZE,
    inside,
    order_words,
    probe_open,
    read_region,
    scan_open,
)
from operators.indexes.objects.raw_arrays import doubles_at, ints_at, longs_at, pointer
from operators.indexes.objects.term_kernels import MET, count_object, count_open, list_terms
from streams.kernel import kernel

__all__ = ["FAN", "FIELDS", "LEAF", "bound", "leaf_tables", "skq", "srq", "stq", "upper_tables"]

#: Fields of a row of the tree table.
(
    FIRST, STOP, X, Y, OBJECTS, ORDER, BOXES, NODES, LEVELS, LEVEL_COUNT, TABLE, TERMS, TERM_LENGTH, COUNTS, BEGINS,
    BEGIN_LENGTH, LISTS, LIST_LENGTH,
) = range(18)  # fmt: skip
FIELDS = 18

#: Objects of a leaf, nodes below a node.
LEAF, FAN = 64, 16
#: Nodes that wait at most in a walk down a tree: `FAN` for each level but the lowest.
DEEP = 12 * FAN


@kernel
def bound(x: Any, y: Any, levels: Any, boxes: Any) -> None:
    """Find the boxes of all nodes."""
    boxes[:, :2] = np.inf
    boxes[:, 2:] = -np.inf
    for i in range(x.shape[0]):
        node = i // LEAF
        boxes[node, 0], boxes[node, 1] = min(boxes[node, 0], x[i]), min(boxes[node, 1], y[i])
        boxes[node, 2], boxes[node, 3] = max(boxes[node, 2], x[i]), max(boxes[node, 3], y[i])
    for level in range(levels.shape[0] - 2):
        for i in range(levels[level], levels[level + 1]):
            above = levels[level + 1] + (i - levels[level]) // FAN
            for side in range(2):
                boxes[above, side] = min(boxes[above, side], boxes[i, side])
                boxes[above, 2 + side] = max(boxes[above, 2 + side], boxes[i, 2 + side])


@kernel
def leaf_tables(
    off: Any, words: Any, counted: Any, place: Any, table: Any, terms: Any, counts: Any, begins: Any, lists: Any
) -> Any:  # fmt: skip
    """Make the tables and lists of leaves, from the words of objects in their order; return how many terms there are."""
    top, end = 0, 0
    met = np.empty(words.shape[0], np.int32)
    objects = off.shape[0] - 1
    for leaf in range((objects + LEAF - 1) // LEAF):
        table[leaf] = top
        kinds = 0
        first, last = leaf * LEAF, min(objects, (leaf + 1) * LEAF)
        for p in range(off[first], off[last]):
            if counted[words[p]] == 0:
                met[kinds] = words[p]
                kinds += 1
            counted[words[p]] += np.int32(1)
        found = np.sort(met[:kinds])
        for i in range(kinds):
            terms[top], counts[top], begins[top] = found[i], counted[found[i]], end
            place[found[i]] = end
            end += counted[found[i]]
            counted[found[i]] = 0
            top += 1
        for i in range(first, last):
            for p in range(off[i], off[i + 1]):
                lists[place[words[p]]] = i - first
                place[words[p]] += 1
    begins[top] = end
    return top


@kernel
def upper_tables(levels: Any, counted: Any, table: Any, terms: Any, counts: Any, top: Any) -> Any:
    """Make the tables of all other nodes from those below; return how many terms there are in all."""
    met = np.empty(counted.shape[0], np.int32)
    for level in range(1, levels.shape[0] - 1):
        for node in range(levels[level], levels[level + 1]):
            table[node] = top
            kinds = 0
            first = levels[level - 1] + (node - levels[level]) * FAN
            for child in range(first, min(first + FAN, levels[level])):
                until = table[child + 1] if child + 1 < node else top
                for p in range(table[child], until):
                    if counted[terms[p]] == 0:
                        met[kinds] = terms[p]
                        kinds += 1
                    counted[terms[p]] += counts[p]
            found = np.sort(met[:kinds])
            for i in range(kinds):
                terms[top], counts[top] = found[i], counted[found[i]]
                counted[found[i]] = 0
                top += 1
    table[levels[levels.shape[0] - 1]] = top
    return top


# --- questions --------------------------------------------------------------------------------------------------------


@kernel
def _find(terms: Any, low: Any, high: Any, word: Any) -> Any:
    """Return where a word stands in a table, -1 where it does not."""
    end = high
    while low < high:
        middle = (low + high) // 2
        if terms[middle] < word:
            low = middle + 1
        else:
            high = middle
    return np.int64(low) if low < end and terms[low] == word else np.int64(-1)


@kernel
def _leads(tree: Any, node: Any, words: Any, any_: Any, at: Any) -> Any:
    """Tell whether there may be matches below a node; `at` gets the places of words in its table."""
    table = ints_at(tree[TABLE], tree[NODES] + 1)
    terms = ints_at(tree[TERMS], tree[TERM_LENGTH])
    found = 0
    for i in range(words.shape[0]):
        at[i] = _find(terms, np.int64(table[node]), np.int64(table[node + 1]), words[i])
        found += 1 if at[i] >= 0 else 0
        if at[i] < 0 and not any_:
            return False
    return found > 0 or words.shape[0] == 0


@kernel
def _hits(tree: Any, leaf: Any, words: Any, any_: Any, at: Any, hits: Any) -> None:
    """Mark the objects of a leaf that match, by its inverted lists."""
    hits[:] = 1 if words.shape[0] == 0 else 0
    if words.shape[0] == 0:
        return
    begins = ints_at(tree[BEGINS], tree[BEGIN_LENGTH])
    lists = carray(pointer(tree[LISTS]), (tree[LIST_LENGTH],), np.uint8)
    for i in range(words.shape[0]):
        if at[i] >= 0:
            for p in range(begins[at[i]], begins[at[i] + 1]):
                hits[lists[p]] += 1
    if not any_:
        for i in range(LEAF):
            hits[i] = 1 if hits[i] == words.shape[0] else 0


@kernel
def _below(tree: Any, node: Any, level: Any) -> Any:
    """Return the first child of a node, and the end."""
    levels = longs_at(tree[LEVELS], tree[LEVEL_COUNT] + 1)
    first = levels[level - 1] + (node - levels[level]) * FAN
    return first, min(first + FAN, levels[level])


@kernel
def _level(tree: Any, node: Any) -> Any:
    levels = longs_at(tree[LEVELS], tree[LEVEL_COUNT] + 1)
    level = 0
    while node >= levels[level + 1]:
        level += 1
    return level


@kernel
def _side(boxes: Any, node: Any, region: Any) -> Any:
    """Tell whether a node is outside of a region (0), inside (1), or neither (2)."""
    west, south, east, north = boxes[4 * node], boxes[4 * node + 1], boxes[4 * node + 2], boxes[4 * node + 3]
    if west > region[MAX_X] or east < region[MIN_X] or south > region[MAX_Y] or north < region[MIN_Y]:
        return 0
    if region[CIRCLE] == 0.0:
        within = west >= region[MIN_X] and east <= region[MAX_X]
        return 1 if within and south >= region[MIN_Y] and north <= region[MAX_Y] else 2
    dx = max(abs(west - region[AT_X]), abs(east - region[AT_X]))
    dy = max(abs(south - region[AT_Y]), abs(north - region[AT_Y]))
    return 1 if dx * dx + dy * dy <= region[RADIUS] * region[RADIUS] else 2


@kernel
def _range_tree(
    tree: Any, region: Any, first: Any, stop: Any, words: Any, any_: Any, stack: Any, at: Any, hits: Any, out: Any, found: Any,
    info: Any,
) -> Any:  # fmt: skip
    """Append the ranks of a tree's objects; return how many there are now, -1 where there is no room."""
    boxes = doubles_at(tree[BOXES], 4 * tree[NODES])
    x, y, order = (
        doubles_at(tree[X], tree[OBJECTS]),
        doubles_at(tree[Y], tree[OBJECTS]),
        ints_at(tree[ORDER], tree[OBJECTS]),
    )
    stack[0] = tree[NODES] - 1
    depth = 1
    while depth > 0:
        depth -= 1
        node = stack[depth]
        side = _side(boxes, node, region)
        if side == 0 or not _leads(tree, node, words, any_, at):
            continue
        level = _level(tree, node)
        if level > 0:
            child, end = _below(tree, node, level)
            while child < end:
                stack[depth] = child
                depth += 1
                child += 1
            continue
        _hits(tree, node, words, any_, at, hits)
        if found + LEAF > out.shape[0]:
            info[NEEDED] = found + LEAF
            return np.int64(-1)
        for i in range(node * LEAF, min((node + 1) * LEAF, tree[OBJECTS])):
            if hits[i - node * LEAF] == 0:
                continue
            info[EXAMINED] += 1
            rank = tree[FIRST] + order[i]
            if first <= rank < stop and (side == 1 or inside(x[i], y[i], region)):
                out[found] = rank
                found += 1
    return found


@kernel
def srq(begin: Any, asks: Any, store: Any, uses: Any, off: Any, out: Any, info: Any) -> Any:
    """Answer range questions from `begin` on; return the first that is not answered, for which there is no room."""
    kinds, shape, any_, word_off, words, firsts, stops = asks
    trees, chunks, shift, oldest, open_, newest = store
    region, stack, hits, corner = np.empty(REGION_SIZE), np.empty(DEEP, np.int64), np.empty(LEAF, np.int32), np.zeros(2)
    for q in range(begin, firsts.shape[0]):
        asked = words[word_off[q] : word_off[q + 1]]
        chosen, at = np.empty(asked.shape[0], np.int64), np.empty(asked.shape[0], np.int64)
        count = order_words(any_[q], asked, uses, chosen)
        found, first, stop = off[q], firsts[q], stops[q]
        if count >= 0 and first < stop:
            chosen = chosen[:count]
            read_region(kinds[q], shape[q], corner, 0.0, region)
            for t in range(trees.shape[0]):
                if trees[t, FIRST] < stop and trees[t, STOP] > first and found >= 0:
                    found = _range_tree(
                        trees[t], region, first, stop, chosen, any_[q], stack, at, hits, out, found, info
                    )
            mode = ONE if count == 1 else (ANY if any_[q] else ALL)
            if found >= 0 and count == 0:
                found = scan_open(open_[3], newest, region, first, stop, chunks, shift, oldest, out, found, info)
            for leading in range(min(count, 1) if mode == ALL else count):
                if found >= 0:
                    found = probe_open(
                        open_,
                        region,
                        first,
                        stop,
                        chosen,
                        leading,
                        mode,
                        chunks,
                        shift,
                        oldest,
                        False,
                        out,
                        found,
                        info,
                    )
        if found < 0:
            return q
        off[q + 1] = found
    return firsts.shape[0]


@kernel
def _nearest_tree(
    tree: Any, place: Any, first: Any, stop: Any, words: Any, any_: Any, k: Any, heap: Any, nodes: Any, at: Any, hits: Any,
    far: Any, ranks: Any, count: Any, info: Any,
) -> Any:  # fmt: skip
    """Offer the objects of a tree, the nearest nodes first; return how many are listed.

    The distance of a box is computed as that of a place, in steps that keep order: it never exceeds those inside.
    """
    boxes = doubles_at(tree[BOXES], 4 * tree[NODES])
    x, y, order = (
        doubles_at(tree[X], tree[OBJECTS]),
        doubles_at(tree[Y], tree[OBJECTS]),
        ints_at(tree[ORDER], tree[OBJECTS]),
    )
    heap[0], nodes[0] = 0.0, tree[NODES] - 1
    waiting = 1
    while waiting > 0:
        near, node = heap[0], nodes[0]
        waiting -= 1
        moved, which, i = heap[waiting], nodes[waiting], 0
        while 2 * i + 1 < waiting:
            child = 2 * i + 1
            if child + 1 < waiting and heap[child + 1] < heap[child]:
                child += 1
            if heap[child] >= moved:
                break
            heap[i], nodes[i] = heap[child], nodes[child]
            i = child
        heap[i], nodes[i] = moved, which
        if near > place[4] or (count == k and near > far[k - 1]):
            return count
        if not _leads(tree, node, words, any_, at):
            continue
        level = _level(tree, node)
        if level == 0:
            _hits(tree, node, words, any_, at, hits)
            for j in range(node * LEAF, min((node + 1) * LEAF, tree[OBJECTS])):
                if hits[j - node * LEAF] == 0:
                    continue
                info[EXAMINED] += 1
                rank = tree[FIRST] + order[j]
                dx, dy = x[j] - place[0], y[j] - place[1]
                distance = np.sqrt(dx * dx + dy * dy)
                if first <= rank < stop and distance <= place[4]:
                    count = offer(far, ranks, count, k, distance, rank)
            continue
        below, end = _below(tree, node, level)
        for child in range(below, end):
            dx = max(max(boxes[4 * child] - place[0], place[0] - boxes[4 * child + 2]), 0.0)
            dy = max(max(boxes[4 * child + 1] - place[1], place[1] - boxes[4 * child + 3]), 0.0)
            distance = np.sqrt(dx * dx + dy * dy)
            if distance > place[4] or (count == k and distance > far[k - 1]):
                continue
            i = waiting
            waiting += 1
            while i > 0 and heap[(i - 1) // 2] > distance:
                heap[i], nodes[i] = heap[(i - 1) // 2], nodes[(i - 1) // 2]
                i = (i - 1) // 2
            heap[i], nodes[i] = distance, child
    return count


@kernel
def skq(asks: Any, k: Any, reach: Any, store: Any, uses: Any, off: Any, out: Any, distances: Any, info: Any) -> None:
    """Answer questions for the nearest; `out` and `distances` have room for k of each."""
    _, shape, any_, word_off, words, firsts, stops = asks
    trees, chunks, shift, oldest, open_, newest = store
    most_nodes = 1
    for t in range(trees.shape[0]):
        most_nodes = max(most_nodes, trees[t, NODES])
    heap, nodes, hits, place = (
        np.empty(most_nodes),
        np.empty(most_nodes, np.int64),
        np.empty(LEAF, np.int32),
        np.zeros(6),
    )
    for q in range(firsts.shape[0]):
        asked = words[word_off[q] : word_off[q + 1]]
        chosen, at = np.empty(asked.shape[0], np.int64), np.empty(asked.shape[0], np.int64)
        number = order_words(any_[q], asked, uses, chosen)
        first, stop, most = firsts[q], stops[q], np.int64(k[q])
        off[q + 1] = off[q]
        if number < 0 or first >= stop or most < 1:
            continue
        chosen = chosen[:number]
        far, ranks, count = distances[off[q] : off[q] + most], out[off[q] : off[q] + most], np.int64(0)
        place[0], place[1], place[4] = shape[q, 0], shape[q, 1], reach[q]
        for t in range(trees.shape[0]):
            if trees[t, FIRST] < stop and trees[t, STOP] > first:
                count = _nearest_tree(
                    trees[t], place, first, stop, chosen, any_[q], most, heap, nodes, at, hits, far, ranks, count, info
                )
        mode = ONE if number <= 1 else (ANY if any_[q] else ALL)
        for leading in range(1 if mode != ANY else number):
            count = search_open(
                open_, newest, place, first, stop, chosen, leading, mode, most, chunks, shift, oldest, far, ranks, count, info
            )  # fmt: skip
        off[q + 1] = off[q] + count


@kernel
def _count_tree(
    tree: Any, region: Any, first: Any, stop: Any, chunks: Any, shift: Any, oldest: Any, stack: Any, counted: Any, met: Any,
    sums: Any, info: Any,
) -> None:  # fmt: skip
    """Add the tables of nodes that are inside, and the words of single objects elsewhere."""
    boxes, table = doubles_at(tree[BOXES], 4 * tree[NODES]), ints_at(tree[TABLE], tree[NODES] + 1)
    terms, counts = ints_at(tree[TERMS], tree[TERM_LENGTH]), ints_at(tree[COUNTS], tree[TERM_LENGTH])
    x, y, order = (
        doubles_at(tree[X], tree[OBJECTS]),
        doubles_at(tree[Y], tree[OBJECTS]),
        ints_at(tree[ORDER], tree[OBJECTS]),
    )
    whole = tree[FIRST] >= first and tree[STOP] <= stop
    stack[0] = tree[NODES] - 1
    depth = 1
    while depth > 0:
        depth -= 1
        node = stack[depth]
        side = _side(boxes, node, region)
        if side == 0:
            continue
        level = _level(tree, node)
        if side == 1 and whole:
            info[EXAMINED] += table[node + 1] - table[node]
            for p in range(table[node], table[node + 1]):
                word = terms[p]
                if counted[word] == 0:  # a word that was met counts from 1 on
                    met[sums[MET]] = word
                    sums[MET] += 1
                    counted[word] = 1
                counted[word] += counts[p]
        elif level > 0:
            child, end = _below(tree, node, level)
            while child < end:
                stack[depth] = child
                depth += 1
                child += 1
        else:
            for i in range(node * LEAF, min((node + 1) * LEAF, tree[OBJECTS])):
                info[EXAMINED] += 1
                rank = tree[FIRST] + order[i]
                if first <= rank < stop and (side == 1 or inside(x[i], y[i], region)):
                    count_object(rank, chunks, shift, oldest, counted, met, sums)


@kernel
def stq(
    begin: Any, asks: Any, k: Any, store: Any, scratch: Any, off: Any, terms: Any, counts: Any, rest: Any, info: Any
) -> Any:
    """Answer questions for terms from `begin` on; return the first that is not answered, for which there is no room."""
    kinds, shape, _, _, _, firsts, stops = asks
    trees, chunks, shift, oldest, open_, newest = store
    counted, named, met = scratch
    region, stack, corner, sums = np.empty(REGION_SIZE), np.empty(DEEP, np.int64), np.zeros(2), np.zeros(3, np.int64)
    for q in range(begin, firsts.shape[0]):
        first, stop = firsts[q], stops[q]
        read_region(kinds[q], shape[q], corner, 0.0, region)
        for t in range(trees.shape[0]):
            if trees[t, FIRST] < stop and trees[t, STOP] > first:
                _count_tree(trees[t], region, first, stop, chunks, shift, oldest, stack, counted, met, sums, info)
        count_open(open_[3], newest, region, first, stop, chunks, shift, oldest, counted, met, sums, info)
        found = list_terms(k[q], counted, named, met, sums, True, terms, counts, off[q], rest[q : q + 1], info)
        if found < 0:
            return q
        off[q + 1] = found
    return firsts.shape[0]
