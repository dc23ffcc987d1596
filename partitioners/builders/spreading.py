"""Many pieces a worker, dealt so that every neighbourhood belongs to many workers.

A hotspot that wanders faster than statistics follow it cannot be balanced by moving borders. Where the pieces of a worker lie
all over the space, and those beside each other belong to different workers, whatever is hot is spread by construction. The
price is that a query that overlaps several pieces is held by several workers.
"""

import numpy as np
from numpy.typing import NDArray

from partitioners.columns import Floats, Ints, Workers

__all__ = ["dealt", "hilbert_order"]

#: Places are told apart by so many bits on either axis.
_BITS = 16


def hilbert_order(x: Ints, y: Ints) -> Ints:
    """Return rows in the order in which Hilbert's curve meets their places: rows that follow each other are neighbours."""
    along = np.zeros(len(x), np.int64)
    x, y = x.astype(np.int64), y.astype(np.int64)
    last = (1 << _BITS) - 1
    for bit in range(_BITS - 1, -1, -1):
        right, up = (x >> bit) & 1, (y >> bit) & 1
        along += ((3 * right) ^ up) << (2 * bit)
        turned = (up == 0) & (right == 1)
        x, y = np.where(turned, last - x, x), np.where(turned, last - y, y)
        x, y = np.where(up == 0, y, x), np.where(up == 0, x, y)
    return np.argsort(along, kind="stable")


def dealt(boxes: NDArray[np.int32], costs: Floats, workers: int) -> Workers:
    """Deal boxes of cells to workers along Hilbert's curve: of as many in a row as there are workers, each gets one.

    In such a row the dearest box goes to who has least by then, and so on.
    """
    middle = (boxes[:, :2].astype(np.int64) + boxes[:, 2:]) // 2
    order = hilbert_order(middle[:, 0], middle[:, 1])
    worker, load = np.empty(len(boxes), np.int32), np.zeros(workers)
    for first in range(0, len(boxes), workers):
        row = order[first : first + workers]
        row = row[np.argsort(-costs[row], kind="stable")]
        takers = np.argsort(load, kind="stable")[: len(row)]
        worker[row] = takers
        load[takers] += costs[row]
    return worker
