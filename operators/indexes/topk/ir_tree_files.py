"""The inverted files of an IR-tree: for each node and word, which children have the word, and with which largest weight.

entries   int32 rows, one for a node and a word: the node, -1 for a free row; the word; its first posting; the next and the
          previous entry of the same node. Free rows are a chain by `NEXT`
table     int32, a hash of entries by node and word, -1 for an empty place
lanes     int32 rows, one for a posting: the lane of the child in its node; the next posting of the entry. Free rows are a
          chain by `FOLLOWING`
weights   float64, by posting: the weight of the word in a message, or the largest one below a child
nodes     int32 rows, see `ir_tree_kernels`; here their parents, lanes, chains of entries and how many these are
state     int64, see the constants

What a posting says of a child is the largest weight of the child's own entry for the word, at all times: a change goes up the
tree for as long as it changes the largest one.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from streams.flat_hash import place_of
from streams.kernel import kernel

__all__ = ["entry_of", "file", "give_row", "largest", "lower", "release", "take_row", "weight_of"]

Int = Any  # a machine integer, numpy's or Python's
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Slots = NDArray[np.int32]

#: Columns of entries and of lanes.
NODE, WORD, FIRST, NEXT, PREVIOUS = range(5)
ENTRY_WIDTH = 5
LANE, FOLLOWING = range(2)

#: Columns of nodes.
PARENT, OWN_LANE, COUNT, LEVEL, FILES, CHAIN = range(6)
NODE_WIDTH = 6

#: Places in `state`: rows of entries, postings and nodes in use, then, `TOP` and `FREE` places on, where the array ends and the
#: first free row; the root; the messages and words that were ever added, and those that have left.
ENTRIES, LANES, NODES = 0, 3, 6
TOP, FREE = 1, 2
ROOT, HEAD, TAIL, WORD_HEAD, WORD_TAIL = range(9, 14)
STATE_SIZE = 14


@kernel
def take_row(kind: Int, rows: Slots, column: Int, state: Ints) -> Int:
    """Return a row that is free, of those chained by a column, or a new one; there is room for it."""
    row = state[kind + FREE]
    if row >= 0:
        state[kind + FREE] = rows[row, column]
    else:
        row = state[kind + TOP]
        state[kind + TOP] += 1
    state[kind] += 1
    return row


@kernel
def give_row(row: Int, kind: Int, rows: Slots, column: Int, state: Ints) -> None:
    """Free a row."""
    rows[row, column] = state[kind + FREE]
    state[kind + FREE] = row
    state[kind] -= 1


@kernel
def _place(node: Int, word: Int, places: Int) -> Int:
    return place_of((np.int64(node) << 32) | np.int64(word), places)


@kernel
def entry_of(node: Int, word: Int, entries: Slots, table: Slots) -> Int:
    """Return the entry of a node and a word, -1 where there is none."""
    place = _place(node, word, table.shape[0])
    while table[place] >= 0:
        entry = np.int64(table[place])
        if entries[entry, WORD] == word and entries[entry, NODE] == node:
            return entry
        place = place + 1 if place + 1 < table.shape[0] else np.int64(0)
    return np.int64(-1)


@kernel
def enter(entry: Int, entries: Slots, table: Slots) -> None:
    """Put an entry into the hash; there is room for it."""
    place = _place(entries[entry, NODE], entries[entry, WORD], table.shape[0])
    while table[place] >= 0:
        place = place + 1 if place + 1 < table.shape[0] else np.int64(0)
    table[place] = entry


@kernel
def rehash(entries: Slots, top: Int, table: Slots) -> None:
    """Put all entries into an empty hash."""
    for entry in range(top):
        if entries[entry, NODE] >= 0:
            enter(entry, entries, table)


@kernel
def _claim(node: Int, word: Int, nodes: Slots, entries: Slots, table: Slots, state: Ints) -> Int:
    """Return a new entry without postings; there is room for it."""
    entry = take_row(ENTRIES, entries, NEXT, state)
    after = np.int64(nodes[node, CHAIN])
    entries[entry, NODE], entries[entry, WORD], entries[entry, FIRST] = node, word, -1
    entries[entry, NEXT], entries[entry, PREVIOUS] = after, -1
    if after >= 0:
        entries[after, PREVIOUS] = entry
    nodes[node, CHAIN] = entry
    nodes[node, FILES] += 1
    enter(entry, entries, table)
    return entry


@kernel
def release(entry: Int, nodes: Slots, entries: Slots, table: Slots, state: Ints) -> None:
    """Free an entry that has no postings any more; entries behind it in the hash move up."""
    size = table.shape[0]
    hole = _place(entries[entry, NODE], entries[entry, WORD], size)
    while table[hole] != entry:
        hole = hole + 1 if hole + 1 < size else np.int64(0)
    place = hole + 1 if hole + 1 < size else np.int64(0)
    while table[place] >= 0:
        home = _place(entries[table[place], NODE], entries[table[place], WORD], size)
        if (place - home + size) % size >= (place - hole + size) % size:
            table[hole] = table[place]
            hole = place
        place = place + 1 if place + 1 < size else np.int64(0)
    table[hole] = -1
    node, after, before = np.int64(entries[entry, NODE]), entries[entry, NEXT], entries[entry, PREVIOUS]
    if before >= 0:
        entries[before, NEXT] = after
    else:
        nodes[node, CHAIN] = after
    if after >= 0:
        entries[after, PREVIOUS] = before
    nodes[node, FILES] -= 1
    entries[entry, NODE] = -1
    give_row(entry, ENTRIES, entries, NEXT, state)


@kernel
def largest(entry: Int, entries: Slots, lanes: Slots, weights: Floats) -> Any:
    """Return the largest weight of an entry, -1 where it has no postings."""
    most, posting = -1.0, np.int64(entries[entry, FIRST])
    while posting >= 0:
        most = max(most, weights[posting])
        posting = np.int64(lanes[posting, FOLLOWING])
    return most


@kernel
def weight_of(entry: Int, lane: Int, entries: Slots, lanes: Slots, weights: Floats) -> Any:
    """Return the weight of the word of an entry in a child, -1 where the child does not have it."""
    posting = np.int64(entries[entry, FIRST])
    while posting >= 0:
        if lanes[posting, LANE] == lane:
            return weights[posting]
        posting = np.int64(lanes[posting, FOLLOWING])
    return -1.0


@kernel
def _post(entry: Int, lane: Int, weight: Any, entries: Slots, lanes: Slots, weights: Floats, state: Ints) -> None:
    """Add a posting; there is room for it."""
    posting = take_row(LANES, lanes, FOLLOWING, state)
    lanes[posting, LANE], lanes[posting, FOLLOWING] = lane, entries[entry, FIRST]
    weights[posting] = weight
    entries[entry, FIRST] = posting


@kernel
def file(
    node: Int, lane: Int, word: Int, weight: Any, nodes: Slots, entries: Slots, table: Slots, lanes: Slots,
    weights: Floats, state: Ints,
) -> None:  # fmt: skip
    """Note that a child has a word with a weight, or with a larger one than before, up to the root."""
    while node >= 0:
        entry = entry_of(node, word, entries, table)
        if entry < 0:
            entry = _claim(node, word, nodes, entries, table, state)
        most, found, posting = -1.0, np.int64(-1), np.int64(entries[entry, FIRST])
        while posting >= 0:
            most = max(most, weights[posting])
            if lanes[posting, LANE] == lane:
                found = posting
            posting = np.int64(lanes[posting, FOLLOWING])
        if found < 0:
            _post(entry, lane, weight, entries, lanes, weights, state)
        else:
            weights[found] = max(weights[found], weight)
        if most >= weight:
            return
        lane, node = np.int64(nodes[node, OWN_LANE]), np.int64(nodes[node, PARENT])


@kernel
def lower(
    node: Int, lane: Int, word: Int, weight: Any, nodes: Slots, entries: Slots, table: Slots, lanes: Slots,
    weights: Floats, state: Ints,
) -> None:  # fmt: skip
    """Note that the weight of a child's word has fallen, or that it has the word no more (a weight below 0), up to the root."""
    while node >= 0:
        entry = entry_of(node, word, entries, table)
        before, posting, was, most = np.int64(-1), np.int64(entries[entry, FIRST]), -1.0, -1.0
        while posting >= 0:
            after = np.int64(lanes[posting, FOLLOWING])
            if lanes[posting, LANE] != lane:
                most = max(most, weights[posting])
                before = posting
            else:
                was = weights[posting]
                if weight >= 0.0:
                    weights[posting] = weight
                    before = posting
                else:
                    if before >= 0:
                        lanes[before, FOLLOWING] = after
                    else:
                        entries[entry, FIRST] = after
                    give_row(posting, LANES, lanes, FOLLOWING, state)
            posting = after
        if most >= was:
            return
        weight = max(most, weight)
        lane, above = np.int64(nodes[node, OWN_LANE]), np.int64(nodes[node, PARENT])
        if entries[entry, FIRST] < 0:
            release(entry, nodes, entries, table, state)
        node = above
