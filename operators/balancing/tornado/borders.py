"""Borders of a tiling that can move without leaving rectangles behind.

Tornado shifts a border between two partitions that share a whole side (Section 4.2, Figure 3a and b). In a tiling of
many partitions few pairs do: mostly a side meets the sides of several. A straight border with the same extent on both
sides can move all the same, when every partition along it gives or takes its piece. The shift of the paper is the case
of one partition on each side.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from operators.balancing.tornado.aggregates import AXES, Box

__all__ = ["Border", "borders_of"]


@dataclass(frozen=True, slots=True, order=True)
class Border:
    """A straight border with whole sides of partitions along both of its sides.

    Attributes:
        axis: 0 lies between columns, 1 between rows.
        position: the last column or row before it.
        low: the workers whose boxes end there, ascending.
        high: the workers whose boxes begin after it, ascending.
    """

    axis: int
    position: int
    low: tuple[int, ...]
    high: tuple[int, ...]

    @property
    def whole(self) -> bool:
        """Whether it is the whole side of one partition and of another: they can merge."""
        return len(self.low) == len(self.high) == 1


def borders_of(boxes: Mapping[int, Box]) -> tuple[Border, ...]:
    """Return all shortest borders that can move: each partition's upper sides, extended until both sides are whole.

    A side of a partition has only partitions beyond it that begin there, as the cells before are taken; those have
    only partitions before them that end there, and so on: so the extension never meets a partition across the line.
    """
    workers = np.array(sorted(boxes))
    edges = np.array([boxes[worker] for worker in workers.tolist()])
    found = set()
    for axis in AXES:
        across = 1 - axis
        first, last = edges[:, across], edges[:, across + 2]
        for number, position in enumerate(edges[:, axis + 2].tolist()):
            ends, begins = edges[:, axis + 2] == position, edges[:, axis] == position + 1
            if not begins.any():
                continue
            start, stop = int(first[number]), int(last[number])
            while True:
                along = (ends | begins) & (first <= stop) & (last >= start)
                extent = int(first[along].min()), int(last[along].max())
                if extent == (start, stop):
                    break
                start, stop = extent
            low, high = workers[ends & along].tolist(), workers[begins & along].tolist()
            found.add(Border(axis, position, tuple(low), tuple(high)))
    return tuple(sorted(found))
