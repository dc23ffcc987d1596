"""Continuous queries that live, followed from report to report: only what came or went is looked up again."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from operators.balancing.sstd.leaf_units import leaves_of_bounds
from operators.indexes import Cost
from partitioners.columns import Floats, Ints
from partitioners.costs.query_distribution import QueryDistribution
from partitioners.costs.statistics import QuerySample
from partitioners.plans.plan import Plan
from streams.batches import TYPE_KNN, QueryBatch
from streams.geometry import Metric

__all__ = ["FollowedQueries", "Holder", "bounds_of"]

#: Of more queries one of so many is followed, for all.
_FOLLOWED = 65_536

_NONE: Ints = np.empty(0, np.int64)


class Holder(Protocol):
    """A core, as far as its queries are concerned."""

    def numbers(self) -> NDArray[np.int64]:
        """Return the numbers of the queries held."""

    def queries(self, numbers: Ints) -> QueryBatch:
        """Return those of these queries that are held, in this order."""

    def cost(self) -> Cost:
        """Return the work done since it was reset."""


class FollowedQueries:
    """Queries that live, or a part of them, and how many there are at each leaf of a plan.

    Attributes:
        number, bounds, code: of those that are followed, but CKQ, whose balls change with every object.
        balls: the numbers of CKQ that are followed.
        weight: how many queries each stands for.
        by_leaf: how many there are of each type at each leaf (leaves x 6), without CKQ.
    """

    def __init__(self, weight: int = 1) -> None:
        self.number: Ints = _NONE
        self.bounds: Floats = np.empty((0, 4))
        self.code: Ints = _NONE
        self.balls: Ints = _NONE
        self.weight = weight
        self.by_leaf: Floats = np.zeros((0, 6))
        self._known: Ints = _NONE

    def followed(self, core: Holder, plan: Plan, metric: Metric) -> "FollowedQueries":
        """Return this, brought up to date; another one, of fewer, where they have become too many."""
        held = core.numbers()
        weight = max(-(-len(held) // _FOLLOWED), self.weight)
        following = self if weight == self.weight else FollowedQueries(weight)
        # Queries are numbered in the order of registration, so any residue is as good a sample as another.
        following._follow(held if weight == 1 else held[held % weight == 0], core, plan, metric)
        return following

    def _follow(self, held: Ints, core: Holder, plan: Plan, metric: Metric) -> None:
        if not len(self.by_leaf):
            self.by_leaf = np.zeros((len(plan.unit_worker), 6))
        if np.array_equal(held, self._known):
            return
        stays = np.isin(self.number, held)
        self._count(plan, self.bounds[~stays], self.code[~stays], -1)
        self.number, self.bounds, self.code = self.number[stays], self.bounds[stays], self.code[stays]
        self.balls = self.balls[np.isin(self.balls, held)]
        fresh = core.queries(np.setdiff1d(held, self._known))
        self._known = held
        fresh = fresh.take(np.flatnonzero(fresh.continuous))
        nearest = fresh.type == TYPE_KNN
        self.balls = np.append(self.balls, fresh.number[nearest])
        fresh = fresh.take(np.flatnonzero(~nearest))
        sample = QuerySample.of_batch(fresh, plan.space, metric, 0.0, None)
        bounds, code = bounds_of(sample), QueryDistribution.of(sample).code
        self._count(plan, bounds, code, 1)
        self.number = np.append(self.number, fresh.number)
        self.bounds, self.code = np.concatenate([self.bounds, bounds]), np.append(self.code, code)

    def _count(self, plan: Plan, bounds: Floats, code: Ints, sign: int) -> None:
        off, leaf = leaves_of_bounds(plan, bounds)
        np.add.at(self.by_leaf, (leaf, np.repeat(code, np.diff(off))), float(sign * self.weight))


def bounds_of(sample: QuerySample) -> Floats:
    """Return the bounds of queries (n x 4)."""
    return np.stack([sample.min_x, sample.min_y, sample.max_x, sample.max_y], axis=1)
