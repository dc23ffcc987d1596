"""Kernels of AQF: queries by cell of a grid and group, and the bounds of groups (Sections IV and V).

heads       int64 rows by group (those of a cell one after the other): where its block of `pool` begins, queries, class of the
            block, scans
pool        int32: slots of queries, in blocks
bounds      float64 rows by group: the least K~ = kScore / (1 - alpha) and the largest D~ = alpha / (1 - alpha) * SimSUB of its
            queries
maxwts      float32 rows by group: the largest weights of words; words with the same remainder share a place
edges       float64 rows by cell: quantiles of D~, where one group ends and the next begins
reach       float64 by slot: the kScore that the influential circle was drawn for, not above the current one; inf for none
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from operators.indexes.dynamic.block_lists import LENGTH, START, add_to, remove_from
from operators.indexes.topk.igpt_kernels import LEAST as LEAST_TEXT
from operators.indexes.topk.igpt_kernels import k_star
from operators.indexes.topk.scored_table import ALPHA, COUNT, FIRST, INLINE, NORM
from streams.kernel import kernel

__all__ = ["Groups", "file", "probe", "unfile"]

Int = Any  # a machine integer, numpy's or Python's
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Slots = NDArray[np.int32]

#: The place in a head behind those of `block_lists`.
SCANS = 3
K_LEAST, D_MOST = range(2)
_UP = np.float32(1.000001)
_SLACK = 1e-6
#: The least K~ of a group is found anew in one of so many scans.
_RENEWED = 16


class Groups(NamedTuple):
    """Columns of groups, and the table's columns of queries, as they are now."""

    heads: Ints
    bounds: Floats
    maxwts: Singles
    edges: Floats
    reach: Floats
    spots: Floats
    lines: Floats
    parts: Slots
    long: Slots
    idf: Floats


@kernel
def _apart(slot: Int, cell: Int, n: Int, spots: Floats) -> float:
    """Return how far a query is from a cell of the unit square."""
    side = 1.0 / n
    left, below = (cell % n) * side - spots[slot, 0], (cell // n) * side - spots[slot, 1]
    dx, dy = max(max(left, -left - side), 0.0), max(max(below, -below - side), 0.0)
    return math.sqrt(dx * dx + dy * dy)


@kernel
def _reaches(alpha: float, apart: float, kscore: float) -> bool:
    """Tell whether a circle reaches what is so far away, as a part of maxdist (Equation 4, which divides by alpha)."""
    return bool(alpha * apart <= 1.0 - kscore + _SLACK)


@kernel
def _group(cell: Int, alpha: float, apart: float, groups: Groups) -> tuple[Int, float]:
    """Return the group of a query in a cell, and its D~."""
    d_tilde = alpha / max(1.0 - alpha, LEAST_TEXT) * max(1.0 - apart, 0.0)
    first, last = np.int64(0), np.int64(groups.edges.shape[1])
    while first < last:
        middle = (first + last) >> 1
        if groups.edges[cell, middle] < d_tilde:
            first = middle + 1
        else:
            last = middle
    return cell * (groups.edges.shape[1] + 1) + first, d_tilde


@kernel
def _join(slot: Int, group: Int, groups: Groups, pool: Slots, free: Ints, blocks: Ints) -> Slots:
    """Put a query into a group; return the pool, which may be a larger one."""
    pool = add_to(group, slot, groups.heads, pool, free, blocks)
    for j in range(groups.parts[slot, COUNT]):
        many = groups.parts[slot, COUNT] > INLINE
        word = groups.long[groups.parts[slot, FIRST] + j] if many else groups.parts[slot, FIRST + j]
        place = word & (groups.maxwts.shape[1] - 1)
        weight = np.float32(groups.idf[word] / groups.lines[slot, NORM]) * _UP
        groups.maxwts[group, place] = max(groups.maxwts[group, place], weight)
    return pool


@kernel
def file(
    slots: Slots, kscores: Floats, n: Int, diagonal: float, groups: Groups, pool: Slots, free: Ints, blocks: Ints
) -> Slots:
    """Draw circles for these scores, which are below those of circles that are there; return the pool.

    Queries join the groups of cells that their circle has come to reach, and the bounds of all groups that they are in follow.
    """
    for i in range(slots.shape[0]):
        slot, kscore = np.int64(slots[i]), kscores[i]
        alpha, before = groups.lines[slot, ALPHA], groups.reach[slot]
        star = k_star(kscore, alpha)
        for cell in range(n * n):
            apart = _apart(slot, cell, n, groups.spots) / diagonal
            if not _reaches(alpha, apart, kscore):
                continue
            group, d_tilde = _group(cell, alpha, apart, groups)
            if not _reaches(alpha, apart, before):
                pool = _join(slot, group, groups, pool, free, blocks)
            groups.bounds[group, K_LEAST] = min(groups.bounds[group, K_LEAST], star)
            groups.bounds[group, D_MOST] = max(groups.bounds[group, D_MOST], d_tilde)
        groups.reach[slot] = kscore
    return pool


@kernel
def unfile(slots: Slots, n: Int, diagonal: float, groups: Groups, pool: Slots) -> None:
    """Take queries out of all groups; bounds stay as wide as they are."""
    for i in range(slots.shape[0]):
        slot = np.int64(slots[i])
        alpha = groups.lines[slot, ALPHA]
        for cell in range(n * n):
            apart = _apart(slot, cell, n, groups.spots) / diagonal
            if not _reaches(alpha, apart, groups.reach[slot]):
                continue
            group = _group(cell, alpha, apart, groups)[0]
            remove_from(group, slot, groups.heads, pool)
        groups.reach[slot] = np.inf


@kernel
def _least_k(group: Int, groups: Groups, pool: Slots) -> float:
    """Return the least K~ of a group, of the scores that circles were drawn for: these are what a kScore falls below."""
    least = np.inf
    first = groups.heads[group, START]
    for p in range(first, first + groups.heads[group, LENGTH]):
        least = min(least, k_star(groups.reach[pool[p]], groups.lines[pool[p], ALPHA]))
    return least


@kernel
def probe(
    first: Int,
    cells: Slots,
    off: Ints,
    words: Slots,
    weights: Floats,
    groups: Groups,
    pool: Slots,
    out: Ints,
    tally: Ints,
) -> Int:
    """Write the queries of groups that are not pruned (slot above, message below) from `first` on; return where to go on.

    Algorithm 1, Theorem 1: the largest similarity of texts that a group allows is below what its thresholds ask for. What can
    be gone on with is a message and a group of its cell; `tally` has what was written, groups looked at, and groups pruned.
    """
    to_cell, count = groups.edges.shape[1] + 1, np.int64(0)
    for task in range(first, cells.shape[0] * to_cell):
        message = task // to_cell
        group = np.int64(cells[message]) * to_cell + task % to_cell
        length = groups.heads[group, LENGTH]
        if length == 0:
            continue
        if count + length > out.shape[0]:
            tally[0] = count
            return np.int64(task)
        most = _SLACK
        for j in range(off[message], off[message + 1]):
            most += weights[j] * groups.maxwts[group, words[j] & (groups.maxwts.shape[1] - 1)]
        tally[1] += 1
        if most < groups.bounds[group, K_LEAST] - groups.bounds[group, D_MOST]:
            tally[2] += 1
            continue
        groups.heads[group, SCANS] += 1
        if groups.heads[group, SCANS] % _RENEWED == 0:
            groups.bounds[group, K_LEAST] = _least_k(group, groups, pool)
        start = groups.heads[group, START]
        for p in range(start, start + length):
            out[count] = (np.int64(pool[p]) << 32) | message
            count += 1
    tally[0] = count
    return np.int64(cells.shape[0] * to_cell)
