"""Where cost lies within partitions, as far as is reported: estimates, and bounds that hold.

Evaluators report the cost up to some positions (`Knot`) of both axes. Between two knots the running cost grows from one to
the other, evenly as an estimate. What lies in columns a to b *and* rows c to d of a partition is not told by its
aggregates; with column and row independent it is the product of the two shares, and it is never more than the smaller of
the two bands. So the cost of any box can be estimated, and bounded, before a cell has moved: enough to try several
operations one after the other where the paper tries one and waits for new statistics.

Costs of places do not quite add up. Whoever gives half of its work away keeps less than the other half: its index has fewer
queries then for each object that stays. So what adds up are *weights*, roots of costs (`crowding`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from operators.balancing.tornado.aggregates import AXES, Box, Ints
from operators.balancing.tornado.partition_loads import PartitionLoad
from partitioners.columns import Floats

__all__ = ["FieldEstimate"]


@dataclass(frozen=True, slots=True, eq=False)
class _Axis:
    """An axis of a partition: for each number of columns or rows from the low end, what lies in them.

    Attributes:
        share: the estimated share of the cost.
        at_least, at_most: bounds of the cost.
        started: at most so many queries overlap them.
        ended: at least so many queries overlap nothing beyond them.
    """

    share: Floats
    at_least: Ints
    at_most: Ints
    started: Ints
    ended: Ints

    @classmethod
    def of(cls, load: PartitionLoad, box: Box, axis: int) -> "_Axis":
        """Spread the knots of a load over the columns or rows of its box."""
        lines = box[axis + 2] - box[axis] + 1
        knots = load.knots[axis]
        place = np.array([0, *(knot.position + 1 - box[axis] for knot in knots), lines])
        cost = np.array([0, *(knot.low_cost for knot in knots), load.cost])
        low = np.array([0, *(knot.low_queries for knot in knots), load.queries])
        beyond = np.array([load.queries, *(knot.high_queries for knot in knots), 0])
        every = np.arange(lines + 1)
        before, after = np.searchsorted(place, every, side="right") - 1, np.searchsorted(place, every)
        share = np.interp(every, place, cost) / max(load.cost, 1)
        return cls(share, cost[before], cost[after], low[after], load.queries - beyond[before])

    def cost_at_most(self, first: int, last: int) -> int:
        """Bound the cost of columns or rows `first` to `last`, counted from the low end."""
        return int(self.at_most[last + 1] - self.at_least[first])

    def queries_at_most(self, first: int, last: int) -> int:
        """Bound the queries that overlap columns or rows `first` to `last`."""
        return int(self.started[last + 1] - self.ended[first])


class FieldEstimate:
    """Costs and queries of boxes, estimated and bounded from loads of the partitions under them.

    Attributes:
        crowding: the cost of what has weights w and v in one place is (w + v) to this power; 1: costs add up.
    """

    def __init__(self, loads: Mapping[int, PartitionLoad], boxes: Mapping[int, Box], crowding: float = 1.0) -> None:
        self.crowding = crowding
        self._loads = [loads[worker] for worker in sorted(boxes)]
        self._boxes = [boxes[worker] for worker in sorted(boxes)]
        self._edges = np.array(self._boxes)
        self._axes = [
            tuple(_Axis.of(load, box, axis) for axis in AXES)
            for load, box in zip(self._loads, self._boxes, strict=True)
        ]
        self._running: dict[tuple[Box, int], Floats] = {}

    def weight(self, cost: float) -> float:
        """Return the weight of what costs so much by itself."""
        return float(cost ** (1.0 / self.crowding))

    def joint(self, *costs: float) -> float:
        """Return what parts cost in one place that cost so much each by itself."""
        return float(sum(map(self.weight, costs)) ** self.crowding)

    def running(self, box: Box, axis: int) -> Floats:
        """Return the estimated weight of the first i columns or rows of a box, for each i."""
        key = (box, axis)
        if key not in self._running:
            self._running[key] = self._added(box, axis)
        return self._running[key]

    def cost(self, box: Box) -> float:
        """Return the estimated cost of a box."""
        return float(self.running(box, 0)[-1] ** self.crowding)

    def cost_at_most(self, box: Box) -> int:
        """Return what the cost of a box cannot exceed."""
        return sum(
            min(axes[axis].cost_at_most(part[axis], part[axis + 2]) for axis in AXES)
            for _, axes, part in self._under(box)
        )

    def queries_at_most(self, box: Box) -> int:
        """Return what the number of queries that overlap a box cannot exceed."""
        return sum(
            min(axes[axis].queries_at_most(part[axis], part[axis + 2]) for axis in AXES)
            for _, axes, part in self._under(box)
        )

    def _added(self, box: Box, axis: int) -> Floats:
        across = 1 - axis
        sums = np.zeros(box[axis + 2] - box[axis] + 2)
        for number, axes, part in self._under(box):
            begin = self._boxes[number][axis] + part[axis] - box[axis]
            end = begin + part[axis + 2] - part[axis] + 1
            other = axes[across].share[part[across + 2] + 1] - axes[across].share[part[across]]
            along = axes[axis].share[part[axis] : part[axis + 2] + 2]
            grown = (along - along[0]) * (other * self.weight(self._loads[number].cost))
            sums[begin : end + 1] += grown
            sums[end + 1 :] += grown[-1]
        return sums

    def _under(self, box: Box) -> Iterator[tuple[int, tuple[_Axis, ...], Box]]:
        """Yield the partitions under a box: place, axes, and the part of the partition, counted from its low corner."""
        low = np.maximum(self._edges[:, :2], box[:2])
        high = np.minimum(self._edges[:, 2:], box[2:])
        for number in np.flatnonzero((low <= high).all(axis=1)).tolist():
            x, y = self._boxes[number][:2]
            (x0, y0), (x1, y1) = low[number].tolist(), high[number].tolist()
            yield number, self._axes[number], (x0 - x, y0 - y, x1 - x, y1 - y)
