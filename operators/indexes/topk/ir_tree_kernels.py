"""Kernels of the IR-tree: how messages come and go. `ir_tree` says what it is for; this is the layout.

log         rings, by message: `points` (float64 rows: its coordinates in the tree), `seqs` (int64 rows: its `seq`, and where
            its words begin), `homes` (int32 rows: its leaf, its lane there, the number of its words); and `words` (int32),
            the words of all. A message is named by the low 31 bits of how many came before it
nodes       int32 rows: the parent, -1 for none; the lane in it; children; level, 0 for a leaf; entries of the inverted file,
            and the first of them. Free rows are a chain by `PARENT`
boxes       float64 rows: the least and the largest coordinates of what is below a node
children    int32 rows: nodes, or names of messages in a leaf, -1 for a free lane. There is one lane more than children may stay
files       the inverted files, see `ir_tree_files`

A message goes down to the leaf whose box has to grow least, by the sum of its sides: that keeps boxes square, and says
something of boxes without area, too. A node with too many children is split as in an R*-tree, along the axis and at
the place where the two boxes are smallest by the same measure. One with too few joins a sibling that has room.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from operators.indexes.topk.ir_tree_files import (
    CHAIN,
    COUNT,
    ENTRIES,
    FILES,
    FIRST,
    FOLLOWING,
    HEAD,
    LANES,
    LEVEL,
    NEXT,
    NODES,
    OWN_LANE,
    PARENT,
    ROOT,
    TAIL,
    WORD,
    WORD_HEAD,
    WORD_TAIL,
    entry_of,
    file,
    give_row,
    largest,
    lower,
    release,
    take_row,
    weight_of,
)
from streams.kernel import kernel

__all__ = ["FULLEST", "add", "drop", "unroll"]

Int = Any  # a machine integer, numpy's or Python's
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Slots = NDArray[np.int32]
Log = Any  # tuples of arrays, see above
Tree = Any
Files = Any

#: Columns of the log.
SEQ, START = range(2)
LEAF, LANE, LENGTH = range(3)

#: Messages are named by so many bits.
NAMES = 0x7FFFFFFF
#: How full the hash of entries may be.
FULLEST = 0.7


@kernel
def fewest(fanout: Int) -> Int:
    """Return how many children a node should have at least."""
    return max(np.int64(1), 2 * np.int64(fanout) // 5)


@kernel
def _grow(box: Floats, other: Floats) -> None:
    """Let a box enclose another."""
    dims = box.shape[0] // 2
    for d in range(dims):
        box[d], box[dims + d] = min(box[d], other[d]), max(box[dims + d], other[dims + d])


@kernel
def _sides(box: Floats) -> Any:
    total, dims = 0.0, box.shape[0] // 2
    for d in range(dims):
        total += box[dims + d] - box[d]
    return total


@kernel
def _growth(box: Floats, other: Floats) -> Any:
    """Return by how much the sides of a box grow if it encloses another."""
    total, dims = 0.0, box.shape[0] // 2
    for d in range(dims):
        total += max(box[d] - other[d], 0.0) + max(other[dims + d] - box[dims + d], 0.0)
    return total


@kernel
def _box_of(level: Int, child: Int, points: Floats, boxes: Floats, out: Floats) -> None:
    """Write the box of a child of a node of a level."""
    dims = points.shape[1]
    if level > 0:
        out[:] = boxes[child]
        return
    slot = child & (points.shape[0] - 1)
    for d in range(dims):
        out[d] = out[dims + d] = points[slot, d]


@kernel
def _enclose(node: Int, points: Floats, nodes: Slots, boxes: Floats, children: Slots, box: Floats) -> Any:
    """Compute the box of a node from its children; return whether it has changed."""
    dims, level = points.shape[1], np.int64(nodes[node, LEVEL])
    old = boxes[node].copy()
    boxes[node, :dims], boxes[node, dims:] = np.inf, -np.inf
    for lane in range(children.shape[1]):
        if children[node, lane] >= 0:
            _box_of(level, np.int64(children[node, lane]), points, boxes, box)
            _grow(boxes[node], box)
    return (old != boxes[node]).any()


@kernel
def _new_node(level: Int, nodes: Slots, boxes: Floats, children: Slots, state: Ints) -> Int:
    """Return a node without children; there is room for it."""
    node = take_row(NODES, nodes, PARENT, state)
    nodes[node, PARENT], nodes[node, OWN_LANE], nodes[node, COUNT], nodes[node, LEVEL] = -1, -1, 0, level
    nodes[node, FILES], nodes[node, CHAIN] = 0, -1
    children[node, :] = -1
    dims = boxes.shape[1] // 2
    boxes[node, :dims], boxes[node, dims:] = np.inf, -np.inf
    return node


@kernel
def _attach(node: Int, child: Int, homes: Slots, nodes: Slots, children: Slots) -> Int:
    """Give a child a lane in a node, and return the lane."""
    lane = np.int64(0)
    while children[node, lane] >= 0:
        lane += 1
    children[node, lane] = child
    nodes[node, COUNT] += 1
    if nodes[node, LEVEL] > 0:
        nodes[child, PARENT], nodes[child, OWN_LANE] = node, lane
    else:
        slot = child & (homes.shape[0] - 1)
        homes[slot, LEAF], homes[slot, LANE] = node, lane
    return lane


@kernel
def _move(child: Int, node: Int, lane: Int, other: Int, log: Log, tree: Tree, files: Files, state: Ints) -> None:
    """Move a child, with its part of the inverted files, from its lane in a node to another node of the same parent."""
    _, seqs, homes, words = log
    nodes, _, children = tree
    entries, table, lanes, weights = files
    children[node, lane] = -1
    nodes[node, COUNT] -= 1
    to = _attach(other, child, homes, nodes, children)
    if nodes[node, LEVEL] > 0:
        entry = np.int64(nodes[child, CHAIN])
        while entry >= 0:
            word, weight = np.int64(entries[entry, WORD]), largest(entry, entries, lanes, weights)
            file(other, to, word, weight, nodes, entries, table, lanes, weights, state)
            lower(node, lane, word, -1.0, nodes, entries, table, lanes, weights, state)
            entry = np.int64(entries[entry, NEXT])
        return
    slot = child & (homes.shape[0] - 1)
    for w in range(seqs[slot, START], seqs[slot, START] + homes[slot, LENGTH]):
        word = np.int64(words[w & (words.shape[0] - 1)])
        weight = weight_of(entry_of(node, word, entries, table), lane, entries, lanes, weights)
        file(other, to, word, weight, nodes, entries, table, lanes, weights, state)
        lower(node, lane, word, -1.0, nodes, entries, table, lanes, weights, state)


@kernel
def _order(centres: Floats, out: Ints) -> None:
    for i in range(out.shape[0]):
        at = i
        while at > 0 and centres[out[at - 1]] > centres[i]:
            out[at] = out[at - 1]
            at -= 1
        out[at] = i


@kernel
def _halves(around: Floats, out: Ints) -> Int:
    """Write an order of boxes, and return how many of them the first half should have for both to be small."""
    count, dims = around.shape[0], around.shape[1] // 2
    order, behind = np.empty(count, np.int64), np.empty(count)
    box, best, at = np.empty(2 * dims), np.inf, 0
    least = fewest(count - 1)
    for d in range(dims):
        _order(around[:, d] + around[:, dims + d], order)
        box[:] = around[order[count - 1]]
        for i in range(count - 1, 0, -1):
            _grow(box, around[order[i]])
            behind[i] = _sides(box)
        box[:] = around[order[0]]
        for i in range(1, count - least + 1):
            if i >= least and _sides(box) + behind[i] < best:
                best, at = _sides(box) + behind[i], i
                out[:] = order
            _grow(box, around[order[i]])
    return at


@kernel
def _split(node: Int, log: Log, tree: Tree, files: Files, state: Ints) -> None:
    """Divide the children of a node that has one too many among itself and a new sibling; a root gets a parent first."""
    points, _, homes, _ = log
    nodes, boxes, children = tree
    entries, table, lanes, weights = files
    count, level = children.shape[1], np.int64(nodes[node, LEVEL])
    around, order, taken = np.empty((count, boxes.shape[1])), np.empty(count, np.int64), children[node].copy()
    for lane in range(count):
        _box_of(level, np.int64(taken[lane]), points, boxes, around[lane])
    half = _halves(around, order)
    if nodes[node, PARENT] < 0:
        root = _new_node(level + 1, nodes, boxes, children, state)
        boxes[root] = boxes[node]
        own = _attach(root, node, homes, nodes, children)
        entry = np.int64(nodes[node, CHAIN])
        while entry >= 0:
            weight = largest(entry, entries, lanes, weights)
            file(root, own, np.int64(entries[entry, WORD]), weight, nodes, entries, table, lanes, weights, state)
            entry = np.int64(entries[entry, NEXT])
        state[ROOT] = root
    other = _new_node(level, nodes, boxes, children, state)
    _attach(np.int64(nodes[node, PARENT]), other, homes, nodes, children)
    for i in range(half, count):
        _grow(boxes[other], around[order[i]])
        _move(np.int64(taken[order[i]]), node, order[i], other, log, tree, files, state)
    _enclose(node, points, nodes, boxes, children, around[0])


@kernel
def _leaf_for(point: Floats, tree: Tree, state: Ints) -> Int:
    """Return the leaf of a new message: from the root, the child whose box grows least; of these the smallest box."""
    nodes, boxes, children = tree
    node = state[ROOT]
    while nodes[node, LEVEL] > 0:
        best, grown, sides = np.int64(-1), np.inf, np.inf
        for lane in range(children.shape[1]):
            child = np.int64(children[node, lane])
            if child < 0:
                continue
            growth = _growth(boxes[child], point)
            if growth < grown or (growth == grown and _sides(boxes[child]) < sides):
                best, grown, sides = child, growth, _sides(boxes[child])
        node = best
    return node


@kernel
def _spare(tree: Tree, files: Files, state: Ints) -> Any:
    """Return for how many more entries and postings there is room, and for how many nodes."""
    entries, table, lanes, _ = files
    room = min(np.int64(entries.shape[0]), np.int64(FULLEST * table.shape[0]))
    return min(room - state[ENTRIES], lanes.shape[0] - state[LANES]), tree[0].shape[0] - state[NODES]


@kernel
def _add(
    begin: Int, points: Floats, seq: Ints, off: Slots, words: Slots, weights: Floats, log: Log, tree: Tree, files: Files,
    state: Ints,
) -> Int:  # fmt: skip
    """Add messages from `begin` on; return where to go on when there is room for more, or the end. The log has room."""
    held, seqs, homes, said = log
    nodes, boxes, children = tree
    entries, table, lanes, weight_in = files
    dims, mask, ring, fanout = points.shape[1], homes.shape[0] - 1, said.shape[0] - 1, children.shape[1] - 1
    point = np.empty(2 * dims)
    for i in range(begin, points.shape[0]):
        for d in range(dims):
            point[d] = point[dims + d] = points[i, d]
        if state[ROOT] < 0:
            state[ROOT] = _new_node(0, nodes, boxes, children, state)
        leaf, length = _leaf_for(point, tree, state), np.int64(off[i + 1] - off[i])
        # The new sibling of a node that is split has no more words than the node has, nor has a new root.
        need, levels, node = np.int64(4), np.int64(2), leaf
        while node >= 0:
            need += length + (2 * (length + nodes[node, FILES]) if nodes[node, COUNT] == fanout else 0)
            levels, node = levels + 1, np.int64(nodes[node, PARENT])
        words_left, nodes_left = _spare(tree, files, state)
        if need > words_left or levels > nodes_left:
            return np.int64(i)
        name, start = state[HEAD] & NAMES, state[WORD_HEAD]
        slot = name & mask
        held[slot] = points[i]
        seqs[slot, SEQ], seqs[slot, START], homes[slot, LENGTH] = seq[i], start, length
        lane = _attach(leaf, name, homes, nodes, children)
        for j in range(length):
            word = np.int64(words[off[i] + j])
            said[(start + j) & ring] = word
            file(leaf, lane, word, weights[off[i] + j], nodes, entries, table, lanes, weight_in, state)
        state[HEAD] += 1
        state[WORD_HEAD] += length
        node = leaf
        while node >= 0:
            _grow(boxes[node], point)
            node = np.int64(nodes[node, PARENT])
        node = leaf
        while node >= 0 and nodes[node, COUNT] > fanout:
            _split(node, log, tree, files, state)
            node = np.int64(nodes[node, PARENT])
    return np.int64(points.shape[0])


@kernel
def _sibling(node: Int, tree: Tree) -> Int:
    """Return the sibling with room for all children of a node whose box grows least, -1 for none."""
    nodes, boxes, children = tree
    parent, fanout = np.int64(nodes[node, PARENT]), children.shape[1] - 1
    best, grown = np.int64(-1), np.inf
    for lane in range(children.shape[1]):
        other = np.int64(children[parent, lane])
        if other < 0 or other == node or nodes[other, COUNT] + nodes[node, COUNT] > fanout:
            continue
        growth = _growth(boxes[other], boxes[node])
        if growth < grown:
            best, grown = other, growth
    return best


@kernel
def _cut_root(nodes: Slots, entries: Slots, table: Slots, lanes: Slots, children: Slots, state: Ints) -> None:
    """Let the only child of a root be the root, and so on."""
    while nodes[state[ROOT], LEVEL] > 0 and nodes[state[ROOT], COUNT] == 1:
        root, lane = state[ROOT], 0
        while children[root, lane] < 0:
            lane += 1
        child, entry = np.int64(children[root, lane]), np.int64(nodes[root, CHAIN])
        while entry >= 0:
            after, posting = np.int64(entries[entry, NEXT]), np.int64(entries[entry, FIRST])
            give_row(posting, LANES, lanes, FOLLOWING, state)
            release(entry, nodes, entries, table, state)
            entry = after
        nodes[child, PARENT] = nodes[child, OWN_LANE] = -1
        give_row(root, NODES, nodes, PARENT, state)
        state[ROOT] = child


@kernel
def _condense(node: Int, box: Floats, log: Log, tree: Tree, files: Files, state: Ints) -> None:
    """Mend the tree above a leaf that has lost a message: boxes shrink, and nodes with too few children join siblings."""
    nodes, boxes, children = tree
    entries, table, lanes, _ = files
    changed = True
    while changed and node >= 0:
        parent = np.int64(nodes[node, PARENT])
        changed = _enclose(node, log[0], nodes, boxes, children, box)
        if parent >= 0 and nodes[node, COUNT] < fewest(children.shape[1] - 1):
            other = _sibling(node, tree)
            if other >= 0 and nodes[node, FILES] + 4 <= _spare(tree, files, state)[0]:
                _grow(boxes[other], boxes[node])
                for lane in range(children.shape[1]):
                    if children[node, lane] >= 0:
                        _move(np.int64(children[node, lane]), node, lane, other, log, tree, files, state)
            if nodes[node, COUNT] == 0:
                children[parent, nodes[node, OWN_LANE]] = -1
                nodes[parent, COUNT] -= 1
                give_row(node, NODES, nodes, PARENT, state)
                changed = True
        node = parent
    _cut_root(nodes, entries, table, lanes, children, state)


@kernel
def _drop(first: Int, released: Slots, log: Log, tree: Tree, files: Files, state: Ints) -> Int:
    """Forget messages with ``seq < first``, as many as their words fit into `released`; return how many words are there."""
    points, seqs, homes, words = log
    nodes, _, children = tree
    entries, table, lanes, weights = files
    mask, ring, done, box = homes.shape[0] - 1, words.shape[0] - 1, np.int64(0), np.empty(2 * points.shape[1])
    while state[TAIL] < state[HEAD]:
        slot = state[TAIL] & mask
        length, leaf, lane = np.int64(homes[slot, LENGTH]), np.int64(homes[slot, LEAF]), np.int64(homes[slot, LANE])
        if seqs[slot, SEQ] >= first or done + length > released.shape[0]:
            break
        for j in range(length):
            word = np.int64(words[(state[WORD_TAIL] + j) & ring])
            lower(leaf, lane, word, -1.0, nodes, entries, table, lanes, weights, state)
            released[done + j] = word
        done += length
        children[leaf, lane] = -1
        nodes[leaf, COUNT] -= 1
        state[TAIL] += 1
        state[WORD_TAIL] += length
        _condense(leaf, box, log, tree, files, state)
    return done


@kernel
def _unroll(log: Log, files: Files, state: Ints, seq: Ints, off: Slots, out: Slots, weight: Floats) -> None:
    """Copy the messages of the log, but for their places, into columns."""
    _, seqs, homes, words = log
    entries, table, lanes, weights = files
    mask, ring, count = homes.shape[0] - 1, words.shape[0] - 1, np.int64(0)
    off[0] = 0
    for i in range(seq.shape[0]):
        slot = (state[TAIL] + i) & mask
        seq[i] = seqs[slot, SEQ]
        for j in range(homes[slot, LENGTH]):
            word = np.int64(words[(seqs[slot, START] + j) & ring])
            entry = entry_of(np.int64(homes[slot, LEAF]), word, entries, table)
            out[count] = word
            weight[count] = weight_of(entry, np.int64(homes[slot, LANE]), entries, lanes, weights)
            count += 1
        off[i + 1] = count


#: Their arguments come as tuples of arrays, which a type checker cannot count.
add: Any = _add
drop: Any = _drop
unroll: Any = _unroll
