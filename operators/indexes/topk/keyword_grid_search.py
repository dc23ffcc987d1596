"""The search of the grids of messages; their layout is in `keyword_grid_kernels`.

A message is found through the last of the keywords that it shares with the subscription, by ids. Where that word has the
weights a and b in the two, the cosine is at most ``a * b`` plus the product of the norms of what they have below the word; and
just ``a * b`` where the signatures of these parts have no bit in common. So

    alpha * distance <= (1 - alpha) * (a * b + below * below') + alpha - threshold

holds, in units of the largest distance, for all that is wanted. With the largest norm of a class it bounds the distance, and
so the cells to look at. Bounds are computed in float32 and rounded up; scores are those of `streams.scoring`.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from operators.indexes.topk.keyword_grid_cells import cells_around, cells_beyond, prefetch_around, prefetch_ring
from operators.indexes.topk.keyword_grid_kernels import (
    BELOW_REFERENCE,
    CLASSES,
    LEVEL,
    REFERENCE,
    SLACK,
    START,
    UP,
    bit_of,
)  # fmt: skip
from operators.indexes.topk.keyword_grid_scan import FOUND, LEAST, LEFT, MOST, TOP, scan, text_of
from streams.kernel import kernel, lean_kernel
from streams.prefetch import prefetch

__all__ = ["search", "texts"]

Int = Any  # a machine integer, numpy's or Python's
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Slots = NDArray[np.int32]
Singles = NDArray[np.float32]
One = Any  # a request, see `keyword_grid_scan`
Factors = Any  # of a bound, see `scan`

#: Postings of a list that are asked for before it is read: the machine asks for the rest by itself.
_ASKED = 32
#: Cells of the second turn that are looked at before the bounds of smaller norms are: a few together are one lot.
_CELLS = 16


@lean_kernel
def _grid(
    word: Int, turn: Int, norm: Any, one: One, factors: Factors, reaches: Floats, ends: Ints, chosen: Slots,
    here: Singles, directory: Slots, references: Singles, cells: Slots, spans: Floats, posts: Singles, marks: Slots,
    words: Slots, weights: Floats, place: Slots, frame: Floats, log: Floats, numbers: Ints, parts: Slots, best: Floats,
    best_at: Ints, lot: Any, outcome: Ints,
) -> None:  # fmt: skip
    """Look at the cells of a word, class by class from the largest norms: first those around, in the second turn the rest."""
    start, level = np.int64(directory[word, START]), np.int64(directory[word, LEVEL])
    step = norm * references[word, REFERENCE] / np.float32(BELOW_REFERENCE) * np.float32(1.00001)
    largest, spare = norm * np.float32(1.00001), one[2] - best[best.shape[0] - 1] + frame[SLACK]
    for kind in range(CLASSES):
        reaches[kind] = (largest if kind == CLASSES - 1 else min(largest, np.float32(kind + 1) * step)) + spare
    if turn == 0:
        cells_around(start, level, one, frame, cells, spans, posts, chosen, ends)
    else:
        cells_beyond(start, level, reaches, one, frame, cells, spans, posts, chosen, ends, outcome)
    begin, stop = np.int64(0), np.int64(0)
    for kind in range(CLASSES - 1, -1, -1):
        gained = one[2] - best[best.shape[0] - 1] + frame[SLACK] - spare
        if reaches[kind] + gained < 0:
            outcome[LEFT] = 1
            break
        stop = ends[kind]
        if turn == 1 and stop - begin >= _CELLS:
            scan(
                word, begin, stop, one, factors, chosen, here, cells, posts, marks, words, weights, place, frame, log,
                numbers, parts, best, best_at, lot, outcome,
            )  # fmt: skip
            begin = stop
    if stop > begin:
        scan(
            word, begin, stop, one, factors, chosen, here, cells, posts, marks, words, weights, place, frame, log,
            numbers, parts, best, best_at, lot, outcome,
        )  # fmt: skip


@lean_kernel
def _pursue(
    words: Slots, one: One, reaches: Floats, ends: Ints, chosen: Slots, here: Singles, directory: Slots,
    references: Singles, cells: Slots, spans: Floats, posts: Singles, marks: Slots, weights: Floats,
    place: Slots, frame: Floats, log: Floats, numbers: Ints, parts: Slots, best: Floats, best_at: Ints,
    lot: Any, outcome: Ints,
) -> None:  # fmt: skip
    """List what one request wants: through rare words first, short lists and near cells before the rest."""
    share = np.float32(1.0 - one[2]) * UP
    for turn in range(2):
        for j in range(words.shape[0] - 1, -1, -1):
            word = np.int64(words[j])
            if word < 0 or (turn == 1 and directory[word, LEVEL] == 0):
                continue
            squares, signature = 0.0, np.int32(0)
            for i in range(j):
                if words[i] >= 0:
                    squares += weights[i] * weights[i]
                    signature |= bit_of(np.int64(words[i]))
            factors = share * np.float32(weights[j]) * UP, share * np.float32(np.sqrt(squares)) * UP, signature
            if directory[word, LEVEL] == 0:
                chosen[0] = directory[word, START]
                scan(
                    word, 0, 1, one, factors, chosen, here, cells, posts, marks, words, weights, place, frame, log,
                    numbers, parts, best, best_at, lot, outcome,
                )  # fmt: skip
                continue
            norm = share * np.float32(np.sqrt(squares + weights[j] * weights[j])) * UP
            _grid(
                word, turn, norm, one, factors, reaches, ends, chosen, here, directory, references, cells, spans,
                posts, marks, words, weights, place, frame, log, numbers, parts, best, best_at, lot, outcome,
            )  # fmt: skip


@lean_kernel
def _listed(one: One, best: Floats, outcome: Ints) -> Any:
    """Return how many of those listed are wanted, and what all others can score at most."""
    found, least = outcome[FOUND], outcome[LEAST]
    if found < least or (found == least and outcome[LEFT] == 0):
        return found, -np.inf
    last = best[least - 1]
    bound = min(last, one[4] * last) if one[4] != 0.0 else one[3]
    count = found
    while count > least and best[count - 1] < bound:
        count -= 1
    if count == found and outcome[LEFT] == 0:
        return count, -np.inf
    cut = best[count - 1] < bound or count == outcome[MOST]
    return count, best[count - 1] if cut else bound


@lean_kernel
def _mark(words: Slots, place: Slots, mark: bool) -> None:
    """Write, or take away, the place of each word among the subscription's."""
    for j in range(words.shape[0]):
        if words[j] >= 0:
            place[words[j]] = j if mark else -1


@lean_kernel
def _ask_ahead(
    r: Int,
    one: One,
    off: Slots,
    words: Slots,
    frame: Floats,
    directory: Slots,
    cells: Slots,
    spans: Floats,
    posts: Singles,
) -> None:
    """Ask for postings or cells of all words of a request, for the headers of the next one, the directory of the one after."""
    last = off.shape[0] - 1
    for j in range(off[min(r + 2, last)], off[min(r + 3, last)]):
        prefetch(directory, 4 * np.int64(words[j]))
    for j in range(off[min(r + 1, last)], off[min(r + 2, last)]):
        if words[j] >= 0:
            prefetch(cells, 4 * np.int64(directory[words[j], START]))
    for j in range(off[r + 1] - 1, off[r] - 1, -1):
        if words[j] >= 0:
            start, level = np.int64(directory[words[j], START]), np.int64(directory[words[j], LEVEL])
            if level == 0:
                prefetch_ring(start, _ASKED, cells, posts)
            else:
                prefetch_around(start, level, one, frame, cells, spans)


@kernel
def search(
    begin: Int, asks: Any, words: Slots, here: Singles, held: Int, frame: Floats, logs: Any, grids: Any,
    place: Slots, work: Any, out: Any,
) -> Int:  # fmt: skip
    """Answer requests from `begin` on; return where to go on when there is room for more, or the end.

    `asks` are the columns of `Requests` without the ids of keywords; `words` are their numbers, -1 where no message has them;
    `out` takes offsets, scores, `seq`, positions and floors.
    """
    x, y, alpha, off, weights, least, most, bound, ratio, first, stop = asks
    out_off, out_score, out_seq, out_at, floor = out
    best, best_at, lot, chosen, outcome = work
    reaches, ends = np.empty(CLASSES), np.empty(CLASSES, np.int64)
    log, numbers, parts = logs
    directory, references, cells, spans, posts, marks = grids
    mask = log.shape[0] - 1
    for r in range(begin, x.shape[0]):
        outcome[LEAST] = min(np.int64(least[r]), held + 1)
        outcome[MOST] = min(np.int64(most[r]), held + 1)
        outcome[FOUND] = outcome[LEFT] = 0
        best[best.shape[0] - 1] = -np.inf
        if outcome[TOP] + min(outcome[MOST], held) > out_at.shape[0]:
            return np.int64(r)
        one = (x[r], y[r], alpha[r], bound[r], ratio[r], first[r], stop[r])
        _ask_ahead(r, one, off, words, frame, directory, cells, spans, posts)
        mine_words = words[off[r] : off[r + 1]]
        _mark(mine_words, place, True)
        _pursue(
            mine_words, one, reaches, ends, chosen, here[r], directory, references, cells, spans, posts, marks,
            weights[off[r] : off[r + 1]], place, frame, log, numbers, parts, best, best_at, lot,
            outcome,
        )  # fmt: skip
        _mark(mine_words, place, False)
        count, floor[r] = _listed(one, best, outcome)
        top = outcome[TOP]
        for i in range(count):
            out_score[top + i], out_at[top + i] = best[i], best_at[i]
            out_seq[top + i] = numbers[(best_at[i] + 2) & mask]
        outcome[TOP] = top + count
        out_off[r + 1] = outcome[TOP]
    return np.int64(x.shape[0])


@lean_kernel
def texts(
    off: Ints, at: Ints, word_off: Slots, words: Slots, weights: Floats, here: Singles, place: Slots, logs: Any,
    out: Floats,
) -> None:  # fmt: skip
    """Write x, y and the cosine of messages that were found, for those who compute scores themselves."""
    log, numbers, parts = logs
    mask = log.shape[0] - 1
    for r in range(off.shape[0] - 1):
        mine_words = words[word_off[r] : word_off[r + 1]]
        _mark(mine_words, place, True)
        mine = weights[word_off[r] : word_off[r + 1]]
        for i in range(off[r], off[r + 1]):
            out[i, 0], out[i, 1] = log[at[i] & mask], log[(at[i] + 1) & mask]
            out[i, 2] = text_of(at[i], mine, place, log, numbers, parts)[0]
        _mark(mine_words, place, False)
