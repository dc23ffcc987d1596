"""Kernels that read numbers as JSON writes them, exact to the last bit."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from streams.kernel import lean_kernel

__all__ = ["number_at"]

Bytes = NDArray[np.uint8]

_WIDE: Any = np.int64  # a plain number, or a narrow one, as an argument would have a kernel compiled for it alone
_MINUS, _PLUS, _DOT, _ZERO, _NINE, _LOWER_E, _UPPER_E = 45, 43, 46, 48, 57, 101, 69

#: Powers of ten for which 128 bits of the power of five decide every rounding, and these bits (Lemire, Number Parsing at a
#: Gigabyte per Second, Software: Practice and Experience 51(8), 2021, sections 5 and 6).
_LEAST_POWER, _MOST_POWER = -27, 55


def _fives() -> NDArray[np.uint64]:
    found = []
    for power in range(_LEAST_POWER, _MOST_POWER + 1):
        five = 5 ** abs(power)
        inverse = (1 << ((five - 1).bit_length() + 127)) // five + 1
        bits = inverse if power < 0 else five << 128 >> five.bit_length()
        found.append((bits >> 64, bits & (2**64 - 1)))
    return np.array(found, np.uint64)


_FIVES = _fives()
_TENS = np.array([float(10**power) for power in range(23)])
_LEAST_TWO = -200
_TWOS = np.ldexp(1.0, np.arange(_LEAST_TWO, 256))
_ONE, _LOW_HALF, _HALF_BITS = np.uint64(1), np.uint64(2**32 - 1), np.uint64(32)
_TOP, _EXACT, _ROUNDED = np.uint64(2**63), np.uint64(2**53), np.uint64(511)
_NINE_BITS, _TOP_BIT, _TWO_BITS = np.uint64(9), np.uint64(63), np.uint64(3)


@lean_kernel
def _times(a: np.uint64, b: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Return the upper and the lower 64 bits of a product."""
    a_low, a_high, b_low, b_high = a & _LOW_HALF, a >> _HALF_BITS, b & _LOW_HALF, b >> _HALF_BITS
    low, cross = a_low * b_low, a_high * b_low
    middle = a_low * b_high + (low >> _HALF_BITS) + (cross & _LOW_HALF)
    return a_high * b_high + (cross >> _HALF_BITS) + (middle >> _HALF_BITS), a * b


@lean_kernel
def _decimal(digits: np.uint64, power: int) -> float:
    """Return the double next to ``digits * 10**power``, of two the even one; NaN for a power that is not small."""
    if power < _LEAST_POWER or power > _MOST_POWER:
        return np.nan
    if digits <= _EXACT and -22 <= power <= 22:  # both are doubles, so one operation rounds once
        return float(digits / _TENS[-power] if power < 0 else digits * _TENS[power])
    if digits == 0:
        return 0.0
    shift = 0
    while digits < _TOP:
        digits <<= _ONE
        shift += 1
    place = power - _LEAST_POWER
    high, low = _times(digits, _FIVES[place, 0])
    if high & _ROUNDED == _ROUNDED:
        more, _ = _times(digits, _FIVES[place, 1])
        low += more
        high += np.uint64(low < more)
    upper = high >> _TOP_BIT
    kept = high >> (upper + _NINE_BITS)
    two = ((217706 * power) >> 16) + 63 + _WIDE(upper) - shift - 52
    if low <= _ONE and -4 <= power <= 23 and kept & _TWO_BITS == _ONE and kept << (upper + _NINE_BITS) == high:
        kept ^= _ONE  # exactly between two doubles
    return float(((kept + (kept & _ONE)) >> _ONE) * _TWOS[two - _LEAST_TWO])


@lean_kernel
def number_at(data: Bytes, at: int, stop: int) -> tuple[int, bool, int, float]:
    """Return the place behind a number, whether it is an integer, and its value as one and as a double; place -1: not plain.

    Minus nought is none: it is no integer as written.
    """
    negative = at < stop and data[at] == _MINUS
    at += negative
    first, digits = at, np.uint64(0)
    while at < stop and _ZERO <= data[at] <= _NINE:
        digits = digits * np.uint64(10) + np.uint64(data[at] - _ZERO)
        at += 1
    count = at - first
    if count == 0 or (count > 1 and data[first] == _ZERO):
        return -1, False, 0, 0.0
    if at == stop or not (data[at] == _DOT or data[at] == _LOWER_E or data[at] == _UPPER_E):
        if count > 18 or (negative and digits == 0):
            return -1, False, 0, 0.0
        value = -_WIDE(digits) if negative else _WIDE(digits)
        return at, True, value, float(value)
    power = 0
    if data[at] == _DOT:
        at += 1
        dot = at
        while at < stop and _ZERO <= data[at] <= _NINE:
            digits = digits * np.uint64(10) + np.uint64(data[at] - _ZERO)
            at += 1
        power = dot - at
        if power == 0:
            return -1, False, 0, 0.0
        count -= power
        while count > 19 and (data[first] == _ZERO or data[first] == _DOT):  # noughts in front are no digits that count
            count -= data[first] == _ZERO
            first += 1
    if count > 19:
        return -1, False, 0, 0.0
    if at < stop and (data[at] == _LOWER_E or data[at] == _UPPER_E):
        at += 1
        below = at < stop and data[at] == _MINUS
        at += at < stop and (data[at] == _MINUS or data[at] == _PLUS)
        begin, exponent = at, 0
        while at < stop and at < begin + 4 and _ZERO <= data[at] <= _NINE:
            exponent = exponent * 10 + _WIDE(data[at] - _ZERO)
            at += 1
        if at == begin or at == begin + 4:
            return -1, False, 0, 0.0
        power += -exponent if below else exponent
    found = _decimal(digits, power)
    return (-1 if found != found else at), False, 0, -found if negative else found
