"""A kernel that reads objects from JSON lines, all fields of a line in one pass.

It knows plain JSON only: fields each once, with a value of a kind that the field may have, other fields with a value that is
no list and no object, keys without escapes, integers of at most 18 digits, numbers of at most 19 whose power of ten is small,
ids and times that are all numbers or all strings. A line with anything else is left out as a whole, and is read by a real
parser; so nothing here decides what is valid. The lines that are plain are written one after the other:

    integers   of `ID` and of `TS`, 0 where that is none or a text; `HAS`: the fields that the object has (bit ``1 << field``),
               where a null is none; `DELETES`: 1 where `OP` says so
    numbers    of `X`, `Y`, `LON`, `LAT`, in this order; NaN where there is none
    out        the bytes of texts: of `ID`, of `TS`, of `TEXT` (`TEXTS_AT`), of all words (`WORDS_AT`)
    off        where each text but words starts and ends, as Arrow has it
    list_off, word_off   where the words of each object start and end, and the bytes of each word
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from streams.files.json_kernels import (
    BRACE,
    BRACE_END,
    BRACKET,
    BRACKET_END,
    COLON,
    COMMA,
    FALSE_WORD,
    NULL_WORD,
    QUOTE,
    SPACE,
    TRUE_WORD,
    Bytes,
    blank,
)
from streams.kernel import lean_kernel
from streams.number_kernels import number_at

__all__ = [
    "DELETES", "HAS", "ID", "IGNORED", "INTEGERS", "KEYWORDS", "LAT", "LON", "OP", "TEXT", "TEXTS", "TEXTS_AT", "TS",
    "UNREAD", "WORDS_AT", "X", "Y", "scan_objects",
]  # fmt: skip

Ints = NDArray[np.int64]
Offsets = NDArray[np.int32]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

#: Fields. One that is `UNREAD` must be null in a plain line; of one that is `IGNORED` the value does not matter.
ID, TS, X, Y, LON, LAT, KEYWORDS, TEXT, OP, UNREAD, IGNORED = range(11)

#: Rows of `integers` and of `out` behind those of `ID` and `TS`.
HAS, DELETES = 2, 3
_WIDE: Any = np.int64  # a plain number, or a narrow one, as an argument would have a kernel compiled for it alone
TEXTS_AT, WORDS_AT, _NOUGHT = _WIDE(2), _WIDE(3), _WIDE(0)

#: Whether all ids, all times of the plain lines are integers, or texts; 0 where there are none.
INTEGERS, TEXTS = 1, 2

_BACKSLASH, _LOWER_U = 92, 117
_UPSERT, _DELETE = (np.frombuffer(word, np.uint8) for word in (b'"upsert"', b'"delete"'))

#: What a letter behind a backslash stands for; 0: nothing.
_ESCAPES = np.zeros(256, np.uint8)
_ESCAPES[np.frombuffer(b'"\\/bfnrt', np.uint8)] = np.frombuffer(b'"\\/\b\f\n\r\t', np.uint8)
#: The value of a hexadecimal digit; that of another letter is so large that the whole is.
_HEX = np.full(256, 0x10000, np.int64)
for _digits in (b"0123456789abcdef", b"0123456789ABCDEF"):
    _HEX[np.frombuffer(_digits, np.uint8)] = np.arange(16)


@lean_kernel
def _word_end(data: Bytes, at: int, stop: int, words: Bytes, first: int, last: int) -> int:
    """Return the place behind a word, -1 where another one stands."""
    if at + last - first > stop:
        return -1
    for j in range(first, last):
        if data[at + j - first] != words[j]:
            return -1
    return at + last - first


@lean_kernel
def _escape(data: Bytes, at: int, stop: int, out: Bytes, part: int, size: int) -> tuple[int, int]:
    """Write what an escape stands for; return the place behind it and the size of what is written, place -1: not plain."""
    if at + 1 < stop and _ESCAPES[data[at + 1]]:
        out[part, size] = _ESCAPES[data[at + 1]]
        return at + 2, size + 1
    code, end = 0, at + 6
    if end > stop or data[at + 1] != _LOWER_U:
        return -1, size
    for j in range(at + 2, end):
        code = code << 4 | _HEX[data[j]]
    if code >= 0x10000 or 0xD800 <= code < 0xE000:  # no digits, or half of a character
        return -1, size
    if code < 0x80:
        out[part, size] = code
        return end, size + 1
    if code < 0x800:
        out[part, size], out[part, size + 1] = 0xC0 | code >> 6, 0x80 | code & 0x3F
        return end, size + 2
    out[part, size], out[part, size + 1], out[part, size + 2] = (
        0xE0 | code >> 12,
        0x80 | code >> 6 & 0x3F,
        0x80 | code & 0x3F,
    )
    return end, size + 3


@lean_kernel
def _text(data: Bytes, at: int, stop: int, out: Bytes, part: int, size: int) -> tuple[int, int]:
    """Write the string that starts here; return the place behind it and the size of what is written, place -1: not plain."""
    if at >= stop or data[at] != QUOTE:
        return -1, size
    at += 1
    while 0 <= at < stop:
        byte = data[at]
        if byte == QUOTE:
            return at + 1, size
        if byte < SPACE:
            return -1, size
        if byte == _BACKSLASH:
            at, size = _escape(data, at, stop, out, part, size)
        else:
            out[part, size] = byte
            size += 1
            at += 1
    return -1, size


@lean_kernel
def _words(data: Bytes, at: int, stop: int, count: int, word_off: Offsets, out: Bytes) -> tuple[int, int]:
    """Write the words of the list that starts here; return the place behind it and the number of words so far."""
    if at >= stop or data[at] != BRACKET:
        return -1, count
    at = blank(data, at + 1, stop)
    if at < stop and data[at] == BRACKET_END:
        return at + 1, count
    while True:
        at, size = _text(data, at, stop, out, WORDS_AT, _WIDE(word_off[count]))
        if at < 0:
            return -1, count
        count += 1
        word_off[count] = size
        at = blank(data, at, stop)
        if at < stop and data[at] == BRACKET_END:
            return at + 1, count
        if at >= stop or data[at] != COMMA:
            return -1, count
        at = blank(data, at + 1, stop)


@lean_kernel
def _ignored(data: Bytes, at: int, stop: int, out: Bytes, size: int) -> int:
    """Return the place behind a value that is no list and no object; what is written behind `size` does not count."""
    if data[at] == QUOTE:
        return _text(data, at, stop, out, WORDS_AT, size)[0]
    end = _word_end(data, at, stop, TRUE_WORD, _NOUGHT, len(TRUE_WORD))
    end = _word_end(data, at, stop, FALSE_WORD, _NOUGHT, len(FALSE_WORD)) if end < 0 else end
    return number_at(data, at, stop)[0] if end < 0 else end


@lean_kernel
def _field(data: Bytes, at: int, stop: int, names: Bytes, name_off: Ints, order: Ints, member: int) -> tuple[int, int]:
    """Return the place behind a key and which of the names it is (-1: none of them); place -1: not plain.

    Lines have their fields in the same order, mostly: the name that the line before had here is looked at first.
    """
    guess = order[member] if member < len(order) else -1
    if guess >= 0 and at < stop and data[at] == QUOTE:
        end = _word_end(data, at + 1, stop, names, name_off[guess], name_off[guess + 1])
        if 0 <= end < stop and data[end] == QUOTE:
            return end + 1, guess
    if at >= stop or data[at] != QUOTE:
        return -1, -1
    end = at + 1
    while end < stop and data[end] != QUOTE:
        if data[end] == _BACKSLASH or data[end] < SPACE:
            return -1, -1
        end += 1
    if end == stop:
        return -1, -1
    for name in range(len(name_off) - 1):
        same = name_off[name + 1] - name_off[name] == end - at - 1
        if same and _word_end(data, at + 1, stop, names, name_off[name], name_off[name + 1]) >= 0:
            if member < len(order):
                order[member] = name
            return end + 1, name
    return end + 1, -1


@lean_kernel
def _value(
    data: Bytes, at: int, stop: int, field: int, row: int, integers: Ints, numbers: Floats, off: Offsets, out: Bytes,
    list_off: Offsets, word_off: Offsets,
) -> int:  # fmt: skip
    """Read the value of a field, unless that is an id or a time; return the place behind it, -1: not plain."""
    end = -1
    if X <= field <= LAT:
        end, _, _, numbers[field - X, row] = number_at(data, at, stop)
    elif field == KEYWORDS:
        end, list_off[row + 1] = _words(data, at, stop, _WIDE(list_off[row]), word_off, out)
    elif field == TEXT:
        end, off[TEXTS_AT, row + 1] = _text(data, at, stop, out, TEXTS_AT, _WIDE(off[TEXTS_AT, row]))
    elif field == OP:
        end = _word_end(data, at, stop, _DELETE, _NOUGHT, len(_DELETE))
        integers[DELETES, row] = end >= 0
        end = _word_end(data, at, stop, _UPSERT, _NOUGHT, len(_UPSERT)) if end < 0 else end
    elif field == IGNORED:
        end = _ignored(data, at, stop, out, _WIDE(word_off[list_off[row + 1]]))
    return end


@lean_kernel
def _name_or_time(
    data: Bytes, at: int, stop: int, field: int, row: int, kinds: Ints, integers: Ints, off: Offsets, out: Bytes
) -> int:
    """Read an id or a time; return the place behind it, -1: not plain, or not of the kind that the others are of."""
    kind, whole = TEXTS if data[at] == QUOTE else INTEGERS, True
    if kinds[0, field] != 0 and kinds[0, field] != kind:
        return -1
    kinds[1, field] = kind
    if kind == TEXTS:
        end, off[field, row + 1] = _text(data, at, stop, out, field, _WIDE(off[field, row]))
    else:
        end, whole, integers[field, row], _ = number_at(data, at, stop)
    return end if whole else -1


@lean_kernel
def _line(
    data: Bytes, at: int, stop: int, row: int, names: Bytes, name_off: Ints, fields: Ints, order: Ints, kinds: Ints,
    integers: Ints, numbers: Floats, off: Offsets, out: Bytes, list_off: Offsets, word_off: Offsets,
) -> bool:  # fmt: skip
    """Read the object of one line; tell whether it is plain. What a line that is not plain leaves behind is written over."""
    at = blank(data, at, stop)
    if at >= stop or data[at] != BRACE:
        return False
    for j in range(4):
        integers[j, row], numbers[j, row] = 0, np.nan
    for j in range(3):
        off[j, row + 1] = off[j, row]
    list_off[row + 1] = list_off[row]
    seen, has, member = 0, 0, _NOUGHT
    kinds[1, ID], kinds[1, TS] = kinds[0, ID], kinds[0, TS]
    at = blank(data, at + 1, stop)
    closed = at < stop and data[at] == BRACE_END
    while not closed:
        at, name = _field(data, at, stop, names, name_off, order, member)
        member += 1
        if at < 0 or (name >= 0 and seen >> name & 1):
            return False
        seen |= 1 << name if name >= 0 else 0
        field = fields[name] if name >= 0 else IGNORED
        at = blank(data, at, stop)
        if at >= stop or data[at] != COLON:
            return False
        at = blank(data, at + 1, stop)
        if at >= stop:
            return False
        end = _word_end(data, at, stop, NULL_WORD, _NOUGHT, len(NULL_WORD))
        if end < 0:
            has |= 1 << field
            if field <= TS:
                end = _name_or_time(data, at, stop, field, row, kinds, integers, off, out)
            else:
                end = _value(data, at, stop, field, row, integers, numbers, off, out, list_off, word_off)
        if end < 0:
            return False
        at = blank(data, end, stop)
        closed = at < stop and data[at] == BRACE_END
        if not closed:
            if at >= stop or data[at] != COMMA:
                return False
            at = blank(data, at + 1, stop)
    if blank(data, at + 1, stop) != stop:
        return False
    integers[HAS, row], kinds[0, ID], kinds[0, TS] = has, kinds[1, ID], kinds[1, TS]
    return True


@lean_kernel
def scan_objects(
    data: Bytes, starts: Ints, stops: Ints, names: Bytes, name_off: Ints, fields: Ints, order: Ints, plain: Flags,
    kinds: Ints, integers: Ints, numbers: Floats, off: Offsets, out: Bytes, list_off: Offsets, word_off: Offsets,
) -> tuple[int, int, int]:  # fmt: skip
    """Read the objects of the lines that are plain; return how many these are, the fields that all have, and that any has.

    Name n is ``names[name_off[n] : name_off[n + 1]]``, of ``fields[n]``. `order` is where the kernel remembers in which order
    a line has its fields, -1 to begin with. `kinds` of ids and of times, so far and with the line at hand, are 0 to begin
    with, as are the first offsets. Each row of `out` must have room for all of `data`, and `word_off` for a word each three
    bytes.
    """
    row, common, some = _NOUGHT, -1, 0
    for line in range(len(starts)):
        plain[line] = _line(
            data, starts[line], stops[line], row, names, name_off, fields, order, kinds, integers, numbers, off, out,
            list_off, word_off,
        )  # fmt: skip
        if plain[line]:
            common &= integers[HAS, row]
            some |= integers[HAS, row]
            row += 1
    return row, common, some
