"""A hash of each text without the values that it repeats: numbers, quoted strings, lists and objects."""

import numpy as np
from numpy.typing import NDArray

from streams.kernel import kernel

__all__ = ["kind_hashes"]

_BASIS = np.uint64(14695981039346656037)  # FNV-1a
_PRIME = np.uint64(1099511628211)
_QUOTE, _BACKSLASH, _MINUS, _PLUS, _POINT, _E = 34, 92, 45, 43, 46, 101
_OPEN_LIST, _OPEN_OBJECT, _CLOSE_LIST, _CLOSE_OBJECT = 91, 123, 93, 125


@kernel
def kind_hashes(data: NDArray[np.uint8], offsets: NDArray[np.int32], found: NDArray[np.uint64]) -> None:
    """Hash texts, of which `offsets` has the beginnings and, last, the end; values that are cut short go to the end."""
    for row in range(len(offsets) - 1):
        value, stop = _BASIS, offsets[row + 1]
        quoted, depth, number = False, 0, False
        place = offsets[row]
        while place < stop:
            byte = data[place]
            if quoted:
                if byte == _BACKSLASH:
                    place += 1
                quoted = byte != _QUOTE
                place += 1
                continue
            digit = 48 <= byte <= 57
            # What joins digits to a number: a sign or a point before a digit, an exponent between them.
            follows = place + 1 < stop and (48 <= data[place + 1] <= 57 or data[place + 1] in (_MINUS, _PLUS))
            joins = byte in (_MINUS, _PLUS, _POINT) and follows
            number = digit or joins or (number and (byte | 32) == _E and follows)
            quoted = byte == _QUOTE
            if byte in (_OPEN_LIST, _OPEN_OBJECT):
                depth += 1
            elif byte in (_CLOSE_LIST, _CLOSE_OBJECT):
                depth -= 1
            elif not (digit or number or quoted) and depth <= 0:
                value = (value ^ np.uint64(byte)) * _PRIME
            place += 1
        found[row] = value
