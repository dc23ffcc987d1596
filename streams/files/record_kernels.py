"""Kernels that cut bytes into records and CSV records into fields.

The grammar of CSV is that of Python's csv module with its default dialect: a quote is special only at the start of a
field, two quotes inside of a quoted field are one, and what follows a closing quote is taken as it is. A line ends with
a line feed, with or without a carriage return before it.
"""

import numpy as np
from numpy.typing import NDArray

from streams.kernel import kernel

__all__ = [
    "AT",
    "AT_FIELD",
    "BEGIN",
    "BLANK",
    "FIRST_LINE",
    "IN_QUOTES",
    "LINE",
    "STATE",
    "copy_fields",
    "count_keys",
    "cut_fields",
    "cut_records",
    "deepest_bracket",
    "plain_lines",
]

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]

#: Places in the cursor of `cut_records`: where the unfinished record begins, the next byte to look at, the state there,
#: whether the record is white space so far, the line of the next byte, the line on which the record begins.
BEGIN, AT, STATE, BLANK, LINE, FIRST_LINE = 0, 1, 2, 3, 4, 5

#: States: at the start of a field, inside of a plain one, inside of quotes, after a quote inside of quotes.
AT_FIELD, IN_FIELD, IN_QUOTES, AFTER_QUOTE = 0, 1, 2, 3

#: How a field is written: its bytes as they are, or with quotes to be undone.
_AS_IS, _ESCAPED = 0, 1

_BRACKET, _BRACKET_END, _BRACE, _BRACE_END, _COLON, _MINUS, _BACKSLASH = 91, 93, 123, 125, 58, 45, 92
_NAN_OR_INF = np.frombuffer(b"NaNInf", np.uint8)
_LF, _CR, _QUOTE, _COMMA, _SPACE, _TAB = 10, 13, 34, 44, 32, 9


@kernel
def _step(state: int, byte: int) -> int:
    """Return the state after a byte of a CSV record."""
    if state == IN_QUOTES:
        return AFTER_QUOTE if byte == _QUOTE else IN_QUOTES
    if byte == _QUOTE and state != IN_FIELD:
        return IN_QUOTES  # at the start of a field, or the second of two
    return AT_FIELD if byte == _COMMA else IN_FIELD


@kernel
def cut_records(data: Bytes, quoted: bool, cursor: Ints, starts: Ints, stops: Ints, lines: Ints) -> int:
    """Find whole records from the cursor on, until the data ends or the arrays are full; return how many.

    A record is a line; with `quoted`, a line feed in quotes does not end it. Lines of white space are no records. The
    cursor is moved behind what was looked at.
    """
    begin, at, state, blank, line, first = cursor[0], cursor[1], cursor[2], cursor[3], cursor[4], cursor[5]
    count = 0
    while at < len(data) and count < len(starts):
        if not quoted and not blank:
            while at < len(data) and data[at] != _LF:
                at += 1
            if at == len(data):
                break
        byte = data[at]
        at += 1
        if byte == _LF:
            line += 1
            if state != IN_QUOTES:
                if not blank:
                    starts[count] = begin
                    stops[count] = at - 2 if at - 2 >= begin and data[at - 2] == _CR else at - 1
                    lines[count] = first
                    count += 1
                begin, state, blank, first = at, AT_FIELD, 1, line
                continue
        elif byte != _SPACE and byte != _TAB and byte != _CR:
            blank = 0
        if quoted:
            state = _step(state, byte)
    cursor[0], cursor[1], cursor[2], cursor[3], cursor[4], cursor[5] = begin, at, state, blank, line, first
    return count


@kernel
def cut_fields(
    data: Bytes, starts: Ints, stops: Ints, slot_of: Ints, begins: Ints, ends: Ints, written: Bytes, counts: Ints
) -> None:
    """Find the wanted fields of each record and count all of them.

    `slot_of` has for each column its row in `begins`, `ends` and `written` (all slots x records), or -1.
    """
    for row in range(len(starts)):
        column = 0
        at, stop = starts[row], stops[row]
        while True:
            begin, state, quotes = at, AT_FIELD, 0
            while at < stop:
                byte = data[at]
                if byte == _COMMA and state != IN_QUOTES:
                    break
                quotes += byte == _QUOTE
                state = _step(state, byte)
                at += 1
            slot = slot_of[column] if column < len(slot_of) else -1
            if slot >= 0:
                opened = begin < at and data[begin] == _QUOTE
                simple = opened and quotes == 2 and data[at - 1] == _QUOTE
                begins[slot, row] = begin + 1 if simple else begin
                ends[slot, row] = at - 1 if simple else at
                written[slot, row] = _ESCAPED if opened and not simple else _AS_IS
            column += 1
            at += 1
            if at > stop:
                break
        counts[row] = column


@kernel
def copy_fields(data: Bytes, begins: Ints, ends: Ints, written: Bytes, out_off: NDArray[np.int32], out: Bytes) -> None:
    """Write the fields one after the other, quotes undone."""
    size = 0
    for row in range(len(begins)):
        if written[row] == _AS_IS:
            for at in range(begins[row], ends[row]):
                out[size] = data[at]
                size += 1
        else:
            state = AT_FIELD
            for at in range(begins[row], ends[row]):
                after = _step(state, data[at])
                if state == AFTER_QUOTE or after == IN_FIELD or (state == IN_QUOTES and after == IN_QUOTES):
                    out[size] = data[at]
                    size += 1
                state = after
        out_off[row + 1] = size


@kernel
def _is_literal(data: Bytes, start: int, at: int, stop: int) -> bool:
    """Tell whether NaN or Inf stands at a place where a value may stand.

    Inside of a string it may look the same, which costs time only.
    """
    for first in (0, 3):
        if at + 2 < stop and data[at + 1] == _NAN_OR_INF[first + 1] and data[at + 2] == _NAN_OR_INF[first + 2]:
            before = at - 1
            while before > start and (data[before] == _SPACE or data[before] == _TAB):
                before -= 1
            return data[before] in (_COLON, _BRACKET, _COMMA, _MINUS)
    return False


@kernel
def plain_lines(
    data: Bytes, starts: Ints, stops: Ints, most_opened: int, literals: bool, plain: NDArray[np.bool_]
) -> None:
    """Tell which lines are braced at both ends, open few brackets, and have no literal NaN, Inf or Infinity.

    `literals` says whether there may be such literals at all. A short line is not looked through without need.
    """
    for row in range(len(starts)):
        start, stop = starts[row], stops[row]
        plain[row] = stop > start and data[start] == _BRACE and data[stop - 1] == _BRACE_END
        if stop - start <= most_opened and not literals:
            continue
        opened = 0
        for at in range(start + 1, stop):
            byte = data[at]
            if byte in (_BRACKET, _BRACE):
                opened += 1
            elif (byte == _NAN_OR_INF[0] or byte == _NAN_OR_INF[3]) and _is_literal(data, start, at, stop):
                plain[row] = False
        if opened > most_opened:
            plain[row] = False


@kernel
def deepest_bracket(data: Bytes) -> int:
    """Return how deep the brackets and braces of a JSON line are nested, those in strings left out.

    In a line that is no JSON it is at least as deep as a parser gets before it finds out.
    """
    depth, deepest, at, inside = 0, 0, 0, False
    while at < len(data):
        byte = data[at]
        if byte == _QUOTE:
            inside = not inside
        elif inside:
            at += byte == _BACKSLASH
        elif byte in (_BRACKET, _BRACE):
            depth += 1
            deepest = max(deepest, depth)
        elif byte in (_BRACKET_END, _BRACE_END):
            depth -= 1
        at += 1
    return deepest


@kernel
def count_keys(data: Bytes) -> int:
    """Return how many keys the outermost objects of JSON lines have, those that are given twice counted twice."""
    depth, keys, at, inside = 0, 0, 0, False
    while at < len(data):
        byte = data[at]
        if byte == _QUOTE:
            inside = not inside
        elif inside:
            at += byte == _BACKSLASH
        elif byte in (_BRACKET, _BRACE):
            depth += 1
        elif byte in (_BRACKET_END, _BRACE_END):
            depth -= 1
        elif byte == _COLON:
            keys += depth == 1
        at += 1
    return keys
