"""The ragged columns of what no index files and every candidate is held against: keywords it must not have, polygons.

Batches that have them may be made without: most queries have neither.
"""

from typing import Any

import numpy as np

from streams.columns import Ints, Offsets
from streams.polygons import Floats, Marks, Rings

__all__ = ["RESIDUALS", "fill_residuals", "no_floats", "no_ints", "no_marks", "no_offsets", "rings_of"]

#: As `RowColumns.RAGGED` has them; rings are as `streams.polygon_kernels` says.
RESIDUALS = (("none_off", ("none",)), ("ring_off", ("ring_x", "ring_y", "ring_mark")))


def no_offsets() -> Offsets:
    """Stand for offsets that were left out."""
    return np.empty(0, np.int32)


def no_ints() -> Ints:
    """Return no keywords."""
    return np.empty(0, np.int64)


def no_floats() -> Floats:
    """Return no coordinates."""
    return np.empty(0)


def no_marks() -> Marks:
    """Return no marks of rings."""
    return np.empty(0, np.uint8)


def fill_residuals(batch: Any) -> None:
    """Give every row of a batch that was made without these columns an empty one."""
    for off, _ in RESIDUALS:
        if not len(getattr(batch, off)):
            object.__setattr__(batch, off, np.zeros(len(batch) + 1, np.int32))


def rings_of(batch: Any, row: int) -> Rings:
    """Return the rings of one row."""
    part = slice(int(batch.ring_off[row]), int(batch.ring_off[row + 1]))
    return Rings(batch.ring_x[part], batch.ring_y[part], batch.ring_mark[part])
