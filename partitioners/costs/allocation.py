"""Handing out parts of different cost to workers: greedy, largest differencing, and minimum-cost matching.

All are deterministic. Among workers of equal load, the one with fewer parts counts as less loaded, so that parts of no
cost spread out too; then the lowest number decides.
"""

import heapq

import numpy as np
from numpy.typing import ArrayLike, NDArray

from partitioners.columns import Floats, Ints, Workers, column
from streams.errors import DeclarationError
from streams.kernel import kernel

__all__ = ["greedy", "greedy_in_order", "imbalance", "karmarkar_karp", "loads", "matching"]


def loads(costs: ArrayLike, worker: NDArray[np.integer], workers: int) -> Floats:
    """Return the cost of each worker under an allocation."""
    return np.asarray(np.bincount(worker, np.asarray(costs, np.float64), minlength=workers), np.float64)


def imbalance(load: Floats) -> float:
    """Return the largest over the mean load: 1 is perfect, also where there is no load at all."""
    mean = float(load.mean())
    return float(load.max()) / mean if mean > 0 else 1.0


def _checked(costs: ArrayLike, workers: int) -> Floats:
    found = np.asarray(costs, np.float64)
    if workers < 1:
        raise DeclarationError(f"cannot allocate to {workers} workers; expected at least 1")
    if found.ndim != 1 or not np.isfinite(found).all() or (found < 0).any():
        raise DeclarationError("costs of parts must be one row of finite numbers that are not negative")
    return found


def greedy(costs: ArrayLike, workers: int) -> Workers:
    """Give the dearest part to the least loaded worker, and so on (longest processing time first).

    DkM-SKS, Algorithm 1. The largest load is at most 4/3 - 1/(3m) of the best possible (the paper says 3/2).
    """
    found = _checked(costs, workers)
    order = np.argsort(-found, kind="stable")
    worker = np.empty(len(found), np.int32)
    worker[order] = greedy_in_order(found[order], np.zeros(workers))[0]
    return worker


def greedy_in_order(
    costs: ArrayLike, load: ArrayLike, held: ArrayLike | None = None, slack: float = 0.0
) -> tuple[Workers, Floats]:
    """Give each part, in this order, to the worker that is least loaded by then; return workers and new loads.

    What DkM-SKS does with subscriptions that arrive later (Sections 3.1 and 4.4). `held` is how many parts each worker
    has already; none, where it is not given. Loads that are larger than the least by no more than `slack` times the mean count
    as equal to it: then who has the fewest parts decides.
    """
    start = column(load, np.float64)
    parts = column(np.zeros(len(start)) if held is None else held, np.int64)
    checked = column(_checked(costs, len(start)), np.float64)
    found: tuple[Workers, Floats] = (
        _greedy(checked, start, parts) if slack == 0 else _even(checked, start, parts, slack)
    )
    return found


@kernel
def _even(costs: Floats, start: Floats, held: Ints, slack: float) -> tuple[Workers, Floats]:
    load, count, total = start.copy(), held.copy(), start.sum()
    out = np.empty(len(costs), np.int32)
    for part in range(len(costs)):
        most = load.min() + slack * total / len(load)
        best = -1
        for worker in range(len(load)):
            if load[worker] <= most and (best < 0 or count[worker] < count[best]):
                best = worker
        out[part] = best
        load[best] += costs[part]
        count[best] += 1
        total += costs[part]
    return out, load


@kernel
def _greedy(costs: Floats, start: Floats, held: Ints) -> tuple[Workers, Floats]:
    load = start.copy()
    heap = [(load[worker], held[worker], worker) for worker in range(len(load))]
    heapq.heapify(heap)
    out = np.empty(len(costs), np.int32)
    for part in range(len(costs)):
        _, count, worker = heap[0]
        out[part] = worker
        load[worker] += costs[part]
        heapq.heapreplace(heap, (load[worker], count + 1, worker))
    return out, load


def karmarkar_karp(costs: ArrayLike, workers: int) -> Workers:
    """Allocate by largest differencing, the k-way form of the Karmarkar-Karp algorithm (SSTD, Section 4.1.2).

    Every part starts as a k-tuple of loads (its cost, 0, ..., 0). The two tuples of largest spread are merged, the
    heaviest side of one with the lightest of the other, until one tuple is left. For two workers the larger load is at
    most 7/6 of the best possible, for k at most 4/3 - 1/(3k).
    """
    found = _checked(costs, workers)
    worker = np.zeros(len(found), np.int32)
    if workers == 1 or len(found) == 0:
        return worker
    # An entry: (-spread, number, loads ascending from 0, the parts of each side); numbers break ties and never repeat.
    heap: list[tuple[float, int, list[float], list[list[int]]]] = [
        (-cost, part, [0.0] * (workers - 1) + [cost], [[] for _ in range(workers - 1)] + [[part]])
        for part, cost in enumerate(found.tolist())
    ]
    heapq.heapify(heap)
    number = len(heap)
    while len(heap) > 1:
        _, _, loads_a, sides_a = heapq.heappop(heap)
        _, _, loads_b, sides_b = heapq.heappop(heap)
        merged = [
            (a + b, side_a + side_b)
            for a, b, side_a, side_b in zip(loads_a, reversed(loads_b), sides_a, reversed(sides_b), strict=True)
        ]
        merged.sort(key=lambda side: (side[0], len(side[1])))
        low = merged[0][0]
        heapq.heappush(
            heap, (low - merged[-1][0], number, [load - low for load, _ in merged], [side for _, side in merged])
        )
        number += 1
    sides = heap[0][3]
    sides.reverse()
    for index, side in enumerate(sides):
        worker[side] = index
    return worker


def matching(saved: ArrayLike) -> Workers:
    """Assign subsets to workers, one each, so that what is saved is largest (the Hungarian method).

    SSTD, Section 5.2: `saved[subset, worker]` is the number of continuous queries of the subset that this worker
    already has; what is not saved must be transferred.
    """
    table = np.asarray(saved, np.float64)
    if table.ndim != 2 or table.shape[0] != table.shape[1] or not np.isfinite(table).all():
        raise DeclarationError(f"a matching needs a square table of finite numbers, found shape {table.shape}")
    from scipy.optimize import linear_sum_assignment  # a third of a second, which no worker should start with

    rows, columns = linear_sum_assignment(table, maximize=True)
    worker = np.empty(len(table), np.int32)
    worker[rows] = columns
    return worker
