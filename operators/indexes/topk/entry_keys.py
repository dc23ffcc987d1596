"""Entries of buffers as keys, for kernels: a score and the place of a message in the window, in ten bytes or in twelve.

The better of two entries has the larger key: the one with the higher score, of equal ones the newer. A key has two columns,
`high` (int64) and `low`, whose type says how they divide it:

uint16  narrow: `high` has a score in 57 bits and the upper 7 of the 23 bits of a place, `low` the other 16. That is every
        score that is 0, or above 2^-31 and below 2: float64s of 32 exponents are 2^57 numbers in a row
uint32  wide: `high` is a score, `low` a place. That is every score and every place below `PLACES[1]`
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from streams.kernel import lean_kernel

__all__ = ["PLACES", "fits", "high_of", "low_of", "place_at", "score_at"]

Int = Any  # a machine integer, numpy's or Python's
Highs = NDArray[np.int64]
Lows = NDArray[Any]
Slots = NDArray[np.int32]

#: Places of the window that narrow keys and wide ones have.
PLACES = 2**23, 2**31 - 2**24

_NARROW = np.dtype(np.uint16)
_PLACE_BITS, _LOW_BITS = 7, 16
#: Scores between which narrow keys have all; the bits of 2^-15, which are in the middle; what stands for a score of 0.
_LEAST, _MOST = 2.0**-31, 2.0
_MIDDLE, _ZERO = 1008 << 52, -(1 << 56)
_SIGN = 2**63 - 1


@lean_kernel
def fits(score: Any, low: Lows) -> bool:
    """Tell whether keys have such a score."""
    return score == 0.0 or _LEAST < score < _MOST if low.dtype == _NARROW else True


@lean_kernel
def high_of(score: Any, place: Int, low: Lows) -> Int:
    """Return the first column of a key whose second one has this type; of the two zeros there is one."""
    bits = np.float64(score + 0.0).view(np.int64)
    if low.dtype == _NARROW:
        return ((bits - _MIDDLE if score != 0.0 else np.int64(_ZERO)) << _PLACE_BITS) | (place >> _LOW_BITS)
    return bits ^ ((bits >> 63) & _SIGN)


@lean_kernel
def low_of(place: Int, low: Lows) -> Int:
    """Return the second column of a key, of this type."""
    return place & ((1 << _LOW_BITS) - 1) if low.dtype == _NARROW else place


@lean_kernel
def score_at(high: Highs, low: Lows, entry: Int) -> Any:
    """Return the score of an entry."""
    bits = high[entry]
    if low.dtype == _NARROW:
        above = bits >> _PLACE_BITS
        return np.int64(above + _MIDDLE if above != _ZERO else 0).view(np.float64)
    return np.int64(bits ^ ((bits >> 63) & _SIGN)).view(np.float64)


@lean_kernel
def place_at(high: Highs, low: Lows, entry: Int) -> Int:
    """Return the place of the message of an entry."""
    if low.dtype == _NARROW:
        return (np.int32(high[entry] & ((1 << _PLACE_BITS) - 1)) << np.int32(_LOW_BITS)) | np.int32(low[entry])
    return np.int32(low[entry])
