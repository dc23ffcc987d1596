"""The coordinate of a horizontal or vertical shift (Tornado, Section 4.3): the giver chooses it once the shift is decided."""

import numpy as np

from operators.balancing.tornado.aggregates import BandSums, Box, LoadAggregates
from operators.balancing.tornado.operations import axis_of
from partitioners.grids.adjacency import Side

__all__ = ["shift_position"]


def shift_position(load: LoadAggregates, box: Box, side: Side, taker_cost: int) -> int | None:
    """Return where the border to a neighbour should go so that the larger of both costs is smallest, in O(m + n).

    `load` and `box` are the giver's, `side` is where the neighbour is. The position is the last column or row before the
    border. Of equal positions the nearest is taken, which moves the least. None: the giver has a single column or row
    there, or no position makes the larger cost smaller.
    """
    sums, axis = BandSums.of_load(load, box), axis_of(side)
    low = sums.costs[axis][1:-1]
    upwards = side in (Side.RIGHT, Side.ABOVE)
    moved = sums.cost - low if upwards else low
    larger = np.maximum(sums.cost - moved, taker_cost + moved)
    if not len(larger) or larger.min() >= max(sums.cost, taker_cost):
        return None
    best = np.flatnonzero(larger == larger.min())
    return sums.box[axis] + int(best[-1] if upwards else best[0])
