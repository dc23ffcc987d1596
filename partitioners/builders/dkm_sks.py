"""Dividing subscriptions among workers: KOP, SOP and DkM-SKS (Sections 3 and 4), Algorithms 1 to 3."""

import heapq
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from partitioners.columns import Floats, Ints, Offsets, Workers, column
from partitioners.costs.allocation import greedy, greedy_in_order, loads
from partitioners.costs.initial_objects import InitialObjects
from partitioners.costs.object_kernels import partitioned
from partitioners.costs.statistics import Statistics
from partitioners.costs.subscription_costs import (
    at_least_one_object,
    ball_rects,
    hybrid_costs,
    keyword_costs,
    space_costs,
)
from partitioners.plans.assignment_plan import AssignmentPlan
from streams.columns import csr_take
from streams.errors import DeclarationError
from streams.geometry import Rect

__all__ = [
    "Subscriptions",
    "Subsets",
    "dkm_sks_plan",
    "kop_plan",
    "sop_plan",
    "subscription_assignment",
    "subscription_partitioning",
]

#: Quarters below this size no longer separate places in float64.
_MAX_DEPTH = 40

Box = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True, eq=False)
class Subsets:
    """Disjoint subsets of subscriptions: subset i has the rows `row[off[i]]` .. `row[off[i + 1]]`, without the last."""

    off: Ints
    row: Ints

    def __len__(self) -> int:
        return len(self.off) - 1

    def __iter__(self) -> Iterator[Ints]:
        return (self.row[a:b] for a, b in itertools.pairwise(self.off.tolist()))

    @classmethod
    def of(cls, parts: Sequence[Ints]) -> "Subsets":
        """Put subsets into columns."""
        return cls(
            np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64),
            np.concatenate([np.empty(0, np.int64), *parts]),
        )

    def subset_of(self) -> Ints:
        """Return the subset of each subscription."""
        found = np.empty(len(self.row), np.int64)
        found[self.row] = np.repeat(np.arange(len(self)), np.diff(self.off))
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Subscriptions:
    """Subscriptions as the algorithms see them: places, the rectangles around their balls, keywords."""

    x: Floats
    y: Floats
    ball: Floats
    kw_off: Offsets
    kw: Ints

    @classmethod
    def of(cls, statistics: Statistics, initial: InitialObjects) -> "Subscriptions":
        """Measure the balls B(s) of the sampled queries among O_init."""
        q = statistics.queries
        radius = initial.kth_distances(q.at_x, q.at_y, q.kw_off, q.kw, np.maximum(q.k, 1), q.match_any)
        return cls(q.at_x, q.at_y, ball_rects(q.at_x, q.at_y, radius, statistics.space), q.kw_off, q.kw)

    def __len__(self) -> int:
        return len(self.x)

    def enclosing(self, subsets: Subsets) -> Floats:
        """Return R of each subset, the rectangle that encloses its balls."""
        if not len(subsets):
            return np.empty((0, 4))
        ball, first = self.ball[subsets.row], subsets.off[:-1]
        edges = (np.minimum, np.minimum, np.maximum, np.maximum)
        return np.stack([ufunc.reduceat(ball[:, e], first) for e, ufunc in enumerate(edges)], axis=1)

    def costs(self, initial: InitialObjects, subsets: Subsets, rects: Floats) -> Floats:
        """Return C(s) of each subscription by Equation 5, R that of its subset."""
        found = hybrid_costs(initial, rects, subsets.subset_of(), self.kw_off, self.kw)
        return at_least_one_object(initial, found)

    def quarters(self, box: Box, rows: Ints) -> list[tuple[Box, Ints]]:
        """Divide a subset by the quarter of a region that its places are in; empty quarters are left out."""
        low_x, low_y, high_x, high_y = box
        x, y = low_x / 2 + high_x / 2, low_y / 2 + high_y / 2
        which = (self.x[rows] >= x) + 2 * (self.y[rows] >= y)
        boxes = ((low_x, low_y, x, y), (x, low_y, high_x, y), (low_x, y, x, high_y), (x, y, high_x, high_y))
        parts = [(quarter, rows[which == c]) for c, quarter in enumerate(boxes)]
        return [(quarter, part) for quarter, part in parts if len(part)]


def subscription_partitioning(
    initial: InitialObjects, subscriptions: Subscriptions, space: Rect, subsets: int, hybrid_at_most: int
) -> Subsets:
    """Cut subscriptions into at least so many subsets of like places and words (Algorithm 2).

    `subsets` is gamma_1 * m, `hybrid_at_most` gamma_2: the dearest subset (Equation 6) is divided next, by space where
    it is larger than gamma_2, otherwise by space or by cost (HYBRID-PARTITION), whichever has the smaller sum. Where the
    paper is silent: empty quarters are no subsets, one subscription is not divided, and subscriptions at one place, which
    no quarter separates, are divided by cost whatever their number. Small rectangles come first: of those that a new
    subscription overlaps alike, the first counts (Equation 7), and one of its own size says most about it.
    """
    if len(subscriptions) == 0:
        return Subsets.of([])
    s = subscriptions
    row = first = np.arange(len(s))
    if subsets < len(s):  # as many subsets as subscriptions: however it goes, each is alone in the end
        row, first = partitioned(
            column(s.x, np.float64), column(s.y, np.float64), column(s.ball, np.float64, 2), column(s.kw_off, np.int32),
            column(initial.lists_of(s.kw), np.int64), np.array(space.as_tuple()), subsets, hybrid_at_most, _MAX_DEPTH,
            *initial.grids, initial.x, initial.y,
        )  # fmt: skip
    found = Subsets(np.append(first, len(row)), row)
    rects = subscriptions.enclosing(found)
    order = np.argsort((rects[:, 2] - rects[:, 0]) * (rects[:, 3] - rects[:, 1]), kind="stable")
    off, sorted_row = csr_take(found.off.astype(np.int32), found.row, order)
    return Subsets(off.astype(np.int64), sorted_row)


def subscription_assignment(
    initial: InitialObjects, subscriptions: Subscriptions, subsets: Subsets, workers: int
) -> tuple[Workers, Floats, Floats, Floats]:
    """Assign subscriptions one by one, dearest subset first, to the least loaded worker (Algorithm 3).

    Subscriptions of one subset tend to be touched by the same objects, so spreading them makes use of all workers. Returns
    the worker and the cost of each subscription, the loads, and R of each subset.
    """
    rects = subscriptions.enclosing(subsets)
    costs = subscriptions.costs(initial, subsets, rects)
    subset_of = subsets.subset_of()
    totals = np.bincount(subset_of, costs, minlength=len(subsets))
    order = np.lexsort((-costs, subset_of, -totals[subset_of]))
    worker = np.empty(len(costs), np.int32)
    worker[order], load = greedy_in_order(costs[order], np.zeros(workers))
    return worker, costs, load, rects


def _initial(statistics: Statistics, workers: int) -> InitialObjects:
    if workers < 1:
        raise DeclarationError(f"cannot assign subscriptions to {workers} workers; expected at least 1")
    o = statistics.objects
    return InitialObjects.of(o.x, o.y, o.kw_off, o.kw)


def dkm_sks_plan(
    statistics: Statistics, workers: int, *, subsets_a_worker: int = 100, hybrid_at_most: int = 20
) -> AssignmentPlan:
    """Build the plan of DkM-SKS: Algorithm 2, then Algorithm 3.

    `subsets_a_worker` is gamma_1 (the paper: 100,000 for ten million subscriptions) and `hybrid_at_most` gamma_2.
    """
    if subsets_a_worker < 1 or hybrid_at_most < 0:
        raise DeclarationError(
            "DkM-SKS needs at least 1 subset a worker, and a size for hybrid partitions of at least 0"
        )
    initial = _initial(statistics, workers)
    subscriptions = Subscriptions.of(statistics, initial)
    subsets = subscription_partitioning(
        initial, subscriptions, statistics.space, subsets_a_worker * workers, hybrid_at_most
    )
    worker, costs, load, rects = subscription_assignment(initial, subscriptions, subsets, workers)
    return AssignmentPlan.of(statistics, workers, "hybrid", worker, load, rects, costs)


def kop_plan(statistics: Statistics, workers: int) -> AssignmentPlan:
    """Build the keyword-oriented partition: Equation 1 and Algorithm 1."""
    initial = _initial(statistics, workers)
    costs = at_least_one_object(initial, keyword_costs(initial, statistics.queries.kw_off, statistics.queries.kw))
    worker = greedy(costs, workers)
    return AssignmentPlan.of(statistics, workers, "keyword", worker, loads(costs, worker, workers), cost=costs)


def sop_plan(statistics: Statistics, workers: int, *, subsets_a_worker: int = 20) -> AssignmentPlan:
    """Build the space-oriented partition (Section 3.2): a quadtree by Equation 3, its subsets assigned greedily.

    `subsets_a_worker` is theta: the subset of largest cost is quartered until there are theta * m.
    """
    if subsets_a_worker < 1:
        raise DeclarationError("SOP needs at least 1 subset a worker")
    initial = _initial(statistics, workers)
    subscriptions = Subscriptions.of(statistics, initial)

    def shares(parts: Sequence[Ints]) -> Floats:
        """Return P(R) of subsets (Equation 2): what each of their subscriptions costs."""
        return at_least_one_object(initial, space_costs(initial, subscriptions.enclosing(Subsets.of(parts))))

    rows = np.arange(len(subscriptions))
    heap: list[tuple[float, int, Box, int, Ints]] = (
        [(0.0, 0, statistics.space.as_tuple(), 0, rows)] if len(rows) else []
    )
    whole: list[Ints] = []
    number = 0
    while heap and len(heap) + len(whole) < subsets_a_worker * workers:
        _, _, box, depth, rows = heapq.heappop(heap)
        if len(rows) == 1 or depth >= _MAX_DEPTH:
            whole.append(rows)
            continue
        quarters = subscriptions.quarters(box, rows)
        for (part_box, part), share in zip(quarters, shares([part for _, part in quarters]), strict=True):
            number += 1
            heapq.heappush(heap, (-share * len(part), number, part_box, depth + 1, part))
    parts = [*(part for *_, part in heap), *whole]
    subsets, share = Subsets.of(parts), shares(parts)
    costs = share * np.diff(subsets.off)
    chosen = greedy(costs, workers)
    subset_of = subsets.subset_of()
    worker, load = chosen[subset_of], loads(costs, chosen, workers)
    return AssignmentPlan.of(statistics, workers, "space", worker, load, cost=share[subset_of])
