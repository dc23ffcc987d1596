"""Registrations that no index can hold, whoever sent them, and what is wrong with them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from operators.indexes.core.roster import Roster
from streams.batches import OP_REGISTER, QueryBatch
from streams.errors import InputError
from streams.files.query_records import MAX_K
from streams.geometry import REGION_CIRCLE, REGION_POLYGON, REGION_RECT
from streams.kernel import kernel
from streams.polygon_kernels import HOLE, OUTER

__all__ = ["check_nearest", "check_registrations"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Slots = NDArray[np.int32]


@kernel
def _refusal(
    number: Ints, op: NDArray[np.uint8], region: NDArray[np.uint8], shape: Floats, off: Slots, kw: Ints, none_off: Slots,
    none: Ints, ring_off: Slots, ring_x: Floats, ring_y: Floats, ring_mark: NDArray[np.uint8],
) -> Any:  # fmt: skip
    """Return the first row that no index can hold and what is wrong with it, as a place in `REFUSALS`; or (-1, 0)."""
    for i in range(number.shape[0]):
        a, b, c, d = shape[i, 0], shape[i, 1], shape[i, 2], shape[i, 3]
        if op[i] != OP_REGISTER:
            return i, 0
        if region[i] > REGION_POLYGON:
            return i, 1
        if (region[i] == REGION_RECT or region[i] == REGION_POLYGON) and not (a <= c and b <= d):
            return i, 2
        if region[i] == REGION_CIRCLE and not (np.isfinite(a + b + c) and c >= 0.0):
            return i, 3
        for j in range(off[i], off[i + 1]):
            if kw[j] < 0:
                return i, 4
        for j in range(none_off[i], none_off[i + 1]):
            if none[j] < 0:
                return i, 4
        if (region[i] == REGION_POLYGON) != (ring_off[i + 1] > ring_off[i]):
            return i, 5
        for j in range(ring_off[i], ring_off[i + 1]):
            ends = j + 1 == ring_off[i + 1] or ring_mark[j + 1] != 0
            if ring_mark[j] > HOLE or (j == ring_off[i] and ring_mark[j] != OUTER) or (ends and ring_mark[j] != 0):
                return i, 6
            outside = not (a <= ring_x[j] <= c and b <= ring_y[j] <= d)
            if not np.isfinite(ring_x[j] + ring_y[j]) or (outside and ring_mark[j] == OUTER):
                return i, 6
    return -1, 0


REFUSALS = (
    "is an unregistration; give its target to set_end",
    "has an unknown kind of region; expected a rectangle, a circle, a polygon or none",
    "has a rectangle with min > max or NaN; expected min x, min y, max x, max y",
    "has a circle that is not finite or has a negative radius; expected x, y, radius",
    "has a negative keyword id; ids are 0 to 2^63 - 1",
    "has a polygon without rings, or rings without a polygon",
    "has rings that are not finite, begin with no exterior ring, or leave the box around them",
)


def check_registrations(queries: QueryBatch, roster: Roster) -> None:
    """Raise `InputError` for the first row that no index can hold."""

    def refuse(row: int, text: str) -> None:
        raise InputError(f"query {queries.number[row]} (row {row} of the batch) {text}")

    columns = (queries.kw_off, queries.kw, queries.none_off, queries.none)
    rings = (queries.ring_off, queries.ring_x, queries.ring_y, queries.ring_mark)
    row, refusal = _refusal(queries.number, queries.op, queries.region, queries.shape, *columns, *rings)
    if row >= 0:
        refuse(int(row), REFUSALS[refusal])
    if np.count_nonzero(queries.number[1:] <= queries.number[:-1]):
        numbers = np.sort(queries.number)
        twice = np.isin(queries.number, numbers[1:][numbers[1:] == numbers[:-1]])
        if twice.any():
            refuse(int(np.flatnonzero(twice)[1]), "occurs twice in one batch")
    held = roster.holds(queries.number)
    if np.count_nonzero(held):
        refuse(int(np.flatnonzero(held)[0]), "is already registered; remove it first or give it another number")


def check_nearest(queries: QueryBatch) -> None:
    """Raise `InputError` for the first row that wants too few of the nearest, or too many."""
    wrong = np.flatnonzero((queries.k < 1) | (queries.k > MAX_K))
    if len(wrong):
        row = int(wrong[0])
        raise InputError(
            f"query {queries.number[row]} (row {row} of the batch) wants the {queries.k[row]} nearest; "
            f"expected 1 to {MAX_K}"
        )
