"""Kernels that bound and score: a query against a cell of the grid (Equations 10 to 13), and against the objects in it.

Bounds are wide by `SLACK`, so that rounding errors prune nothing; scores are those of `streams.scoring`, to the last bit.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from operators.indexes.dynamic.object_grid_kernels import (
    LEAST,
    LENGTH,
    MOST,
    START,
    Cells,
    Objects,
    find_weights,
    word_at,
)
from operators.indexes.dynamic.object_rows import COUNT, NORM, X, Y
from operators.indexes.topk import scored_table as queries
from streams.kernel import kernel

__all__ = ["SLACK", "Asked", "Plane", "all_bounds", "cell_bounds", "query_word", "query_words", "scan"]

Int = Any  # a machine integer, numpy's or Python's
Floats = NDArray[np.float64]
Slots = NDArray[np.int32]
Ints = NDArray[np.int64]

SLACK = 1e-9
_Q_X, _Q_Y, _Q_ALPHA, _Q_NORM = queries.X, queries.Y, queries.ALPHA, queries.NORM
_Q_COUNT, _Q_FIRST, _Q_INLINE = queries.COUNT, queries.FIRST, queries.INLINE


class Asked(NamedTuple):
    """Columns of a `ScoredTable`, as they are now, and what objects call its words: -1 where none has one."""

    lines: Floats
    parts: Slots
    long: Slots
    idf: Floats
    word_of: Slots


class Plane(NamedTuple):
    """The space: its corner, what the side of the unit square is in it, cells to that side, the largest distance."""

    low_x: float
    low_y: float
    scale: float
    n: int
    far: float


@kernel
def query_word(slot: Int, nth: Int, asked: Asked) -> Int:
    """Return a word of a query."""
    if asked.parts[slot, _Q_COUNT] <= _Q_INLINE:
        return np.int64(asked.parts[slot, _Q_FIRST + nth])
    return np.int64(asked.long[asked.parts[slot, _Q_FIRST] + nth])


@kernel
def query_words(slot: Int, asked: Asked, words: Slots, weights: Floats) -> Int:
    """Write those words of a query that some object has, with the query's weights, ids ascending; return how many."""
    kept = 0
    for j in range(asked.parts[slot, _Q_COUNT]):
        word = query_word(slot, j, asked)
        if asked.word_of[word] >= 0:
            words[kept] = asked.word_of[word]
            weights[kept] = asked.idf[word] / asked.lines[slot, _Q_NORM]
            kept += 1
    return kept


@kernel
def cell_bounds(
    slot: Int, cell: Int, count: Int, words: Slots, weights: Floats, asked: Asked, plane: Plane, cells: Cells
) -> tuple[float, float]:
    """Return maxscore and minscore of a cell, -inf and inf where it has no keyword of the query.

    minscore is of the objects that share a keyword: the paper's is 0 for the text where no keyword is there, and then
    bounds nothing.
    """
    most, least = 0.0, np.inf
    for j in range(count):
        at = find_weights(words[j], cell, cells)
        if at >= 0:
            most += weights[j] * cells.weights[at, MOST]
            least = min(least, weights[j] * cells.weights[at, LEAST])
    if least == np.inf:
        return -np.inf, np.inf
    side = plane.scale / plane.n
    left = plane.low_x + (cell % plane.n) * side - asked.lines[slot, _Q_X]
    below = plane.low_y + (cell // plane.n) * side - asked.lines[slot, _Q_Y]
    near_x, near_y = max(max(left, -left - side), 0.0), max(max(below, -below - side), 0.0)
    far_x, far_y = max(abs(left), abs(left + side)), max(abs(below), abs(below + side))
    near = 1.0 - math.sqrt(near_x * near_x + near_y * near_y) / plane.far
    far = 1.0 - math.sqrt(far_x * far_x + far_y * far_y) / plane.far
    alpha = asked.lines[slot, _Q_ALPHA]
    return (
        alpha * near + (1.0 - alpha) * min(most, 1.0) + SLACK,
        alpha * far + (1.0 - alpha) * least - SLACK,
    )


@kernel
def all_bounds(
    slot: Int, count: Int, words: Slots, weights: Floats, asked: Asked, plane: Plane, cells: Cells, most: Floats,
    least: Floats,
) -> None:  # fmt: skip
    """Write the bounds of all cells."""
    for cell in range(cells.heads.shape[0]):
        most[cell], least[cell] = -np.inf, np.inf
        if cells.heads[cell, LENGTH] > 0:
            most[cell], least[cell] = cell_bounds(slot, cell, count, words, weights, asked, plane, cells)


@kernel
def scan(
    slot: Int, order: Slots, bounds: Floats, listed: Int, want: Int, count: Int, words: Slots, weights: Floats,
    asked: Asked, far: float, objects: Objects, cells: Cells, marks: Ints, serial: Int, found: Slots, scores: Floats,
    tally: Ints,
) -> Int:  # fmt: skip
    """Write the best objects of cells, which are ordered by bound, that are not marked with the serial; return how many.

    Branch and bound: a cell whose bound is below what has been found ends the search.
    """
    got = np.int64(0)
    for i in range(listed):
        if got == want and bounds[i] < scores[got - 1]:
            break
        first = cells.heads[order[i], START]
        tally[0] += cells.heads[order[i], LENGTH] + 1
        for p in range(first, first + cells.heads[order[i], LENGTH]):
            row = np.int64(cells.rows[p])
            if marks[row] == serial:
                continue
            alike, shared = 0.0, False
            for j in range(count):
                for k in range(objects.parts[row, COUNT]):
                    if word_at(row, k, objects.parts, objects.long) == words[j]:
                        alike += objects.idf[words[j]] / objects.lines[row, NORM] * weights[j]
                        shared = True
            if not shared:
                continue
            dx = objects.lines[row, X] - asked.lines[slot, _Q_X]
            dy = objects.lines[row, Y] - asked.lines[slot, _Q_Y]
            alpha = asked.lines[slot, _Q_ALPHA]
            score = alpha * (1.0 - np.sqrt(dx * dx + dy * dy) / far) + (1.0 - alpha) * alike
            seen, e = objects.first_seen[row], got
            while e > 0 and (
                scores[e - 1] < score or (scores[e - 1] == score and objects.first_seen[found[e - 1]] > seen)
            ):
                e -= 1
            if e == want:
                continue
            got = min(got + 1, want)
            for b in range(got - 1, e, -1):
                found[b], scores[b] = found[b - 1], scores[b - 1]
            found[e], scores[e] = row, score
    return got
