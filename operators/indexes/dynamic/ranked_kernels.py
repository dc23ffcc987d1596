"""Kernels of ranked lists: the best objects of each query, and in whose lists an object is (the paper's OutQ).

start, length, room     by slot: where a list begins in `who` and `value`, its entries, how many it can have; the best first, of
                        equal scores the object first seen
theta, cut              by slot, the threshold: the list has every object that is better than score `theta` and, of equal score,
                        than one first seen at `cut`, or is just that one
flags                   uint8 by slot: the list has changed; its threshold may have; it has been looked at in this batch
backs                   int64 rows by object: where its block of `pool` begins, queries in whose lists it is, class of the block
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from operators.indexes.dynamic.block_lists import CLASS, LENGTH, START, add_to, remove_from
from operators.indexes.topk.buffer_blocks import give_block
from streams.kernel import kernel

__all__ = ["CHANGED", "RETUNED", "TOUCHED", "Lists", "append", "append_all", "clear", "enter", "leave"]

Int = Any  # a machine integer, numpy's or Python's
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Slots = NDArray[np.int32]

CHANGED, RETUNED, TOUCHED = np.uint8(1), np.uint8(2), np.uint8(4)


class Lists(NamedTuple):
    """Columns of lists, as they are now."""

    start: Ints
    length: Slots
    room: Slots
    theta: Floats
    cut: Ints
    flags: NDArray[np.uint8]
    who: Slots
    value: Floats


@kernel
def leave(gone: Slots, lists: Lists, backs: Ints, pool: Slots, free: Ints, blocks: Ints) -> None:
    """Take objects out of all lists."""
    for i in range(gone.shape[0]):
        row = np.int64(gone[i])
        for p in range(backs[row, START], backs[row, START] + backs[row, LENGTH]):
            slot = pool[p]
            e, last = lists.start[slot], lists.start[slot] + lists.length[slot] - 1
            while lists.who[e] != row:
                e += 1
            while e < last:
                lists.who[e], lists.value[e] = lists.who[e + 1], lists.value[e + 1]
                e += 1
            lists.length[slot] -= 1
            lists.flags[slot] |= CHANGED | TOUCHED
        give_block(backs[row, START], backs[row, CLASS], pool, free, blocks)
        backs[row, LENGTH] = backs[row, CLASS] = 0


@kernel
def enter(
    rows: Slots, slots: Slots, scores: Floats, first_seen: Ints, lists: Lists, backs: Ints, pool: Slots, free: Ints,
    blocks: Ints, ousted: Slots,
) -> tuple[Slots, Int]:  # fmt: skip
    """Put objects into lists that they are good enough for; return the pool, and how many pairs are in `ousted`.

    These are of a query and of an object that made room for a better one.
    """
    count = np.int64(0)
    for i in range(rows.shape[0]):
        row, slot, score = np.int64(rows[i]), np.int64(slots[i]), scores[i]
        seen = first_seen[row]
        if score < lists.theta[slot] or (score == lists.theta[slot] and seen > lists.cut[slot]):
            continue
        base, length = lists.start[slot], np.int64(lists.length[slot])
        e = base + length
        while e > base and (
            lists.value[e - 1] < score or (lists.value[e - 1] == score and first_seen[lists.who[e - 1]] > seen)
        ):
            e -= 1
        if e == base + lists.room[slot]:
            continue
        if length == lists.room[slot]:
            length -= 1
            out = np.int64(lists.who[base + length])
            remove_from(out, slot, backs, pool)
            ousted[count, 0], ousted[count, 1] = slot, out
            count += 1
        for p in range(base + length, e, -1):
            lists.who[p], lists.value[p] = lists.who[p - 1], lists.value[p - 1]
        lists.who[e], lists.value[e] = row, score
        lists.length[slot] = length + 1
        lists.flags[slot] |= CHANGED | TOUCHED
        pool = add_to(row, slot, backs, pool, free, blocks)
    return pool, count


@kernel
def append(
    slot: Int,
    found: Slots,
    scores: Floats,
    count: Int,
    lists: Lists,
    backs: Ints,
    pool: Slots,
    free: Ints,
    blocks: Ints,
) -> Slots:
    """Put objects behind those of a list; return the pool."""
    for i in range(count):
        e = lists.start[slot] + lists.length[slot]
        lists.who[e], lists.value[e] = found[i], scores[i]
        lists.length[slot] += 1
        pool = add_to(np.int64(found[i]), slot, backs, pool, free, blocks)
    lists.flags[slot] |= CHANGED | RETUNED
    return pool


@kernel
def append_all(
    slots: Slots,
    off: Ints,
    found: Slots,
    scores: Floats,
    lists: Lists,
    backs: Ints,
    pool: Slots,
    free: Ints,
    blocks: Ints,
) -> Slots:
    """Put objects, in ragged rows, into lists that are empty; return the pool."""
    for i in range(slots.shape[0]):
        row = slice(off[i], off[i + 1])
        pool = append(
            np.int64(slots[i]), found[row], scores[row], off[i + 1] - off[i], lists, backs, pool, free, blocks
        )
    return pool


@kernel
def clear(slots: Slots, lists: Lists, backs: Ints, pool: Slots) -> None:
    """Empty lists."""
    for i in range(slots.shape[0]):
        slot = np.int64(slots[i])
        for e in range(lists.start[slot], lists.start[slot] + lists.length[slot]):
            remove_from(np.int64(lists.who[e]), slot, backs, pool)
        lists.length[slot] = 0
