"""Kernels of cell lists: which cells of the grid may have the next best objects of a query (Section VI).

heads       int64 rows by slot: where its block begins, cells, class of the block
which       int32: cells, by maxscore, the largest first; `most` (float64) has the maxscore of each
low         float64 by slot: PCL.low. A cell with an object that scores at least this, and is not in the list of the query, is
            listed. inf where there is no cell list, -inf where all cells with a keyword of the query are listed
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from operators.indexes.dynamic.cell_bounds import (
    SLACK,
    Asked,
    Plane,
    all_bounds,
    cell_bounds,
    query_word,
    query_words,
    scan,
)
from operators.indexes.dynamic.object_grid_kernels import Cells, Objects
from operators.indexes.dynamic.ranked_kernels import Lists, append
from operators.indexes.topk import scored_table as queries
from operators.indexes.topk.buffer_blocks import class_of, give_block, room_of, take_block
from streams.kernel import kernel

__all__ = ["CHECKED", "RECREATED", "SCANNED", "Batch", "check_pairs", "fill", "list_cells", "maintain", "top_up"]

Int = Any  # a machine integer, numpy's or Python's
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Slots = NDArray[np.int32]

START, LENGTH, CLASS = range(3)
#: Places in `tally`: objects and cells looked at, checks, cell lists made anew.
SCANNED, CHECKED, RECREATED = range(3)
_Q_X, _Q_Y, _Q_ALPHA, _Q_NORM = queries.X, queries.Y, queries.ALPHA, queries.NORM
_Q_COUNT = queries.COUNT


class Batch(NamedTuple):
    """The states that end and begin in a batch, and by word of a query which of them have it.

    `cell` is where a state is, `other` where the object was before or is afterwards, -1 for nowhere.
    """

    x: Floats
    y: Floats
    off: Ints
    words: Slots
    weights: Floats
    cell: Slots
    other: Slots
    begins: Ints
    rows: Ints


@kernel
def _fit(
    size: Int, slot: Int, heads: Ints, which: Slots, most: Floats, free: Ints, blocks: Ints
) -> tuple[Slots, Floats]:
    """Give a cell list room for so many cells; return the pools, which may be larger ones."""
    if size > room_of(heads[slot, CLASS]):
        larger = class_of(size + (size >> 2))
        block = take_block(larger, which, free, blocks)
        if block < 0:
            size = 2 * which.shape[0] + room_of(larger)
            more_cells, more_bounds = np.empty(size, np.int32), np.empty(size)
            more_cells[: which.shape[0]], more_bounds[: which.shape[0]] = which, most
            which, most = more_cells, more_bounds
            block = take_block(larger, which, free, blocks)
        for p in range(heads[slot, LENGTH]):
            which[block + p], most[block + p] = which[heads[slot, START] + p], most[heads[slot, START] + p]
        give_block(heads[slot, START], heads[slot, CLASS], which, free, blocks)
        heads[slot, START], heads[slot, CLASS] = block, larger
    return which, most


@kernel
def _recreate(
    slot: Int, theta: float, partial: bool, upper: Floats, lower: Floats, heads: Ints, low: Floats, which: Slots,
    most: Floats, free: Ints, blocks: Ints,
) -> tuple[Slots, Floats]:  # fmt: skip
    """Make a cell list from the bounds of all cells (Definition 5).

    A partial one ends where some cell that is worse than the k-th object has an object for certain: PCL.low. Cells whose
    objects are all in the list are left out. Comparisons are not strict, as ties would be lost.
    """
    low[slot] = -np.inf
    if partial:
        for cell in range(upper.shape[0]):
            if -np.inf < upper[cell] < theta:
                low[slot] = max(low[slot], lower[cell])
    heads[slot, LENGTH] = 0
    count = np.int64(0)
    order = np.argsort(-upper)
    for i in range(order.shape[0]):
        if upper[order[i]] == -np.inf or upper[order[i]] < low[slot]:
            break
        count += 1
    which, most = _fit(count, slot, heads, which, most, free, blocks)
    kept = heads[slot, START]
    for i in range(count):
        cell = order[i]
        if not partial or lower[cell] <= theta:
            which[kept], most[kept] = cell, upper[cell]
            kept += 1
    heads[slot, LENGTH] = kept - heads[slot, START]
    return which, most


@kernel
def _check(
    slot: Int, cell: Int, theta: float, partial: bool, count: Int, words: Slots, weights: Floats, asked: Asked,
    plane: Plane, cells: Cells, heads: Ints, low: Floats, which: Slots, most: Floats, free: Ints, blocks: Ints,
) -> tuple[Slots, Floats]:  # fmt: skip
    """List a cell, or do not, by what its bounds are now (Algorithm 3)."""
    first, length = heads[slot, START], heads[slot, LENGTH]
    p = first
    while p < first + length and which[p] != cell:
        p += 1
    if p < first + length:
        length -= 1
        while p < first + length:
            which[p], most[p] = which[p + 1], most[p + 1]
            p += 1
        heads[slot, LENGTH] = length
    upper, lower = cell_bounds(slot, cell, count, words, weights, asked, plane, cells)
    if upper == -np.inf or (partial and (upper < low[slot] or lower > theta)):
        return which, most
    which, most = _fit(length + 1, slot, heads, which, most, free, blocks)
    p = heads[slot, START] + length
    while p > heads[slot, START] and most[p - 1] < upper:
        which[p], most[p] = which[p - 1], most[p - 1]
        p -= 1
    which[p], most[p] = cell, upper
    heads[slot, LENGTH] = length + 1
    return which, most


@kernel
def _trim(
    slot: Int, theta: float, count: Int, words: Slots, weights: Floats, asked: Asked, plane: Plane, cells: Cells,
    heads: Ints, low: Floats, which: Slots, most: Floats,
) -> None:  # fmt: skip
    """Leave out the cells of a partial list that are out of its range by now (Algorithm 4); their order stays."""
    kept = first = heads[slot, START]
    for p in range(first, first + heads[slot, LENGTH]):
        upper, lower = cell_bounds(slot, np.int64(which[p]), count, words, weights, asked, plane, cells)
        if upper > -np.inf and most[p] >= low[slot] and lower <= theta:
            which[kept], most[kept] = which[p], most[p]
            kept += 1
    heads[slot, LENGTH] = kept - first


@kernel
def _alike(slot: Int, row: Int, far: float, asked: Asked, batch: Batch) -> float:
    """Return the score of a query and a state of the batch, near enough."""
    total = 0.0
    for j in range(asked.parts[slot, _Q_COUNT]):
        word = query_word(slot, j, asked)
        for p in range(batch.off[row], batch.off[row + 1]):
            if batch.words[p] == word:
                total += batch.weights[p] * (asked.idf[word] / asked.lines[slot, _Q_NORM])
    dx, dy = batch.x[row] - asked.lines[slot, _Q_X], batch.y[row] - asked.lines[slot, _Q_Y]
    alpha = asked.lines[slot, _Q_ALPHA]
    return float(alpha * (1.0 - np.sqrt(dx * dx + dy * dy) / far) + (1.0 - alpha) * total)


@kernel
def maintain(
    open_slots: Slots, partial: bool, batch: Batch, lists: Lists, asked: Asked, plane: Plane, cells: Cells, heads: Ints,
    low: Floats, which: Slots, most: Floats, free: Ints, blocks: Ints, words: Slots, weights: Floats, seen: Ints,
    upper: Floats, lower: Floats, tally: Ints,
) -> tuple[Slots, Floats]:  # fmt: skip
    """Keep all cell lists right after a batch of states; return the pools.

    For each query, whatever the case (L2L, S2L, L2S, S2S): both cells of an object are checked where its old or its new state
    comes up to PCL.low, which is no case of S2S.a (Lemmas 1 to 3). States that share no keyword with a query need no look. A
    partial list that is empty then is made anew. `seen` is by cell.
    """
    for i in range(open_slots.shape[0]):
        slot = np.int64(open_slots[i])
        theta, count, checks = lists.theta[slot], np.int64(-1), np.int64(0)
        if theta == -np.inf or low[slot] == np.inf:
            continue
        for j in range(asked.parts[slot, _Q_COUNT]):
            word = query_word(slot, j, asked)
            for p in range(batch.begins[word], batch.begins[word + 1]):
                row = batch.rows[p]
                if partial and low[slot] > -np.inf and _alike(slot, row, plane.far, asked, batch) + SLACK < low[slot]:
                    continue
                if count < 0:
                    count = query_words(slot, asked, words, weights)
                for cell in (np.int64(batch.cell[row]), np.int64(batch.other[row])):
                    if cell >= 0 and seen[cell] != slot:
                        seen[cell] = slot
                        checks += 1
                        which, most = _check(
                            slot, cell, theta, partial, count, words, weights, asked, plane, cells, heads, low, which,
                            most, free, blocks,
                        )  # fmt: skip
        tally[CHECKED] += checks
        if partial and checks > 0 and heads[slot, LENGTH] == 0 and low[slot] > -np.inf:
            all_bounds(slot, count, words, weights, asked, plane, cells, upper, lower)
            which, most = _recreate(slot, theta, partial, upper, lower, heads, low, which, most, free, blocks)
            tally[RECREATED] += 1
    return which, most


@kernel
def check_pairs(
    slots: Slots, at: Slots, partial: bool, lists: Lists, asked: Asked, plane: Plane, cells: Cells, heads: Ints,
    low: Floats, which: Slots, most: Floats, free: Ints, blocks: Ints, words: Slots, weights: Floats, tally: Ints,
) -> tuple[Slots, Floats]:  # fmt: skip
    """Check cells of queries: those of objects that a list has no more (k.cell of Algorithm 5); return the pools."""
    for i in range(slots.shape[0]):
        slot = np.int64(slots[i])
        if lists.theta[slot] == -np.inf or low[slot] == np.inf:
            continue
        count = query_words(slot, asked, words, weights)
        which, most = _check(
            slot, np.int64(at[i]), lists.theta[slot], partial, count, words, weights, asked, plane, cells, heads, low,
            which, most, free, blocks,
        )  # fmt: skip
        tally[CHECKED] += 1
    return which, most


@kernel
def _mark(slot: Int, lists: Lists, marks: Ints, serial: Int) -> None:
    for e in range(lists.start[slot], lists.start[slot] + lists.length[slot]):
        marks[lists.who[e]] = serial


@kernel
def fill(
    slots: Slots, wanted: Slots, lists: Lists, asked: Asked, plane: Plane, objects: Objects, cells: Cells, marks: Ints,
    serial: Int, words: Slots, weights: Floats, upper: Floats, lower: Floats, found: Slots, scores: Floats, backs: Ints,
    pool: Slots, links: Ints, linked: Ints, tally: Ints,
) -> Slots:  # fmt: skip
    """Search all cells for so many more objects of each query; return the pool of who is in whose list."""
    for i in range(slots.shape[0]):
        slot = np.int64(slots[i])
        count = query_words(slot, asked, words, weights)
        all_bounds(slot, count, words, weights, asked, plane, cells, upper, lower)
        order = np.argsort(-upper)
        listed = np.int64(0)
        while listed < order.shape[0] and upper[order[listed]] > -np.inf:
            listed += 1
        _mark(slot, lists, marks, serial + i)
        got = scan(
            slot, order[:listed].astype(np.int32), upper[order[:listed]], listed, wanted[i], count, words, weights, asked,
            plane.far, objects, cells, marks, serial + i, found, scores, tally,
        )  # fmt: skip
        tally[SCANNED] += cells.heads.shape[0]
        pool = append(slot, found, scores, got, lists, backs, pool, links, linked)
    return pool


@kernel
def list_cells(
    slots: Slots, partial: bool, lists: Lists, asked: Asked, plane: Plane, cells: Cells, heads: Ints, low: Floats,
    which: Slots, most: Floats, free: Ints, blocks: Ints, words: Slots, weights: Floats, upper: Floats, lower: Floats,
    tally: Ints,
) -> tuple[Slots, Floats]:  # fmt: skip
    """Make cell lists anew; return the pools."""
    for i in range(slots.shape[0]):
        slot = np.int64(slots[i])
        count = query_words(slot, asked, words, weights)
        all_bounds(slot, count, words, weights, asked, plane, cells, upper, lower)
        which, most = _recreate(slot, lists.theta[slot], partial, upper, lower, heads, low, which, most, free, blocks)
        tally[SCANNED] += cells.heads.shape[0]
        tally[RECREATED] += 1
    return which, most


@kernel
def top_up(
    slots: Slots, wanted: Slots, lists: Lists, asked: Asked, plane: Plane, objects: Objects, cells: Cells, marks: Ints,
    serial: Int, words: Slots, weights: Floats, found: Slots, scores: Floats, backs: Ints, pool: Slots, links: Ints,
    linked: Ints, partial: bool, heads: Ints, low: Floats, which: Slots, most: Floats, missed: Slots, tally: Ints,
) -> tuple[Slots, Int]:  # fmt: skip
    """Search the listed cells for so many more objects of each query; return the pool, and how many slots are in `missed`.

    Of these the cell list has too few that come up to PCL.low: a cell that is not listed may have a better one.
    """
    misses = np.int64(0)
    for i in range(slots.shape[0]):
        slot = np.int64(slots[i])
        first, listed = heads[slot, START], heads[slot, LENGTH]
        count = query_words(slot, asked, words, weights)
        _mark(slot, lists, marks, serial + i)
        got = scan(
            slot, which[first : first + listed], most[first : first + listed], listed, wanted[i], count, words, weights,
            asked, plane.far, objects, cells, marks, serial + i, found, scores, tally,
        )  # fmt: skip
        if low[slot] > -np.inf and (got < wanted[i] or scores[got - 1] < low[slot]):
            missed[misses] = slot
            misses += 1
            continue
        pool = append(slot, found, scores, got, lists, backs, pool, links, linked)
        if partial and got == wanted[i]:
            _trim(slot, scores[got - 1], count, words, weights, asked, plane, cells, heads, low, which, most)
    return pool, misses
