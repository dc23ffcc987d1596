"""The rectangle that overlaps another one most, among millions (DkM-SKS, Equation 7).

The paper looks at all subsets, of which it has two million. Here rectangles are put into classes of like area, so that the few
that cover half of the space do not blow up the boxes of the many small ones, and each class is packed into a tree (sort-tile-
recursive). No overlap exceeds that with a node's box, nor the largest area below it, also as float64 rounds it, since every
step of the computation is monotone; so what is found is what a look at all of them finds, ties included.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partitioners.columns import Floats, Ints, column
from streams.kernel import kernel

__all__ = ["RectIndex"]

#: Rectangles of a leaf, and children of a node.
_FAN_OUT = 16
#: A class spans so many powers of two of area; what is smaller than the last class is in it too.
_CLASS_BITS, _CLASSES = 2, 32

_ENCLOSING = (np.minimum, np.minimum, np.maximum, np.maximum)

Nodes = NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class RectIndex:
    """Rectangles in trees, one for each class of areas.

    Attributes:
        rects, index: rectangles (rows of min x, min y, max x, max y) in the order of the leaves, and where they stood.
        box, area, lowest: of each node: the box of what is below it, the largest area there, and who stood first.
        begin, end: the children of each node: rectangles of the first `leaves` nodes, nodes of the others.
        roots: the roots of the classes.
    """

    rects: Floats
    index: Ints
    box: Floats
    area: Floats
    lowest: Ints
    begin: Nodes
    end: Nodes
    leaves: int
    roots: Nodes

    @classmethod
    def of(cls, rects: Floats) -> "RectIndex":
        """Pack rectangles."""
        given = column(rects, np.float64, 2)
        area = (given[:, 2] - given[:, 0]) * (given[:, 3] - given[:, 1])
        kind = _classes(area)
        order = _tiled(given, kind)
        box, area, lowest, kind = given[order], area[order], order, kind[order]
        index, packed = column(order, np.int64), column(box, np.float64, 2)
        levels: list[tuple[Floats, Floats, Ints, Ints, Ints]] = []
        below = nodes = 0
        while len(kind) and (not levels or (kind[1:] == kind[:-1]).any()):
            first = _groups(kind)
            begin, end = first + below, np.append(first[1:], len(kind)) + below
            box = np.stack([ufunc.reduceat(box[:, e], first) for e, ufunc in enumerate(_ENCLOSING)], axis=1)
            area, lowest, kind = np.maximum.reduceat(area, first), np.minimum.reduceat(lowest, first), kind[first]
            levels.append((box, area, lowest, begin, end))
            below, nodes = nodes, nodes + len(first)
        none = (np.empty((0, 4)), *(np.empty(0, np.int64),) * 4)
        boxes, areas, firsts, begins, ends = (np.concatenate(part) for part in zip(none, *levels, strict=True))
        return cls(
            packed, index, column(boxes, np.float64, 2), column(areas, np.float64), column(firsts, np.int64),
            column(begins, np.int32), column(ends, np.int32), len(levels[0][0]) if levels else 0,
            column(np.arange(below, nodes), np.int32),
        )  # fmt: skip

    def overlapping_most(self, new: Floats) -> Ints:
        """Return, for each new rectangle, the one with the largest overlap, -1 where none touches it.

        Of equal overlaps the one that stood first counts; where overlaps have no area (a ball of radius 0), the first
        that is touched.
        """
        found: Ints = _overlapping_most(
            column(new, np.float64, 2), self.rects, self.index, self.box, self.area, self.lowest, self.begin, self.end,
            self.leaves, self.roots,
        )  # fmt: skip
        return found


def _classes(area: Floats) -> Ints:
    """Return the class of each area, from 0 for the largest ones."""
    _, exponent = np.frexp(area)
    top = int(exponent.max(initial=0))
    kind = np.minimum((top - exponent.astype(np.int64)) // _CLASS_BITS, _CLASSES - 1)
    return np.where(area > 0, kind, _CLASSES - 1)


def _tiled(rects: Floats, kind: Ints) -> Ints:
    """Return the order of leaves: by class, in it by slices of x, in these by y."""
    x, y = rects[:, 0] / 2 + rects[:, 2] / 2, rects[:, 1] / 2 + rects[:, 3] / 2
    order = np.lexsort((x, kind))
    size = np.bincount(kind, minlength=_CLASSES)
    rank = np.arange(len(kind)) - np.repeat(np.cumsum(size) - size, size)
    slices = np.maximum(np.ceil(np.sqrt(size / _FAN_OUT)), 1)
    depth = np.ceil(size / slices / _FAN_OUT) * _FAN_OUT  # rectangles of a slice: whole leaves
    sliced = rank // np.maximum(np.repeat(depth, size), 1)
    return order[np.lexsort((y[order], sliced, kind[order]))]


def _groups(kind: Ints) -> Ints:
    """Return where groups of neighbours begin, each of one class."""
    first = np.flatnonzero(np.append(True, kind[1:] != kind[:-1]))
    rank = np.arange(len(kind)) - np.repeat(first, np.diff(np.append(first, len(kind))))
    return np.flatnonzero(rank % _FAN_OUT == 0)


@kernel
def _overlap(box: Floats, new: Floats) -> float:
    """Return the area that two rectangles share, below 0 where they do not touch."""
    wide = min(box[2], new[2]) - max(box[0], new[0])
    high = min(box[3], new[3]) - max(box[1], new[1])
    return wide * high if wide >= 0.0 and high >= 0.0 else -1.0


@kernel
def _overlapping_most(
    new: Floats, rects: Floats, index: Ints, box: Floats, area: Floats, lowest: Ints, begin: Nodes, end: Nodes,
    leaves: int, roots: Nodes,
) -> Ints:  # fmt: skip
    """Search depth first, children of the largest bound first, of equal ones those whose first rectangle stood first.

    Most rectangles are wholly inside of some others, so these are looked for first: with that overlap as the mark, all nodes
    whose box does not reach it are passed over.
    """
    out = np.full(len(new), -1, np.int64)
    stack, bound = np.empty(len(roots) + 16 * 16, np.int32), np.empty(len(roots) + 16 * 16)
    for i in range(len(new)):
        for attempt in range(2):
            best = _overlap(new[i], new[i]) if attempt == 0 else -1.0
            found = np.int64(-1)
            top = _pushed(new[i], roots, 0, len(roots), box, area, lowest, best, found, stack, bound, 0)
            while top > 0:
                top -= 1
                node, most = stack[top], bound[top]
                if most < best or (most == best and 0 <= found <= lowest[node]):
                    continue
                if node >= leaves:
                    top = _pushed(
                        new[i], roots[:0], begin[node], end[node], box, area, lowest, best, found, stack, bound, top
                    )  # fmt: skip
                    continue
                for r in range(begin[node], end[node]):
                    shared = _overlap(rects[r], new[i])
                    if shared >= 0.0 and (shared > best or (shared == best and (found < 0 or index[r] < found))):
                        best, found = shared, index[r]
            if found >= 0:
                out[i] = found
                break
    return out


@kernel
def _pushed(
    new: Floats, listed: Nodes, begin: int, end: int, box: Floats, area: Floats, lowest: Ints, best: float, found: np.int64,
    stack: Nodes, bound: Floats, top: int,
) -> int:  # fmt: skip
    """Put nodes (listed ones, or those of a range) that may hold a better rectangle on the stack, the best ones on top."""
    low = top
    for place in range(begin, end):
        node = listed[place] if len(listed) > 0 else np.int32(place)
        most = min(_overlap(box[node], new), area[node])
        if most < 0.0 or most < best or (most == best and 0 <= found <= lowest[node]):
            continue
        at = top
        while at > low and (bound[at - 1] > most or (bound[at - 1] == most and lowest[stack[at - 1]] < lowest[node])):
            stack[at], bound[at] = stack[at - 1], bound[at - 1]
            at -= 1
        stack[at], bound[at] = node, most
        top += 1
    return top
