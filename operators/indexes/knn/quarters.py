"""A quadtree over places of subscriptions, as SOP divides them (DkM-SKS, Section 3.2)."""

import heapq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from streams.geometry import Rect
from streams.kernel import kernel

__all__ = ["Quarters", "divided", "grow_rects", "no_rects"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Numbers = NDArray[np.int16]
Nodes = NDArray[np.int32]

#: Quarters below this depth no longer separate places in float64.
_MAX_DEPTH = 40


@dataclass(frozen=True, slots=True, eq=False)
class Quarters:
    """Subspaces: a node has the number of the first of its four children, a leaf ``-1 -`` the number of its subset."""

    space: Rect
    nodes: Nodes
    leaves: int

    def of(self, x: Floats, y: Floats) -> Numbers:
        """Return the subset of each place."""
        out = np.empty(len(x), np.int16)
        _locate(x, y, np.array(self.space.as_tuple()), self.nodes, out)
        return out


def divided(space: Rect, x: Floats, y: Floats, boxes: Floats, seen: Floats, subsets: int) -> Quarters:
    """Quarter the dearest subspace until there are at least so many.

    The cost of a subset is C(S_r) = P(R) * |S_r| (Equation 3), R what encloses the boxes around its balls, P(R) the share of
    the places `seen` that R contains. Subspaces without subscriptions count, but are not divided; nor is one with a single one.
    """
    nodes, leaves = [-1], 1
    heap: list[tuple[float, int, tuple[float, float, float, float], int, Ints]] = [
        (0.0, 0, space.as_tuple(), 0, np.arange(len(x)))
    ]
    while heap and leaves < subsets:
        _, node, (low_x, low_y, high_x, high_y), depth, rows = heapq.heappop(heap)
        if len(rows) < 2 or depth == _MAX_DEPTH:
            continue
        middle_x, middle_y = low_x / 2 + high_x / 2, low_y / 2 + high_y / 2
        which = (x[rows] >= middle_x) + 2 * (y[rows] >= middle_y)
        first = nodes[node] = len(nodes)
        nodes += [-1] * 4
        leaves += 3
        quarters = (
            (low_x, low_y, middle_x, middle_y),
            (middle_x, low_y, high_x, middle_y),
            (low_x, middle_y, middle_x, high_y),
            (middle_x, middle_y, high_x, high_y),
        )
        for n, quarter in enumerate(quarters):
            part = rows[which == n]
            heapq.heappush(heap, (-_cost(boxes[part], seen), first + n, quarter, depth + 1, part))
    numbered = np.array(nodes, np.int32)
    numbered[numbered < 0] = -1 - np.arange(leaves)
    return Quarters(space, numbered, leaves)


def _cost(boxes: Floats, seen: Floats) -> float:
    if not len(boxes):
        return 0.0
    low, high = boxes[:, :2].min(axis=0), boxes[:, 2:].max(axis=0)
    inside = ((seen >= low) & (seen <= high)).all(axis=1)
    return float(len(boxes)) * (float(inside.mean()) if len(seen) else 1.0)


@kernel
def _locate(x: Floats, y: Floats, space: Floats, nodes: Nodes, out: Numbers) -> None:
    for i in range(x.shape[0]):
        low_x, low_y, high_x, high_y = space[0], space[1], space[2], space[3]
        node = 0
        while nodes[node] >= 0:
            middle_x, middle_y = low_x / 2 + high_x / 2, low_y / 2 + high_y / 2
            node = nodes[node]
            if x[i] >= middle_x:
                low_x = middle_x
                node += 1
            else:
                high_x = middle_x
            if y[i] >= middle_y:
                low_y = middle_y
                node += 2
            else:
                high_y = middle_y
        out[i] = -1 - nodes[node]


def no_rects(count: int) -> Floats:
    """Return rectangles that contain nothing."""
    return np.tile([np.inf, np.inf, -np.inf, -np.inf], (count, 1))


@kernel
def grow_rects(subsets: Numbers, boxes: Floats, rects: Floats) -> None:
    """Let the rectangles of subsets enclose boxes."""
    for i in range(subsets.shape[0]):
        s = subsets[i]
        for k in range(2):
            rects[s, k] = min(rects[s, k], boxes[i, k])
            rects[s, 2 + k] = max(rects[s, 2 + k], boxes[i, 2 + k])
