"""Drawing distinct keywords for many queries at once, as ragged columns of ascending ids."""

import numpy as np
from numpy.typing import NDArray

from streams.columns import Ints, Offsets, sorted_rows

__all__ = ["drawn_from_objects", "drawn_from_ranks", "drawn_uniformly"]


def drawn_from_objects(
    rng: np.random.Generator, kw_off: Offsets, kw: Ints, wanted: Ints, df: Ints
) -> tuple[Offsets, Ints]:
    """Pick `wanted` keywords of each object at random, or all where it has fewer.

    An object without keywords gives none, and a query must have some: it gets one word of the vocabulary, drawn by
    document frequency, as a random object would have given it.
    """
    lengths = np.diff(kw_off).astype(np.int64)
    row = np.repeat(np.arange(len(wanted)), lengths)
    # Random numbers order the keywords within a row; the first ones are the pick.
    order = np.lexsort((rng.random(len(kw)), row))
    place = np.arange(len(kw)) - np.repeat(kw_off[:-1].astype(np.int64), lengths)
    picked = place < wanted[row]
    rows, values = row[picked], kw[order][picked]
    bare = np.flatnonzero((lengths == 0) & (wanted > 0))
    if len(bare):
        spare = _ranks(rng, df.astype(np.float64), len(bare))
        rows, values = np.concatenate([rows, bare]), np.concatenate([values, spare])
        by_row = np.argsort(rows, kind="stable")
        rows, values = rows[by_row], values[by_row]
    return sorted_rows(rows, values, len(wanted))


def drawn_from_ranks(rng: np.random.Generator, weights: NDArray[np.float64], wanted: Ints) -> tuple[Offsets, Ints]:
    """Draw `wanted` distinct ranks for each row, a rank with a probability in proportion to its weight.

    Rows that drew a rank twice draw again for what is missing; what many rounds leave missing (a distribution that is
    almost one word) is filled with the lowest ranks that the row does not have.
    """
    wanted = np.minimum(wanted, len(weights))
    rows = values = np.empty(0, np.int64)
    off = np.zeros(len(wanted) + 1, np.int32)
    for _ in range(64):
        missing = wanted - np.diff(off)
        if not missing.any():
            return off, values
        more = np.repeat(np.arange(len(wanted)), missing)
        rows = np.concatenate([np.repeat(np.arange(len(wanted)), np.diff(off)), more])
        values = np.concatenate([values, _ranks(rng, weights, len(more))])
        by_row = np.argsort(rows, kind="stable")
        off, values = sorted_rows(rows[by_row], values[by_row], len(wanted))
    return _filled(off, values, wanted)


def drawn_uniformly(rng: np.random.Generator, first: int, end: int, wanted: Ints) -> tuple[Offsets, Ints]:
    """Draw `wanted` distinct ids of the range from first to end (exclusive) for each row; fewer where it is shorter."""
    off, values = drawn_from_ranks(rng, np.ones(max(end - first, 0)), wanted)
    return off, values + first


def _ranks(rng: np.random.Generator, weights: NDArray[np.float64], count: int) -> Ints:
    """Draw ranks by weight: the inverse of the cumulative distribution."""
    total = np.cumsum(weights)
    drawn = np.searchsorted(total, rng.random(count) * total[-1], side="right")
    return np.asarray(np.minimum(drawn, len(weights) - 1), np.int64)


def _filled(off: Offsets, values: Ints, wanted: Ints) -> tuple[Offsets, Ints]:
    rows = np.repeat(np.arange(len(wanted)), np.diff(off))
    extra_rows, extra = [], []
    for row in np.flatnonzero(wanted > np.diff(off)).tolist():
        have = set(values[off[row] : off[row + 1]].tolist())
        rank = 0
        while len(have) < wanted[row]:
            if rank not in have:
                have.add(rank)
                extra_rows.append(row)
                extra.append(rank)
            rank += 1
    rows = np.concatenate([rows, np.array(extra_rows, np.int64)])
    values = np.concatenate([values, np.array(extra, np.int64)])
    by_row = np.argsort(rows, kind="stable")
    return sorted_rows(rows[by_row], values[by_row], len(wanted))
