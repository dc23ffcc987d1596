"""Blocks: consecutive objects in the order of their cells, for questions without keywords and for counts of terms.

A block never changes. Its arrays, by address in a row of the block table (fields `FIRST` .. `TAILS`):

    records  int32 x 4 an object: x, y (float32, from the corner of the space), rank from the block's first, end of its words
    words    int32: the words of the objects in their order here
    starts   int32: the first object of each cell, and the end; cells are numbered along a Z-curve, so every node of the
             quadtree over them is one run of objects, and of words
    nodes    int32 a node of the quadtree, level by level: its head, -1 where it has none
    tops     int32 a head and the end: its first entry
    heads    int32 x 2 an entry: a word and how many objects of the node have it
    tails    int32 a head: the most that any word outside of it has

A *head* has the most frequent words of a node with many objects. It says how often these occur, and bounds all others, in a
fraction of the time that counting takes (SSTD's nodes have tables of all terms, Section 6.1, which are much longer).

Objects are read from chunks (`CHUNK_X` .. `CHUNK_WORD_LENGTH`), whose columns are in the order of the input.
"""

from typing import Any

import numpy as np

from operators.indexes.objects.raw_arrays import doubles_at, ints_at
from operators.indexes.objects.segment_kernels import FINEST, fine
from streams.kernel import kernel, lean_kernel
from streams.prefetch import prefetch

__all__ = ["CHUNK_FIELDS", "FIELDS", "HEADED", "arrange", "copy_words", "head_nodes", "node_offset", "z_code"]

#: Fields of a row of the block table.
(
    FIRST, STOP, RECORDS, RECORD_LENGTH, WORDS, WORD_LENGTH, STARTS, START_LENGTH, LEVEL, NODES, NODE_LENGTH, TOPS, HEADS,
    HEAD_LENGTH, TAILS, HEAD_COUNT,
) = range(16)  # fmt: skip
FIELDS = 16

#: Fields of a row of the chunk table.
CHUNK_X, CHUNK_Y, CHUNK_SEQ, CHUNK_OFF, CHUNK_WORDS, CHUNK_WORD_LENGTH = range(6)
CHUNK_FIELDS = 6

#: Nodes of fewer objects are counted, not looked up; of more, the nodes below are looked up, since a head is made in one step.
HEADED, MOST_HEADED = 64, 1 << 16
#: Words of a head: so many, and one more for so many objects.
LEAST_WORDS, OBJECTS_A_WORD = 64, 16
#: Objects whose words are asked for ahead of time.
AHEAD = 12
#: Counts above this are not told apart when words are chosen for a head.
LARGEST = 1024


@lean_kernel
def _spread(v: Any) -> Any:
    """Return the bits of a number at even places."""
    v = (v | (v << 8)) & 0x00FF00FF
    v = (v | (v << 4)) & 0x0F0F0F0F
    v = (v | (v << 2)) & 0x33333333
    return (v | (v << 1)) & 0x55555555


@lean_kernel
def z_code(column: Any, row: Any) -> Any:
    """Return the place of a cell on the Z-curve."""
    return _spread(np.int64(column)) | (_spread(np.int64(row)) << 1)


@lean_kernel
def node_offset(level: Any) -> Any:
    """Return the number of nodes above a level."""
    return ((np.int64(1) << (2 * level)) - 1) // 3


@kernel
def arrange(
    chunks: Any, begin: Any, stop: Any, size: Any, corner: Any, frame: Any, level: Any, writing: Any, starts: Any, records: Any,
    singles: Any,
) -> None:  # fmt: skip
    """Count the objects of some chunks by cell, or, when all are counted and summed up, write them in the order of cells.

    The last field of a record is the number of its object's words until the words themselves are copied.
    """
    shift = FINEST - level
    one = np.int32(1)
    for chunk in range(begin, stop):
        x, y = doubles_at(chunks[chunk, CHUNK_X], size), doubles_at(chunks[chunk, CHUNK_Y], size)
        off = ints_at(chunks[chunk, CHUNK_OFF], size + 1)
        for row in range(size):
            at_x, at_y = np.float32(x[row] - corner[0]), np.float32(y[row] - corner[1])
            column = fine(np.float64(at_x), frame[0], frame[2]) >> shift
            cell = z_code(column, fine(np.float64(at_y), frame[1], frame[3]) >> shift)
            if writing:
                to = starts[cell + 1]
                starts[cell + 1] = to + one
                singles[to, 0] = at_x
                singles[to, 1] = at_y
                records[to, 2] = chunk * size + row
                records[to, 3] = off[row + 1] - off[row]
            else:
                starts[cell + 2] += one


@kernel
def copy_words(chunks: Any, size: Any, begin: Any, stop: Any, records: Any, words: Any) -> None:
    """Copy the words of objects [begin, stop) of a block; records learn where they end."""
    to = np.int64(records[begin - 1, 3]) if begin else np.int64(0)
    for z in range(begin, stop):
        # Objects that are neighbours here are far apart in chunks: first their offsets are asked for, then their words.
        if z + 2 * AHEAD < stop:
            rank = np.int64(records[z + 2 * AHEAD, 2])
            prefetch(ints_at(chunks[rank // size, CHUNK_OFF], size + 1), rank % size)
        if z + AHEAD < stop:
            rank = np.int64(records[z + AHEAD, 2])
            start = np.int64(ints_at(chunks[rank // size, CHUNK_OFF], size + 1)[rank % size])
            prefetch(ints_at(chunks[rank // size, CHUNK_WORDS], chunks[rank // size, CHUNK_WORD_LENGTH]), start)
        rank = np.int64(records[z, 2])
        chunk = rank // size
        row = rank - chunk * size
        start = np.int64(ints_at(chunks[chunk, CHUNK_OFF], size + 1)[row])
        source = ints_at(chunks[chunk, CHUNK_WORDS], chunks[chunk, CHUNK_WORD_LENGTH])
        for p in range(start, start + records[z, 3]):
            words[to] = source[p]
            to += 1
        records[z, 3] = to


@lean_kernel
def _head(run: Any, room: Any, counted: Any, met: Any, shares: Any, heads: Any, top: Any) -> Any:
    """Write the head of one run of words from entry `top` on; return its end and tail, or -1 where there is no room."""
    kinds = 0
    for p in range(run.shape[0]):
        word = run[p]
        if counted[word] == 0:
            met[kinds] = word
            kinds += 1
        counted[word] += np.int32(1)
    shares[:] = 0
    for i in range(kinds):
        shares[min(counted[met[i]], LARGEST)] += 1
    tail = np.int64(LARGEST)
    chosen = 0
    while tail > 0 and chosen + shares[tail] <= room:
        chosen += shares[tail]
        tail -= 1
    # A word is in the head if it has more than `tail`; all of those that have LARGEST or more are, or none.
    if tail == LARGEST:
        for i in range(kinds):
            tail = max(tail, np.int64(counted[met[i]]))
    if top + chosen > heads.shape[0]:
        for i in range(kinds):
            counted[met[i]] = 0
        return np.int64(-1), np.int64(0)
    for i in range(kinds):
        word = met[i]
        if counted[word] > tail:
            heads[top, 0] = word
            heads[top, 1] = counted[word]
            top += 1
        counted[word] = 0
    return np.int64(top), np.int64(tail)


@kernel
def head_nodes(
    level: Any, deepest: Any, records: Any, words: Any, starts: Any, state: Any, budget: Any, counted: Any, met: Any,
    shares: Any, nodes: Any, tops: Any, heads: Any, tails: Any,
) -> Any:  # fmt: skip
    """Make heads for more nodes, until so many words are counted; return how many were, or -1 where `heads` is full.

    `state` is how far that has come: level, node of the level, heads made. `tops` and `tails` have room for all nodes that may
    have a head.
    """
    done = np.int64(0)
    while state[0] <= deepest and done < budget:
        node = state[1]
        width = 2 * (level - state[0])
        begin, stop = starts[node << width], starts[(node + 1) << width]
        done += 1
        place = node_offset(state[0]) + node
        nodes[place] = -1
        if HEADED <= stop - begin <= MOST_HEADED:
            first = np.int64(records[begin - 1, 3]) if begin else np.int64(0)
            last = np.int64(records[stop - 1, 3])
            room = LEAST_WORDS + (stop - begin) // OBJECTS_A_WORD
            top, tail = _head(words[first:last], room, counted, met, shares, heads, tops[state[2]])
            if top < 0:
                return np.int64(-1)
            nodes[place] = state[2]
            tails[state[2]] = tail
            state[2] += 1
            tops[state[2]] = top
            done += last - first
        state[1] += 1
        if state[1] == np.int64(1) << (2 * state[0]):
            state[0] += 1
            state[1] = 0
    return done
