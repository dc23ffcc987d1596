"""The score of a `topk` result, in one fixed order of float64 operations.

    score  = alpha * (1 - distance / maxdist) + (1 - alpha) * cosine
    cosine = sum over the shared keywords w, ids ascending, of (idf(w) / |o|) * (idf(w) / |q|)
    |o|    = sqrt(sum over the keywords w of o, ids ascending, of idf(w) * idf(w))

Addition of floats is not associative, so "the sum" is not a definition: here every sum starts at 0.0 and goes from left
to right, one addition at a time, no fused multiply-add, no pairwise or vectorised reduction, and every weight is divided
by its norm before it is multiplied. An index that repeats these steps gives the same bits as the oracle. `cosine` and
`score` work on plain numbers and compile under numba as they stand; `norms`, `unit_weights` and `cosines` are the same steps
over columns.
"""

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from streams.columns import Ints, Offsets
from streams.vocabulary import Vocabulary

__all__ = ["cosine", "cosines", "norms", "score", "unit_weights"]

Floats = NDArray[np.float64]
Number = TypeVar("Number", float, Floats)


def score(distance: Number, cosine: Number, alpha: float, max_distance: float) -> Number:
    """Return alpha * (1 - distance / max_distance) + (1 - alpha) * cosine, of one pair or of a column."""
    return alpha * (1.0 - distance / max_distance) + (1.0 - alpha) * cosine


def cosine(kw_a: Any, weight_a: Any, kw_b: Any, weight_b: Any) -> float:
    """Return the cosine of one pair from ascending keyword ids and their unit weights.

    Any indexable sequences do. A product of floats does not depend on the order of its factors, so neither does the
    result depend on which of the two comes first.
    """
    total = 0.0
    i = j = 0
    while i < len(kw_a) and j < len(kw_b):
        if kw_a[i] == kw_b[j]:
            total += weight_a[i] * weight_b[j]
            i += 1
            j += 1
        elif kw_a[i] < kw_b[j]:
            i += 1
        else:
            j += 1
    return total


def unit_weights(kw_off: Offsets, kw: Ints, vocabulary: Vocabulary) -> Floats:
    """Return idf(w) / norm of its row for each keyword of ragged rows.

    The idf comes from `Vocabulary.idf` and nowhere else: a logarithm computed by another library may differ in its last
    bit, so kernels are given these weights and never compute their own.
    """
    return np.asarray(vocabulary.idf(kw) / np.repeat(norms(kw_off, kw, vocabulary), np.diff(kw_off)), np.float64)


def norms(kw_off: Offsets, kw: Ints, vocabulary: Vocabulary) -> Floats:
    """Return the norm of each ragged row, for those who keep idf and norm instead of every weight; 0.0 for an empty one."""
    rows = len(kw_off) - 1
    idf = vocabulary.idf(kw)
    squares = _left_to_right(np.repeat(np.arange(rows), np.diff(kw_off)), idf * idf, rows)
    return np.asarray(np.sqrt(squares), np.float64)


def cosines(kw_off: Offsets, kw: Ints, weight: Floats, query_kw: Ints, query_weight: Floats) -> Floats:
    """Return the cosine of each ragged row with one query; 0.0 where no keyword is shared."""
    rows = len(kw_off) - 1
    if not len(query_kw):
        return np.zeros(rows)
    row = np.repeat(np.arange(rows), np.diff(kw_off))
    place = np.minimum(np.searchsorted(query_kw, kw), len(query_kw) - 1)
    shared = query_kw[place] == kw
    return _left_to_right(row[shared], weight[shared] * query_weight[place[shared]], rows)


def _left_to_right(row: NDArray[np.integer], value: Floats, rows: int) -> Floats:
    """Sum values by row in their order: `numpy.bincount` adds one after the other, `numpy.sum` does not."""
    return np.bincount(row, weights=value, minlength=rows).astype(np.float64, copy=False)
