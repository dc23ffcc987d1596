"""A router's own keyword lists of a QT-tree (SSTD, Section 4.2): they learn from the objects that it routes.

The child of a textual node that takes an object has its keywords from then on, and H_srq and H_skq of it grow by what is new,
in constant time. Routers see different objects, so their lists drift apart. That changes which leaf an object goes to, and
never whether a query meets it: queries are routed by space alone.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from partitioners.columns import Csr, Floats, Points, Workers
from partitioners.plans.broadcast import one_each
from partitioners.plans.qt_routing import learned_leaves
from partitioners.plans.qt_tree import QtTreePlan

__all__ = ["KeywordLists"]


class KeywordLists:
    """The keyword lists of one router; they begin as those of the plan.

    Attributes:
        bits, held, objects: as `partitioners.plans.qt_routing` says, and written to with every object.
    """

    def __init__(self, plan: QtTreePlan) -> None:
        self._plan = plan
        self.bits: NDArray[np.uint8] = plan.bits.copy()
        self.held: Floats = plan.held.copy()
        self.objects: Floats = plan.objects.copy()

    def leaves_of_points(self, points: Points) -> Workers:
        """Return the leaf of each object, and learn their keywords, in their order."""
        p, tree = points, self._plan
        found: Workers = learned_leaves(
            p.x, p.y, p.kw_off, p.kw, tree.split, tree.child, tree.middle, tree.leaf, tree.text, tree.word_off, tree.word,
            tree.shares, self.bits, self.held, self.objects, tree.weight, tree.lengths,
        )  # fmt: skip
        return found

    def route_points(self, points: Points) -> Csr:
        """Return the worker that each object goes to, and learn."""
        return one_each(self._plan.leaf_worker[self.leaves_of_points(points)])

    def snapshot(self) -> dict[str, Any]:
        """Return what was learned."""
        return {"bits": self.bits.copy(), "held": self.held.copy(), "objects": self.objects.copy()}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over what was learned under the same plan."""
        self.bits, self.held, self.objects = (np.array(state[name]) for name in ("bits", "held", "objects"))
