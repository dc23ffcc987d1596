"""The kernel that finds the balls objects are in; the layout is in `operators.indexes.knn.pyramid_records`."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from operators.indexes.knn.lanes import LANES, balls_around, boxes_around, lowest
from operators.indexes.knn.pyramid_records import COUNT, COUNTS, DIMENSIONS, HAVE, HEIGHT, OPEN, PLACE, UNIT
from streams.kernel import lean_kernel
from streams.prefetch import prefetch

__all__ = ["TOGETHER", "probe"]

Int = Any  # a machine integer, numpy's or Python's
Ints = NDArray[np.int64]
Singles = NDArray[np.float32]
Slots = NDArray[np.int32]

#: Objects that go through the stages together; their number has so many bits.
TOGETHER, _BITS = 16, 4
_OBJECT = (1 << _BITS) - 1
#: Bits above: the balls have no end; the block is all that a word has, and its room is not that of others.
_ENDLESS, _ALONE = 1 << _BITS, 2 << _BITS
_FLAGS = _BITS + 2


@lean_kernel
def _tops(
    base: Int, stop: Int, word_off: Ints, object_words: Slots, words: Slots, owner: Slots, nodes: Singles, units: Singles,
    dimensions: Int, nodes_left: Ints, blocks_left: Ints,
) -> Any:  # fmt: skip
    """Write the tops of the trees of some objects' words, which are nodes or blocks; return how many of each there are.

    Words note which of the objects have them, until `_forget`. There must be room for two of a word, and one word more an
    object: the one that stands for every object.
    """
    size, width = UNIT * (dimensions + 2), LANES * (4 * dimensions + 1)
    for j in range(word_off[base], word_off[stop]):
        prefetch(words, words.shape[1] * np.int64(object_words[j]))
    tail, blocks = np.int64(0), np.int64(0)
    for i in range(base, stop):
        for j in range(word_off[i] - 1, word_off[i + 1]):
            word = np.int64(object_words[j]) if j >= word_off[i] else np.int64(0)
            words[word, HAVE] |= 1 << (i - base)
            for tree in range(2):
                ref, mark = np.int64(words[word, tree]), (i - base) | (_ENDLESS if tree == OPEN else 0)
                if ref < -1:
                    nodes_left[tail] = ((-2 - ref) << _FLAGS) | mark
                    tail += 1
                    for row in range(2 * dimensions + 1):
                        prefetch(nodes, (-2 - ref) * width + LANES * row)
                elif ref >= 0:
                    blocks_left[blocks] = (ref << _FLAGS) | _ALONE | mark
                    blocks += 1
                    prefetch(owner, ref >> COUNT)
                    for row in range(2):
                        prefetch(units, (ref >> COUNT) * size + LANES * row)
    return tail, blocks


@lean_kernel
def _forget(base: Int, stop: Int, word_off: Ints, object_words: Slots, words: Slots) -> None:
    """Let words forget which objects have them."""
    words[0, HAVE] = 0
    for j in range(word_off[base], word_off[stop]):
        words[object_words[j], HAVE] = 0


@lean_kernel
def _descend(
    base: Int, tail: Int, blocks: Int, spots: Singles, nodes: Singles, children: Slots, links: Slots, units: Singles,
    dimensions: Int, nodes_left: Ints, blocks_left: Ints,
) -> Int:  # fmt: skip
    """Go down from nodes to the blocks under boxes that objects are in; return how many blocks, or -1 where room is short."""
    size, width = UNIT * (dimensions + 2), LANES * (4 * dimensions + 1)
    head = 0
    while head < tail:
        if tail + LANES > nodes_left.shape[0] or blocks + LANES > blocks_left.shape[0]:
            return np.int64(-1)
        mark, node = nodes_left[head] & (_OBJECT | _ENDLESS), nodes_left[head] >> _FLAGS
        head += 1
        at, row = base + (mark & _OBJECT), node * width + 2 * dimensions * LANES
        mask = boxes_around(nodes, node * width, dimensions, spots[at, 0], spots[at, 1], spots[at, 2])
        if links[node, HEIGHT] == 1:
            while mask != 0:
                child = np.int64(children[row + lowest(mask)])
                mask &= mask - 1
                blocks_left[blocks] = (child << _FLAGS) | mark
                blocks += 1
                for line in range(dimensions + 1):
                    prefetch(units, (child >> COUNT) * size + line * LANES)
        else:
            while mask != 0:
                child = np.int64(children[row + lowest(mask)])
                mask &= mask - 1
                nodes_left[tail] = (child << _FLAGS) | mark
                tail += 1
                prefetch(links, child * links.shape[1])
                for line in range(2 * dimensions + 1):
                    prefetch(nodes, child * width + LANES * line)
    return blocks


@lean_kernel
def _read(
    base: Int, blocks: Int, everything: bool, spots: Singles, units: Singles, slots: Slots, owner: Slots, words: Slots,
    dimensions: Int, blocks_left: Ints, hits: Slots, counts: Ints,
) -> Int:  # fmt: skip
    """Write the balls of blocks that objects are in, as rows of slot, place and object, and count them by object.

    Of balls without an end only those whose second word the object has, if they want one. Returns how many were examined.
    """
    size, there, examined = UNIT * (dimensions + 2), np.int64(0), np.int64(0)
    counts[:] = 0
    for b in range(blocks):
        entry = blocks_left[b]
        i, ref = entry & _OBJECT, entry >> _FLAGS
        at, unit, count = base + i, ref >> COUNT, ref & COUNTS
        room = -np.int64(owner[unit]) if entry & _ALONE != 0 else np.int64(LANES)
        mask = balls_around(units, unit * size, room, dimensions, spots[at, 0], spots[at, 1], spots[at, 2])
        held = (np.int64(1) << count) - 1
        mask = held if everything else mask & held
        examined += count
        row = unit * size + (dimensions + 1) * room
        while mask != 0:
            lane = lowest(mask)
            mask &= mask - 1
            if entry & _ENDLESS != 0 and not everything:
                second = np.int64(slots[unit * size + lane])
                if second != 0 and (words[second, HAVE] >> i) & 1 == 0:
                    continue
            hits[there, 0] = slots[row + lane]
            hits[there, 1] = (unit << PLACE) | lane
            hits[there, 2] = i
            there += 1
            counts[i + 1] += 1
    return examined


@lean_kernel
def probe(
    first: Int, everything: bool, enough: Int, spots: Singles, word_off: Ints, object_words: Slots, pool: Any,
    nodes_left: Ints, blocks_left: Ints, hits: Slots, found: Slots, off: Ints, tally: Ints, counts: Ints,
) -> Int:  # fmt: skip
    """Find the records whose balls objects are in; return the object to go on with, or -1 where there is no room for the first.

    Objects go down the trees in small numbers together, one level of all of them after the other: what one level asks for
    has come when the next one reads it. Where that is too much for the room there is, fewer go together. `tally` is what was
    examined and, where room is short, how much is needed for nodes, for blocks, and for what is found; `counts` has room for
    `TOGETHER` numbers and one more.
    """
    units, slots, owner, nodes, children, links, words, _, _, _, state = pool
    dimensions, objects, together = state[DIMENSIONS], word_off.shape[0] - 1, TOGETHER
    pairs = np.int64(0)
    tally[0], off[0] = 0, 0
    base = first
    while base < objects and pairs <= enough:
        stop = min(base + together, objects)
        tail, blocks = _tops(
            base, stop, word_off, object_words, words, owner, nodes, units, dimensions, nodes_left, blocks_left
        )  # fmt: skip
        blocks = _descend(
            base, tail, blocks, spots, nodes, children, links, units, dimensions, nodes_left, blocks_left
        )  # fmt: skip
        if blocks < 0 or LANES * blocks > hits.shape[0] or pairs + LANES * blocks > found.shape[1]:
            _forget(base, stop, word_off, object_words, words)
            if stop - base > 1:
                together = (stop - base) // 2
                continue
            if blocks < 0:
                tally[1], tally[2] = 2 * nodes_left.shape[0], 2 * blocks_left.shape[0]
            else:
                tally[3] = LANES * blocks
            return base if base > first else -1
        tally[0] += _read(
            base, blocks, everything, spots, units, slots, owner, words, dimensions, blocks_left, hits, counts
        )  # fmt: skip
        _forget(base, stop, word_off, object_words, words)
        for i in range(stop - base):
            counts[i + 1] += counts[i]
            off[base + i - first + 1] = pairs + counts[i + 1]
        there = counts[stop - base]
        for h in range(there):
            i = hits[h, 2]
            to = pairs + counts[i]
            counts[i] += 1
            found[0, to] = hits[h, 0]
            found[1, to] = hits[h, 1]
        pairs += there
        base = stop
    return base
