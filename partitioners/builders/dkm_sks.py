"""Dividing subscriptions among workers: KOP, SOP and DkM-SKS (Sections 3 and 4), Algorithms 1 to 3."""

import heapq
from dataclasses import dataclass

import numpy as np

from partitioners.columns import Floats, Ints, Offsets, Workers
from partitioners.costs.allocation import greedy, greedy_in_order, loads
from partitioners.costs.initial_objects import InitialObjects
from partitioners.costs.statistics import Statistics
from partitioners.costs.subscription_costs import ball_rects, hybrid_costs, keyword_costs, space_costs, subset_cost
from partitioners.plans.assignment_plan import AssignmentPlan
from streams.columns import csr_take
from streams.errors import DeclarationError
from streams.geometry import Rect

__all__ = [
    "Subscriptions",
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

    def enclosing(self, rows: Ints) -> Floats:
        """Return R, the rectangle that encloses the balls of a subset."""
        ball = self.ball[rows]
        return np.concatenate([ball[:, :2].min(axis=0), ball[:, 2:].max(axis=0)])

    def costs(self, initial: InitialObjects, rows: Ints) -> Floats:
        """Return C(s) of a subset by Equation 5, R enclosing its balls."""
        kw_off, kw = csr_take(self.kw_off, self.kw, rows)
        return hybrid_costs(initial, self.enclosing(rows)[None, :], np.zeros(len(rows), np.int64), kw_off, kw)

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
) -> list[Ints]:
    """Cut subscriptions into at least so many subsets of like places and words (Algorithm 2).

    `subsets` is gamma_1 * m, `hybrid_at_most` gamma_2: the dearest subset (Equation 6) is divided next, by space where
    it is larger than gamma_2, otherwise by space or by cost (HYBRID-PARTITION), whichever has the smaller sum. Where the
    paper is silent: empty quarters are no subsets, one subscription is not divided, and subscriptions at one place, which
    no quarter separates, are divided by cost whatever their number.
    """
    if len(subscriptions) == 0:
        return []
    heap: list[tuple[float, int, Box, int, Ints]] = [(0.0, 0, space.as_tuple(), 0, np.arange(len(subscriptions)))]
    single: list[Ints] = []
    number = 0
    while heap and len(heap) + len(single) < subsets:
        _, _, box, depth, rows = heapq.heappop(heap)
        if len(rows) == 1:
            single.append(rows)
            continue
        parts = subscriptions.quarters(box, rows) if depth < _MAX_DEPTH else []
        if not parts or len(rows) <= hybrid_at_most:
            mixed = [(box, part) for part in _by_cost(subscriptions.costs(initial, rows), rows)]
            if not parts or not _total(initial, subscriptions, parts) < _total(initial, subscriptions, mixed):
                parts = mixed
        for part_box, part in parts:
            number += 1
            cost = subset_cost(subscriptions.costs(initial, part))
            heapq.heappush(heap, (-cost, number, part_box, depth + 1, part))
    return [rows for *_, rows in heap] + single


def _by_cost(costs: Floats, rows: Ints) -> list[Ints]:
    """Divide a subset into four of like cost by the greedy algorithm (HYBRID-PARTITION)."""
    which = greedy(costs, 4)
    return [rows[which == c] for c in range(4) if (which == c).any()]


def _total(initial: InitialObjects, subscriptions: Subscriptions, parts: list[tuple[Box, Ints]]) -> float:
    return sum(subset_cost(subscriptions.costs(initial, rows)) for _, rows in parts)


def subscription_assignment(
    initial: InitialObjects, subscriptions: Subscriptions, subsets: list[Ints], workers: int
) -> tuple[Workers, Floats, Floats]:
    """Assign subscriptions one by one, dearest subset first, to the least loaded worker (Algorithm 3).

    Subscriptions of one subset tend to be touched by the same objects, so spreading them makes use of all workers. Returns
    the worker of each subscription, the loads, and R of each subset.
    """
    if not subsets:
        return np.empty(0, np.int32), np.zeros(workers), np.empty((0, 4))
    rects = np.stack([subscriptions.enclosing(rows) for rows in subsets])
    subset_of = np.empty(len(subscriptions), np.int64)
    for number, rows in enumerate(subsets):
        subset_of[rows] = number
    costs = hybrid_costs(initial, rects, subset_of, subscriptions.kw_off, subscriptions.kw)
    totals = np.bincount(subset_of, costs, minlength=len(subsets))
    order = np.lexsort((-costs, subset_of, -totals[subset_of]))
    worker = np.empty(len(costs), np.int32)
    worker[order], load = greedy_in_order(costs[order], np.zeros(workers))
    return worker, load, rects


def _initial(statistics: Statistics, workers: int) -> InitialObjects:
    if workers < 1:
        raise DeclarationError(f"cannot assign subscriptions to {workers} workers; expected at least 1")
    o = statistics.objects
    return InitialObjects.of(statistics.space, o.x, o.y, o.kw_off, o.kw)


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
    worker, load, rects = subscription_assignment(initial, subscriptions, subsets, workers)
    return AssignmentPlan.of(statistics, workers, "hybrid", worker, load, rects)


def kop_plan(statistics: Statistics, workers: int) -> AssignmentPlan:
    """Build the keyword-oriented partition: Equation 1 and Algorithm 1."""
    initial = _initial(statistics, workers)
    costs = keyword_costs(initial, statistics.queries.kw_off, statistics.queries.kw)
    worker = greedy(costs, workers)
    return AssignmentPlan.of(statistics, workers, "keyword", worker, loads(costs, worker, workers))


def sop_plan(statistics: Statistics, workers: int, *, subsets_a_worker: int = 20) -> AssignmentPlan:
    """Build the space-oriented partition (Section 3.2): a quadtree by Equation 3, its subsets assigned greedily.

    `subsets_a_worker` is theta: the subset of largest cost is quartered until there are theta * m.
    """
    if subsets_a_worker < 1:
        raise DeclarationError("SOP needs at least 1 subset a worker")
    initial = _initial(statistics, workers)
    subscriptions = Subscriptions.of(statistics, initial)

    def cost(rows: Ints) -> float:
        return float(space_costs(initial, subscriptions.enclosing(rows)[None, :])[0]) * len(rows)

    rows = np.arange(len(subscriptions))
    heap: list[tuple[float, int, Box, int, Ints]] = (
        [(0.0, 0, statistics.space.as_tuple(), 0, rows)] if len(rows) else []
    )
    whole: list[tuple[float, Ints]] = []
    number = 0
    while heap and len(heap) + len(whole) < subsets_a_worker * workers:
        negative, _, box, depth, rows = heapq.heappop(heap)
        if len(rows) == 1 or depth >= _MAX_DEPTH:
            whole.append((-negative if depth else cost(rows), rows))
            continue
        for part_box, part in subscriptions.quarters(box, rows):
            number += 1
            heapq.heappush(heap, (-cost(part), number, part_box, depth + 1, part))
    subsets = [(cost(part), part) for _, _, _, _, part in heap] + whole
    costs = np.array([c for c, _ in subsets])
    chosen = greedy(costs, workers)
    worker = np.empty(len(subscriptions), np.int32)
    for (_, part), where in zip(subsets, chosen, strict=True):
        worker[part] = where
    return AssignmentPlan.of(statistics, workers, "space", worker, loads(costs, chosen, workers))
