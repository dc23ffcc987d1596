"""Kernels that write the values of a Parquet page (Encodings.md of the format's repository).

    DELTA_BINARY_PACKED   a header (values of a block, miniblocks of a block, values in all, the first value); then blocks: the
                          least difference, the width of each miniblock, and what differences are above the least, in so many
                          bits each
    RLE_DICTIONARY        the width of a number, then runs of one number (length << 1, the number in whole bytes) and stretches
                          of eight each (eights << 1 | 1, the numbers in so many bits each)
    PLAIN                 of texts: the length in four bytes, then the bytes

Integers in between are seven bits a byte, the lowest first, zigzag where they may be
negative. Bits fill bytes from the lowest on.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from streams.byte_copies import SLACK, copied
from streams.kernel import lean_kernel

__all__ = [
    "BLOCK", "BLOCK_BYTES", "EIGHT_BYTES", "HEADER_BYTES", "number_anew", "pack_integers", "pack_numbers",
    "plain_texts",
]  # fmt: skip

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]
Offsets = NDArray[np.int32]
Codes = NDArray[np.int32]

#: Values of a block, of a miniblock, and miniblocks of a block.
BLOCK, _MINI, _MINIS = 128, 32, 4
#: The bytes that a block, the header, and eight numbers beside their bits take at most.
BLOCK_BYTES, HEADER_BYTES, EIGHT_BYTES = 10 + _MINIS + 8 * BLOCK, 24, 10

#: From so many equal numbers on they are a run; and so many eights a stretch has at most, so that its length is one byte.
_RUN, _MOST_EIGHTS = 8, 63

_WIDE: Any = np.int64
_SEVEN, _ONE, _BYTE, _MORE = np.uint64(7), np.uint64(1), np.uint64(255), np.uint64(128)
_LOW = np.uint64(2**32 - 1)


@lean_kernel
def _varint(value: Any, out: Bytes, at: Any) -> Any:
    value = np.uint64(value)
    while value >= _MORE:
        out[at] = (value & np.uint64(127)) | _MORE
        value >>= _SEVEN
        at += 1
    out[at] = value
    return at + 1


@lean_kernel
def _zigzag(value: Any, out: Bytes, at: Any) -> Any:
    return _varint(np.uint64(value << 1) ^ np.uint64(value >> 63), out, at)


@lean_kernel
def _width(value: Any) -> Any:
    """Return the bits that a number takes."""
    width = _WIDE(0)
    while value:
        value >>= _ONE
        width += 1
    return width


@lean_kernel
def pack_integers(values: Ints, block: Ints, out: Bytes) -> Any:
    """Write integers, whose differences may wrap around; return the bytes. `block` has room for one."""
    at = _varint(_WIDE(BLOCK), out, _WIDE(0))
    at = _varint(_WIDE(_MINIS), out, at)
    at = _varint(_WIDE(values.shape[0]), out, at)
    at = _zigzag(values[0], out, at)
    for start in range(1, values.shape[0], BLOCK):
        count = min(BLOCK, values.shape[0] - start)
        for k in range(count):
            block[k] = values[start + k] - values[start + k - 1]
        at = _pack_block(block, count, out, at)
    return at


@lean_kernel
def _pack_block(block: Ints, count: Any, out: Bytes, at: Any) -> Any:
    least = block[0]
    for k in range(1, count):
        least = min(least, block[k])
    for k in range(BLOCK):
        block[k] = block[k] - least if k < count else 0
    at = _zigzag(least, out, at)
    widths = at
    at += _MINIS
    for mini in range(_MINIS):
        bits = np.uint64(0)
        for k in range(mini * _MINI, (mini + 1) * _MINI):
            bits |= np.uint64(block[k])
        width = _width(bits)
        out[widths + mini] = width
        at = _pack_miniblock(block, mini * _MINI, width, out, at) if width else at
    return at


@lean_kernel
def _pack_miniblock(block: Ints, begin: Any, width: Any, out: Bytes, at: Any) -> Any:
    """Write differences in so many bits each, the lower half first: with what is held both may not fit."""
    held, bits = np.uint64(0), _WIDE(0)
    for k in range(begin, begin + _MINI):
        value, left = np.uint64(block[k]), width
        while left > 0:
            held |= (value & _LOW) << np.uint64(bits)
            held, bits, at = _flushed(held, bits + min(left, _WIDE(32)), out, at)
            value >>= np.uint64(32)
            left -= 32
    return at


@lean_kernel
def _flushed(held: Any, bits: Any, out: Bytes, at: Any) -> tuple[Any, Any, Any]:
    """Write the whole bytes of what is held; return what is left of it, its bits, and the place behind."""
    while bits >= 8:
        out[at] = held & _BYTE
        held >>= np.uint64(8)
        bits -= 8
        at += 1
    return held, bits, at


@lean_kernel
def pack_numbers(numbers: Codes, width: Any, out: Bytes) -> Any:
    """Write small numbers in so many bits each; return the bytes."""
    out[0] = width
    at, i, count, stretch, eights = _WIDE(1), _WIDE(0), numbers.shape[0], _WIDE(-1), _WIDE(0)
    while i < count:
        end = i + 1
        while end < count and numbers[end] == numbers[i]:
            end += 1
        if end - i >= _RUN:
            stretch = _WIDE(-1)
            at = _varint(_WIDE(end - i) << 1, out, at)
            for shift in range(0, width, 8):
                out[at] = (numbers[i] >> shift) & 255
                at += 1
            i = end
            continue
        if stretch < 0 or eights == _MOST_EIGHTS:
            stretch, eights = at, _WIDE(0)
            at += 1
        at = _pack_eight(numbers, i, width, out, at)
        eights += 1
        out[stretch] = eights << 1 | 1
        i += 8  # eights are whole: a run that begins within one is shorter by what fills it
    return at


@lean_kernel
def _pack_eight(numbers: Codes, begin: Any, width: Any, out: Bytes, at: Any) -> Any:
    held, bits = np.uint64(0), _WIDE(0)
    for i in range(begin, begin + 8):
        value = np.uint64(numbers[i]) if i < numbers.shape[0] else np.uint64(0)
        held |= value << np.uint64(bits)
        held, bits, at = _flushed(held, bits + width, out, at)
    return at


@lean_kernel
def number_anew(codes: Codes, numbers: Codes, found: Codes, out: Codes) -> Any:
    """Number codes as they are met; return how many different ones there are.

    `numbers` has -1 for each code to begin with; `found` has the code of each number then, `out` the number of each place.
    """
    count = _WIDE(0)
    for i in range(codes.shape[0]):
        code = codes[i]
        if numbers[code] < 0:
            numbers[code] = count
            found[count] = code
            count += 1
        out[i] = numbers[code]
    return count


@lean_kernel
def plain_texts(off: Offsets, text: Bytes, out: Bytes) -> Any:
    """Write texts, each behind its length, and return the bytes; `out` has `SLACK` behind them."""
    at = _WIDE(0)
    for i in range(off.shape[0] - 1):
        begin, end = _WIDE(off[i]), _WIDE(off[i + 1])
        for shift in range(0, 32, 8):
            out[at] = ((end - begin) >> shift) & 255
            at += 1
        if end + SLACK <= text.shape[0]:
            at = copied(text, begin, end - begin, out, at)
        else:
            for j in range(begin, end):
                out[at] = text[j]
                at += 1
    return at
