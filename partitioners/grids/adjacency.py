"""Neighbours of a partition, and what can move between them (Tornado, Section 4.2, Figure 3).

Partitions must stay rectangles, which leaves two ways to give cells to a neighbour. Two that share a whole side shift
the border between them, or merge. Where the neighbour's side is shorter and ends at a corner of the giver, the giver cuts
off the strip that continues the neighbour: a corner shift, whose place is fixed. With two neighbours at each of the four
corners there are at most 8 of those.
"""

from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from streams.errors import InputError

__all__ = ["Adjacency", "Neighbour", "Side", "corner_strip", "neighbours_of"]

Boxes = NDArray[np.int32]
Box = tuple[int, int, int, int]


class Side(Enum):
    """Where a neighbour is: rows count upwards with y, columns with x."""

    LEFT = "left"
    RIGHT = "right"
    BELOW = "below"
    ABOVE = "above"


class Adjacency(Enum):
    """What the border with a neighbour allows.

    WHOLE: the side is the whole side of both, so they can merge, and the border can shift either way.
    CORNER: the neighbour's side is shorter and ends at a corner, so it can be given `corner_strip`.
    PART: any other shared border; nothing can move across it without a third partition.
    """

    WHOLE = "whole"
    CORNER = "corner"
    PART = "part"


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A partition that shares a border of at least one cell, seen from the partition that would give cells."""

    partition: int
    side: Side
    adjacency: Adjacency

    @property
    def mergeable(self) -> bool:
        """Whether both together are a rectangle."""
        return self.adjacency is Adjacency.WHOLE


def neighbours_of(boxes: Boxes, partition: int) -> tuple[Neighbour, ...]:
    """Return the neighbours of a partition of a tiling: by side (left, right, below, above), then by number.

    Partitions that only touch at a point are no neighbours: nothing can move between them.
    """
    if not 0 <= partition < len(boxes):
        raise InputError(f"there is no partition {partition}; expected 0 to {len(boxes) - 1}")
    x0, y0, x1, y1 = (int(edge) for edge in boxes[partition])
    found: list[Neighbour] = []
    for side, touching, low, first, last in (
        (Side.LEFT, boxes[:, 2] == x0 - 1, 1, y0, y1),
        (Side.RIGHT, boxes[:, 0] == x1 + 1, 1, y0, y1),
        (Side.BELOW, boxes[:, 3] == y0 - 1, 0, x0, x1),
        (Side.ABOVE, boxes[:, 1] == y1 + 1, 0, x0, x1),
    ):
        begin, end = boxes[:, low], boxes[:, low + 2]
        found += [
            Neighbour(number, side, _adjacency(first, last, int(begin[number]), int(end[number])))
            for number in np.flatnonzero(touching & (begin <= last) & (end >= first)).tolist()
        ]
    return tuple(found)


def _adjacency(first: int, last: int, begin: int, end: int) -> Adjacency:
    """Compare the extents of a giver's side and of its neighbour's."""
    if (begin, end) == (first, last):
        return Adjacency.WHOLE
    if begin >= first and end <= last and (begin == first or end == last):
        return Adjacency.CORNER
    return Adjacency.PART


def corner_strip(giver: Box, taker: Box, side: Side) -> tuple[Box, Box, Box]:
    """Return the strip that a corner shift moves, the giver without it and the taker with it."""
    axis = 1 if side in (Side.LEFT, Side.RIGHT) else 0
    begin, end = taker[axis], taker[axis + 2]
    if _adjacency(giver[axis], giver[axis + 2], begin, end) is not Adjacency.CORNER:
        raise InputError(f"the box {list(taker)} is no corner neighbour of {list(giver)} at its side '{side.value}'")
    strip, rest = list(giver), list(giver)
    strip[axis], strip[axis + 2] = begin, end
    if begin == giver[axis]:
        rest[axis] = end + 1
    else:
        rest[axis + 2] = begin - 1
    grown = (min(strip[0], taker[0]), min(strip[1], taker[1]), max(strip[2], taker[2]), max(strip[3], taker[3]))
    return (strip[0], strip[1], strip[2], strip[3]), (rest[0], rest[1], rest[2], rest[3]), grown
