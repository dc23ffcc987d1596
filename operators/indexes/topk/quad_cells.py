"""A quadtree over the unit square whose leaves hold a bounded number of subscriptions (Skype, Section 5.1.2)."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from streams.kernel import kernel

__all__ = ["Leaf", "QuadCells"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Slots = NDArray[np.int32]

#: Cells below this depth are not divided: too many subscriptions are at one place.
DEEPEST = 16


@dataclass(slots=True, eq=False)
class Leaf:
    """A cell that is not divided: its corners, its depth, who is in it."""

    low: tuple[float, float]
    side: float
    depth: int
    slots: Slots = field(default_factory=lambda: np.empty(0, np.int32))


@kernel
def _locate(spots: Floats, nodes: Slots, out: Slots) -> None:
    """Write the leaf of each place; a node is the first of its four children, or -1 less the number of a leaf."""
    for i in range(spots.shape[0]):
        low_u, low_v, side, node = 0.0, 0.0, 1.0, np.int64(0)
        while nodes[node] >= 0:
            side *= 0.5
            node = np.int64(nodes[node])
            if spots[i, 0] >= low_u + side:
                low_u += side
                node += 1
            if spots[i, 1] >= low_v + side:
                low_v += side
                node += 2
        out[i] = -1 - nodes[node]


class QuadCells:
    """The tree; leaves are numbered from 0 on.

    Args:
        most: a leaf with more subscriptions than this is divided.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._nodes: Slots = np.array([-1], np.int32)
        self._node_of = [0]
        self.leaves = [Leaf((0.0, 0.0), 1.0, 0)]

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        return self._nodes.nbytes + sum(leaf.slots.nbytes for leaf in self.leaves)

    def locate(self, spots: Floats) -> Slots:
        """Return the number of the leaf that each place is in."""
        out = np.empty(len(spots), np.int32)
        _locate(spots, self._nodes, out)
        return out

    def add(self, slots: Slots, spots: Floats, spot_of: Floats) -> set[int]:
        """Put subscriptions into their leaves, and divide those that are full; return the leaves that have changed.

        `spot_of` has the place of every slot, those of the new ones included.
        """
        changed: set[int] = set()
        where = self.locate(spots)
        order = np.argsort(where, kind="stable")
        leaves, first = np.unique(where[order], return_index=True)
        for number, part in zip(leaves.tolist(), np.split(slots[order], first[1:]), strict=True):
            leaf = self.leaves[number]
            leaf.slots = np.concatenate([leaf.slots, part])
            self._divide(number, spot_of, changed)
        return changed

    def _divide(self, number: int, spot_of: Floats, changed: set[int]) -> None:
        changed.add(number)
        leaf = self.leaves[number]
        if len(leaf.slots) <= self._most or leaf.depth == DEEPEST:
            return
        half = leaf.side / 2
        (low_u, low_v), spots = leaf.low, spot_of[leaf.slots]
        which = (spots[:, 0] >= low_u + half) + 2 * (spots[:, 1] >= low_v + half)
        node, first = self._node_of[number], len(self._nodes)
        numbers = [number, *range(len(self.leaves), len(self.leaves) + 3)]
        self._nodes = np.concatenate([self._nodes, -1 - np.array(numbers, np.int32)])
        self._nodes[node] = first
        self._node_of[number] = first
        self._node_of += [first + 1, first + 2, first + 3]
        parts = [
            Leaf((low_u + half * (n & 1), low_v + half * (n >> 1)), half, leaf.depth + 1, leaf.slots[which == n])
            for n in range(4)
        ]
        self.leaves[number] = parts[0]
        self.leaves += parts[1:]
        for part in numbers:
            self._divide(part, spot_of, changed)

    def discard(self, slots: Slots, spots: Floats) -> set[int]:
        """Take subscriptions out of their leaves; return the leaves that have changed."""
        where = self.locate(spots)
        changed = set(np.unique(where).tolist())
        for number in changed:
            leaf = self.leaves[number]
            leaf.slots = np.setdiff1d(leaf.slots, slots[where == number], assume_unique=True)
        return changed
