"""Kernels that find the fields of query operations in JSON lines.

They know plain JSON only: known fields, each once, with a value of a kind that the field may have, strings without
escapes, lists of numbers or of strings, numbers of the standard's grammar. A line with anything else is refused as a
whole, and is read by a real parser; so nothing here decides what is valid.

    words     the bytes of all words that are known, one after the other: names of fields first, then values
    word_off  where each word starts and ends in `words`
    kinds, begins, ends, counts   slots x lines: what a field is, where its value stands (strings without their quotes,
              lists without their brackets), and how many items a list has
"""

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
    "ABSENT",
    "FALSE",
    "INTEGER",
    "LIST",
    "NUMBER",
    "OBJECT",
    "TEXT",
    "TRUE",
    "find_values",
    "list_items",
    "list_numbers",
    "read_integers",
    "scan_lines",
]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

#: Kinds of value; a null is absent. A list is of numbers or of strings, by its field.
ABSENT, TEXT, INTEGER, NUMBER, TRUE, FALSE, LIST, OBJECT = 0, 1, 2, 3, 4, 5, 6, 7

_BACKSLASH, _MINUS, _PLUS, _DOT, _ZERO, _NINE = 92, 45, 43, 46, 48, 57
_LOWER_E, _UPPER_E = 101, 69
_OPENED, _AFTER_COMMA, _AFTER_VALUE = 0, 1, 2  # where a scan stands between the members of an object


@lean_kernel
def _is_word(data: Bytes, at: int, stop: int, word: Bytes) -> bool:
    if at + len(word) > stop:
        return False
    j = 0
    while j < len(word) and data[at + j] == word[j]:
        j += 1
    return j == len(word)


@lean_kernel
def _string_end(data: Bytes, at: int, stop: int) -> int:
    """Return the place of the quote that ends a string whose first character is at `at`; -1 where it is not plain."""
    while at < stop:
        byte = data[at]
        if byte == QUOTE:
            return at
        if byte == _BACKSLASH or byte < SPACE:
            return -1
        at += 1
    return -1


@lean_kernel
def _digits(data: Bytes, at: int, stop: int) -> int:
    while at < stop and _ZERO <= data[at] <= _NINE:
        at += 1
    return at


@lean_kernel
def _number_end(data: Bytes, at: int, stop: int) -> tuple[int, int]:
    """Return the end and the kind of a number; -1 where it is none, or is minus nought, which is no integer as written."""
    first = at + 1 if at < stop and data[at] == _MINUS else at
    end = _digits(data, first, stop)
    if end == first or (data[first] == _ZERO and end > first + 1):
        return -1, ABSENT
    kind = INTEGER
    if end < stop and data[end] == _DOT:
        kind, whole = NUMBER, end + 1
        end = _digits(data, whole, stop)
        if end == whole:
            return -1, ABSENT
    if end < stop and (data[end] == _LOWER_E or data[end] == _UPPER_E):
        kind, power = NUMBER, end + 1
        if power < stop and (data[power] == _PLUS or data[power] == _MINUS):
            power += 1
        end = _digits(data, power, stop)
        if end == power:
            return -1, ABSENT
    if kind == INTEGER and first > at and data[first] == _ZERO:
        return -1, ABSENT
    return end, kind


@lean_kernel
def _list_end(data: Bytes, at: int, stop: int, texts: bool) -> tuple[int, int]:
    """Return the place of the bracket that ends a list, and the number of its items; -1 where it is not plain."""
    at = blank(data, at, stop)
    if at < stop and data[at] == BRACKET_END:
        return at, 0
    count = 0
    while at < stop:
        if texts:
            end = _string_end(data, at + 1, stop) + 1 if data[at] == QUOTE else 0
            end = end if end > 0 else -1
        else:
            end, _ = _number_end(data, at, stop)
        if end < 0:
            return -1, 0
        count += 1
        at = blank(data, end, stop)
        if at < stop and data[at] == BRACKET_END:
            return at, count
        if at >= stop or data[at] != COMMA:
            return -1, 0
        at = blank(data, at + 1, stop)
    return -1, 0


@lean_kernel
def _value(data: Bytes, at: int, stop: int, texts: bool) -> tuple[int, int, int, int, int]:
    """Return kind, begin, end, count and the place after a value; kind -1 where it is not plain."""
    byte = data[at]
    if byte == QUOTE:
        end = _string_end(data, at + 1, stop)
        return (TEXT, at + 1, end, 0, end + 1) if end >= 0 else (-1, 0, 0, 0, 0)
    if byte == BRACKET:
        end, count = _list_end(data, at + 1, stop, texts)
        return (LIST, at + 1, end, count, end + 1) if end >= 0 else (-1, 0, 0, 0, 0)
    if byte == BRACE:
        return OBJECT, at, at, 0, at + 1
    if _is_word(data, at, stop, NULL_WORD):
        return ABSENT, at, at, 0, at + 4
    if _is_word(data, at, stop, TRUE_WORD):
        return TRUE, at, at, 0, at + 4
    if _is_word(data, at, stop, FALSE_WORD):
        return FALSE, at, at, 0, at + 5
    end, kind = _number_end(data, at, stop)
    return (kind, at, end, 0, end) if end >= 0 else (-1, 0, 0, 0, 0)


@lean_kernel
def _find_word(
    data: Bytes, begin: int, end: int, words: Bytes, word_off: Ints, first: int, stop: int, guess: int
) -> int:
    """Return which of the words `first` to `stop` stands here, or -1; `guess` is looked at before the others."""
    for step in range(stop - first):
        word = guess + step if guess + step < stop else guess + step - (stop - first)
        if word_off[word + 1] - word_off[word] == end - begin:
            j = 0
            while j < end - begin and data[begin + j] == words[word_off[word] + j]:
                j += 1
            if j == end - begin:
                return word
    return -1


@lean_kernel
def _scan_line(
    data: Bytes, start: int, stop: int, row: int, words: Bytes, word_off: Ints, inner: int, fields: int, allowed: Ints,
    of_texts: NDArray[np.bool_], kinds: Bytes, begins: Ints, ends: Ints, counts: Ints,
) -> bool:  # fmt: skip
    """Find the fields of one line; tell whether it is plain."""
    at = blank(data, start, stop)
    if at >= stop or data[at] != BRACE:
        return False
    at += 1
    seen, guess, inside, state = 0, 0, False, _OPENED
    while True:
        at = blank(data, at, stop)
        if at >= stop:
            return False
        if data[at] == BRACE_END and state != _AFTER_COMMA:
            at += 1
            if not inside:
                return blank(data, at, stop) == stop
            inside, state = False, _AFTER_VALUE
            continue
        if state == _AFTER_VALUE:
            if data[at] != COMMA:
                return False
            at += 1
            state = _AFTER_COMMA
            continue
        end = _string_end(data, at + 1, stop) if data[at] == QUOTE else -1
        low, high = (inner, fields) if inside else (0, inner)
        guess = guess if low <= guess < high else low
        slot = _find_word(data, at + 1, end, words, word_off, low, high, guess) if end >= 0 else -1
        if slot < 0 or seen >> slot & 1:
            return False
        seen |= 1 << slot
        guess = slot + 1
        at = blank(data, end + 1, stop)
        if at >= stop or data[at] != COLON:
            return False
        at = blank(data, at + 1, stop)
        if at >= stop:
            return False
        kind, begin, end, count, at = _value(data, at, stop, of_texts[slot])
        if kind < 0 or not allowed[slot] >> kind & 1:
            return False
        kinds[slot, row], begins[slot, row], ends[slot, row], counts[slot, row] = kind, begin, end, count
        inside = inside or kind == OBJECT
        state = _OPENED if kind == OBJECT else _AFTER_VALUE


@lean_kernel
def scan_lines(
    data: Bytes, starts: Ints, stops: Ints, words: Bytes, word_off: Ints, inner: int, fields: int, allowed: Ints,
    of_texts: NDArray[np.bool_], kinds: Bytes, begins: Ints, ends: Ints, counts: Ints, plain: NDArray[np.bool_],
) -> None:  # fmt: skip
    """Find the fields of each line; tell which lines are plain.

    Words 0 to `inner` are the fields of a line, from there to `fields` those of the one object that it may have inside.
    Bit n of ``allowed[slot]`` is set where the field may be of kind n; `of_texts` tells which lists are of strings.
    """
    for row in range(len(starts)):
        plain[row] = _scan_line(
            data, starts[row], stops[row], row, words, word_off, inner, fields, allowed, of_texts, kinds, begins, ends,
            counts,
        )  # fmt: skip


@lean_kernel
def find_values(
    data: Bytes,
    begins: Ints,
    ends: Ints,
    kinds: Bytes,
    words: Bytes,
    word_off: Ints,
    first: int,
    stop: int,
    found: Ints,
) -> None:
    """Tell which of the words `first` to `stop` each string is, counted from `first`; -1 for none of them."""
    for row in range(len(begins)):
        word = -1
        if kinds[row] == TEXT:
            word = _find_word(data, begins[row], ends[row], words, word_off, first, stop, first)
        found[row] = word - first if word >= 0 else -1


@lean_kernel
def read_integers(data: Bytes, begins: Ints, ends: Ints, kinds: Bytes, values: Ints, fits: NDArray[np.bool_]) -> None:
    """Read integers of at most 18 digits; `fits` becomes false for longer ones."""
    for row in range(len(begins)):
        values[row] = 0
        if kinds[row] != INTEGER:
            continue
        begin, end = begins[row], ends[row]
        negative = data[begin] == _MINUS
        begin += negative
        if end - begin > 18:
            fits[row] = False
            continue
        value = 0
        for at in range(begin, end):
            value = value * 10 + (data[at] - _ZERO)
        values[row] = -value if negative else value


@lean_kernel
def list_numbers(
    data: Bytes, begins: Ints, ends: Ints, kinds: Bytes, counts: Ints, numbers: Floats, missed: NDArray[np.bool_]
) -> None:
    """Read the numbers of lists of one width, and tell of each such list whether one of them is none that can be read here."""
    for row in range(len(begins)):
        if kinds[row] != LIST or counts[row] != numbers.shape[1]:
            continue
        at = begins[row]
        for place in range(numbers.shape[1]):
            at = blank(data, at + (place > 0), ends[row])  # behind a comma
            at, _, _, numbers[row, place] = number_at(data, at, ends[row])
            missed[row] = missed[row] or at < 0
            if at < 0:
                break
            at = blank(data, at, ends[row])


@lean_kernel
def list_items(
    data: Bytes, begins: Ints, ends: Ints, kinds: Bytes, texts: bool, item_begins: Ints, item_ends: Ints
) -> None:
    """Find the items of all lists, one after the other; strings without their quotes."""
    count = 0
    for row in range(len(begins)):
        if kinds[row] != LIST:
            continue
        at = blank(data, begins[row], ends[row])
        while at < ends[row]:
            if texts:
                end = _string_end(data, at + 1, ends[row])
                item_begins[count], item_ends[count] = at + 1, end
                end += 1
            else:
                end, _ = _number_end(data, at, ends[row])
                item_begins[count], item_ends[count] = at, end
            count += 1
            at = blank(data, blank(data, end, ends[row]) + 1, ends[row])
