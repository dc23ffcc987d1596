"""The power of two choices, one row after the other."""

import numba
import numpy as np
from numpy.typing import NDArray

__all__ = ["choose_of_two"]

Places = NDArray[np.int64]


@numba.njit("int64[:](int64[:], int64[:], int64[:])", cache=True, nogil=True)
def _choose(first, second, sent):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    chosen = np.empty(len(first), np.int64)
    for i in range(len(first)):
        a, b = first[i], second[i]
        place = a if sent[a] <= sent[b] else b
        sent[place] += 1
        chosen[i] = place
    return chosen


def choose_of_two(first: Places, second: Places, sent: Places) -> Places:
    """Return for each row the candidate that was sent less so far, and count it in `sent`."""
    chosen: Places = _choose(first, second, sent)
    return chosen
