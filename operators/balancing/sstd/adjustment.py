"""QT-tree adjustment (SSTD, Section 5.3), method FG: dear leaves are split, cheap ones merged, until load can be even.

In each iteration the dearest leaf is split, by space or by text as Equation 3 says, and the cheapest node whose four children
are leaves is merged, as long as it is cheaper than the dearest leaf that is left. No object is fetched: what the pieces cost
follows from J. Afterwards leaves are allocated as in FM.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from operators.balancing.sstd.leaf_counts import LeafCounts
from operators.balancing.sstd.query_cells import Cells, Quadtree
from operators.balancing.sstd.reallocation import lopsided
from partitioners.columns import Floats, Ints
from partitioners.costs.allocation import karmarkar_karp, loads
from partitioners.costs.query_distribution import CKQ, SKQ, spatial_discrepancy, split_by_discrepancy
from partitioners.plans.qt_adjustment import mergeable, merged, quartered, split_by_space, split_by_text
from partitioners.plans.qt_tree import TEXTUAL, QtTreePlan

__all__ = ["Draft", "adjusted"]

#: A quarter with so much of a cell's load is all of it: that a split would help shows further down.
_ALL = 0.95

#: The cell of a leaf of which J knows nothing.
_UNKNOWN = -1

#: A leaf that is cut off from its J by text has a quarter of the objects.
_QUARTERS = np.full(4, 0.25)


@dataclass(frozen=True, slots=True, eq=False)
class Draft:
    """A tree in the making, and what is known of its leaves.

    Attributes:
        plan: the tree.
        counts: of each leaf.
        held: how many continuous queries of each leaf each worker has now (leaves x workers).
        known: J.
        cell: of each leaf in J, `_UNKNOWN` where there is none.
        by_equation: whether loads are Equation 2 as it stands, or by pairs that were counted.
        changes: what was done, at which worker, and why.
    """

    plan: QtTreePlan
    counts: LeafCounts
    held: Floats
    known: Quadtree
    cell: Ints
    by_equation: bool
    changes: tuple[tuple[str, int, str], ...] = ()

    @classmethod
    def of(
        cls, plan: QtTreePlan, counts: LeafCounts, held: Floats, answers: Sequence[Cells], *, by_equation: bool
    ) -> "Draft":
        """Begin with the tree in force and what evaluators have answered."""
        return cls(plan, counts, held, *Quadtree.of(answers, plan.leaves), by_equation)

    # --- splits ------------------------------------------------------------------------------------------------------

    def split(self, leaf: int, epsilon: float) -> "Draft | None":
        """Return the draft with a leaf split as Equation 3 says; None where nothing is gained by it."""
        cell = int(self.cell[leaf])
        if cell == _UNKNOWN or self.counts.arriving[leaf] + self.counts.kept[leaf] == 0:
            return None
        if not self._divides(leaf, cell):
            return self._by_text(leaf, "no quarters are known that share its load")
        four = self.known.below[cell] + np.arange(4)
        shares = self.known.queries / np.maximum(self.known.totals, 1.0)
        discrepancy = spatial_discrepancy(shares[cell], shares[four])
        if split_by_discrepancy(discrepancy, epsilon) == "textual":
            return self._by_text(leaf, f"h-hat {discrepancy:.2f} is above epsilon {epsilon:g}")
        return self._by_space(leaf, four, f"h-hat {discrepancy:.2f} is at most epsilon {epsilon:g}")

    def _divides(self, leaf: int, cell: int) -> bool:
        """Tell whether J has quarters below a cell that share its load, however far down."""
        if quartered(tuple(self.plan.leaf_box[leaf].tolist()), self.plan.space.as_tuple()) is None:
            return False
        while (below := int(self.known.below[cell])) >= 0:
            load = self._pieces(leaf, below + np.arange(4)).load
            if load.max() < _ALL * load.sum():
                return True
            cell = below + int(load.argmax())
        return False

    def _pieces(self, leaf: int, four: Ints) -> LeafCounts:
        """Return what is known of the quarters of a leaf, from J."""
        whole = self.known.objects[self.cell[leaf]]
        share = self.known.objects[four] / whole if whole > 0 else np.zeros(4)
        pieces = self.counts.take(np.full(4, leaf)).scaled(share)
        # What J counts is scaled to what was reported of the leaf.
        before, paired = self.known.queries[self.cell[leaf]], self.known.pairs[self.cell[leaf]]
        reported = np.where(before > 0, self.counts.queries[leaf] / np.maximum(before, 1e-9), 1.0)
        made = replace(pieces, queries=self.known.queries[four] * reported)
        if self.by_equation:
            return made.by_equation()
        scale = self.counts.pairs[leaf] / paired if paired > 0 else 1.0
        return replace(made, pairs=self.known.pairs[four] * scale)

    def _by_space(self, leaf: int, four: Ints, why: str) -> "Draft":
        return self._with_pieces(split_by_space(self.plan, leaf), leaf, self._pieces(leaf, four), four, "space", why)

    def _by_text(self, leaf: int, why: str) -> "Draft":
        plan = split_by_text(self.plan, leaf, self.known.asked[int(self.cell[leaf])])
        pieces = self.counts.take(np.full(4, leaf)).scaled(_QUARTERS)
        return self._with_pieces(plan, leaf, pieces, np.full(4, self.cell[leaf]), "text", why)

    def _with_pieces(self, plan: QtTreePlan, leaf: int, pieces: LeafCounts, cells: Ints, by: str, why: str) -> "Draft":
        """Put the pieces of a leaf where a split puts them: one in its place, three at the end."""
        standing = max(float(self.counts.standing[leaf]), 1e-9)
        held = self.held[leaf] * np.minimum(pieces.standing / standing, 1.0)[:, None]
        order = np.append(np.arange(self.plan.leaves), np.arange(3) + self.plan.leaves + 1)
        order[leaf] = self.plan.leaves
        worker = int(self.plan.leaf_worker[leaf])
        said = f"leaf {leaf} of load {self.counts.load[leaf]:,.0f} by {by}: {why}"
        return replace(
            self,
            plan=plan,
            counts=LeafCounts.concat([self.counts, pieces]).take(order),
            held=np.concatenate([self.held, held])[order],
            cell=np.append(self.cell, cells)[order],
            changes=(*self.changes, ("split", worker, said)),
        )

    # --- merges ------------------------------------------------------------------------------------------------------

    def united(self, node: int) -> LeafCounts:
        """Return what is known of a node whose four children are leaves, if it were one.

        Leaves that are divided by text have the same queries. Of those that are divided by space, it is not known which queries
        several have; what has no region counts once, all others for each, so a node is rather thought too dear.
        """
        four = self.plan.leaf[self.plan.child[node] : self.plan.child[node] + 4]
        counts = self.counts.take(four)
        most, sums = counts.queries.max(0), counts.queries.sum(0)
        queries = most if self.plan.split[node] == TEXTUAL else np.where(np.isin(np.arange(6), (SKQ, CKQ)), most, sums)
        load = counts.load
        plain = float((load / counts.factor).sum()) if load.any() else 0.0
        factor = float(load.sum()) / plain if plain > 0 else float(counts.factor.mean())
        arriving = counts.arriving.sum(keepdims=True)
        pairs = (counts.pairs * counts.arriving).sum(keepdims=True) / np.maximum(arriving, 1e-9)
        covered = counts.covered.max(0, keepdims=True)
        whole = LeafCounts(arriving, counts.kept.sum(keepdims=True), queries[None], covered, pairs, np.array([factor]))
        return whole.by_equation() if self.by_equation else whole

    def merge(self, node: int) -> "Draft":
        """Return the draft with the four children of a node merged."""
        first = int(self.plan.child[node])
        four = self.plan.leaf[first : first + 4]
        one = self.united(node)
        worker = int(self.held[four].sum(0).argmax())
        plan, place = merged(self.plan, node, worker)
        kept = np.array([int(np.flatnonzero(place == leaf)[0]) for leaf in range(plan.leaves)])
        stays = int(place[four[0]])
        cells = self.cell[four]
        cell = int(cells[0])
        if self.plan.split[node] != TEXTUAL and cell != _UNKNOWN:
            quartered_there = (cells == cell + np.arange(4)).all()
            cell = int(self.known.parent[cell]) if quartered_there else _UNKNOWN
        counts, held, after = self.counts.take(kept), self.held[kept], self.cell[kept]
        held[stays], after[stays] = self.held[four].sum(0), cell
        rest = np.arange(plan.leaves)
        rest[stays] = plan.leaves
        said = f"leaves {', '.join(map(str, sorted(four.tolist())))} of load {float(one.load[0]):,.0f}"
        return replace(
            self,
            plan=plan,
            counts=LeafCounts.concat([counts, one]).take(rest),
            held=held,
            cell=after,
            changes=(*self.changes, ("merge", worker, said)),
        )


def adjusted(draft: Draft, threshold: float, epsilon: float, most: int, operations: int) -> Draft:
    """Split and merge until leaves can be allocated with L_max / L_min of at most `threshold`, or nothing more can be done.

    At most `most` leaves, and so many splits.
    """
    stuck: set[tuple[float, ...]] = set()
    for _ in range(operations):
        leaf = _dearest(draft, stuck)
        if leaf is None or _balanced(draft, threshold):
            break
        following = draft.split(leaf, epsilon)
        if following is None:
            stuck.add(_key(draft, leaf))
            continue
        following = _merged_cheapest(following)
        if following.plan.leaves > most:
            break
        draft = following
    return draft


def _key(draft: Draft, leaf: int) -> tuple[float, ...]:
    return (*draft.plan.leaf_box[leaf].tolist(), float(draft.cell[leaf]))


def _dearest(draft: Draft, stuck: set[tuple[float, ...]]) -> int | None:
    """Return the leaf of most load that can be split, as far as is known."""
    for leaf in np.argsort(-draft.counts.load, kind="stable").tolist():
        if _key(draft, leaf) not in stuck:
            return int(leaf) if draft.counts.load[leaf] > 0 else None
    return None


def _merged_cheapest(draft: Draft) -> Draft:
    """Merge the cheapest node that can be, if it is cheaper than the dearest leaf; the paper's min-heap H."""
    dearest = float(draft.counts.load.max())
    heap = [(float(draft.united(node).load[0]), node) for node in mergeable(draft.plan).tolist()]
    heapq.heapify(heap)
    if heap and heap[0][0] < dearest:
        return draft.merge(heap[0][1])
    return draft


def _balanced(draft: Draft, threshold: float) -> bool:
    load = draft.counts.load
    return lopsided(loads(load, karmarkar_karp(load, draft.plan.workers), draft.plan.workers)) <= threshold
