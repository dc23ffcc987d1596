"""Kernels of fences: comparing what two states of an object match, and finding states near some regions."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from streams.kernel import kernel

__all__ = ["compare_rows", "slots_in_boxes"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Slots = NDArray[np.int32]

#: Places of the words in `streams.batches.DETECTS`.
_ENTER, _EXIT, _INSIDE = np.uint8(0), np.uint8(1), np.uint8(2)

#: Rows of up to so many numbers are sorted by insertion.
_SHORT = 24


@kernel
def _sort(values: Ints, first: int, last: int) -> None:
    if last - first > _SHORT:
        values[first:last].sort()
        return
    for i in range(first + 1, last):
        value = values[i]
        j = i - 1
        while j >= first and values[j] > value:
            values[j + 1] = values[j]
            j -= 1
        values[j + 1] = value


@kernel
def compare_rows(off: Ints, number: Ints, before: Ints, stays: bool) -> Any:
    """Compare the queries of each record with those of the state before it; return row, number and event of each.

    ``number[off[i]:off[i + 1]]`` are the queries of record i; those of the state that it replaces stand in row ``before[i]``,
    behind all records, or nowhere (-1). Rows are sorted in place. Without `stays` those in both are left out. Numbers of a
    row ascend.
    """
    row, out = np.empty(len(number), np.int64), np.empty(len(number), np.int64)
    event = np.empty(len(number), np.uint8)
    count = 0
    for i in range(len(before)):
        now, now_end = off[i], off[i + 1]
        _sort(number, now, now_end)
        was, was_end = np.int64(0), np.int64(0)
        if before[i] >= 0:
            was, was_end = off[before[i]], off[before[i] + 1]
            _sort(number, was, was_end)
        while now < now_end or was < was_end:
            if was == was_end or (now < now_end and number[now] < number[was]):
                what, which = _ENTER, number[now]
                now += 1
            elif now == now_end or number[was] < number[now]:
                what, which = _EXIT, number[was]
                was += 1
            else:
                what, which = _INSIDE, number[now]
                now += 1
                was += 1
                if not stays:
                    continue
            row[count], out[count], event[count] = i, which, what
            count += 1
    return row[:count].copy(), out[:count].copy(), event[:count].copy()


@kernel
def slots_in_boxes(lines: Floats, x: int, y: int, present: NDArray[np.bool_], boxes: Floats) -> Slots:
    """Return the slots of the objects that are present and in any of some closed boxes; x and y are columns of `lines`."""
    found = np.empty(len(present), np.int32)
    count = 0
    for slot in range(len(present)):
        if not present[slot]:
            continue
        at_x, at_y = lines[slot, x], lines[slot, y]
        for box in range(len(boxes)):
            if boxes[box, 0] <= at_x <= boxes[box, 2] and boxes[box, 1] <= at_y <= boxes[box, 3]:
                found[count] = slot
                count += 1
                break
    return found[:count].copy()
