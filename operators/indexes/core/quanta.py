"""Coordinates in quanta: equal parts of the space's width or height, 2^16 of them or as many as an index asks for.

The rounding is monotone. So ``low <= x <= high`` implies the same in quanta: a filter in quanta misses nothing. And
strictly between in quanta implies strictly between in float64: most matches need no look at the exact region.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from streams.geometry import Rect
from streams.kernel import kernel

__all__ = ["boxes_in_quanta", "places_in_quanta"]

Floats = NDArray[np.float64]
Slots = NDArray[np.int32]

#: Quanta are 2 to this power unless an index says otherwise; 31 are the most that a coordinate has room for.
BITS = 16


@kernel
def _quanta(value: Any, low: Any, per_unit: Any, most: Any) -> Any:
    scaled = (value - low) * per_unit
    return 0 if not scaled >= 1.0 else int(most) if scaled >= most else int(scaled)


@kernel
def _quantise(values: Floats, low: float, per_unit: float, most: float, out: Slots) -> None:
    """Write each value in quanta of the space, what lies outside as the nearest border."""
    for i in range(values.shape[0]):
        out[i] = _quanta(values[i], low, per_unit, most)


@kernel
def _quantise_boxes(
    boxes: Floats, low_x: float, low_y: float, per_x: float, per_y: float, most: float, out: Slots
) -> None:
    """Write the four bounds of each box in quanta."""
    for i in range(boxes.shape[0]):
        out[i, 0], out[i, 2] = _quanta(boxes[i, 0], low_x, per_x, most), _quanta(boxes[i, 2], low_x, per_x, most)
        out[i, 1], out[i, 3] = _quanta(boxes[i, 1], low_y, per_y, most), _quanta(boxes[i, 3], low_y, per_y, most)


def _per_unit(space: Rect, bits: int) -> tuple[float, float]:
    return 2**bits / (space.max_x - space.min_x), 2**bits / (space.max_y - space.min_y)


def places_in_quanta(x: Floats, y: Floats, space: Rect, bits: int = BITS) -> tuple[Slots, Slots]:
    """Return the coordinates of places; what lies outside of the space becomes its border."""
    out = np.empty(len(x), np.int32), np.empty(len(x), np.int32)
    per_x, per_y = _per_unit(space, bits)
    _quantise(x, space.min_x, per_x, 2.0**bits - 1.0, out[0])
    _quantise(y, space.min_y, per_y, 2.0**bits - 1.0, out[1])
    return out


def boxes_in_quanta(boxes: Floats, space: Rect, bits: int = BITS) -> Slots:
    """Return rows of min x, min y, max x and max y."""
    out = np.empty((len(boxes), 4), np.int32)
    _quantise_boxes(
        np.ascontiguousarray(boxes), space.min_x, space.min_y, *_per_unit(space, bits), 2.0**bits - 1.0, out
    )
    return out
