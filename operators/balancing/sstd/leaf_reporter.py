"""The evaluator's side of the statistics `leaves`: it counts objects and queries at its leaves.

Objects are counted as they come, and again from nothing after every report; those that snapshot queries look at are a sum over
reports that forgets. Queries that live are followed by number: only what came or went since the last report is looked up. Of
very many queries a part is taken for all, and of objects and of snapshot queries the latest are remembered. So what is kept is
bounded, and J (`query_cells`) can be made of it whenever it is asked for.
"""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from operators.balancing.sstd.followed_queries import FollowedQueries, Holder, bounds_of
from operators.balancing.sstd.leaf_counts import LeafCounts, LeafReport, leaves_to_batch
from operators.balancing.sstd.leaf_units import leaf_regions, leaves_of_bounds, leaves_of_objects
from operators.balancing.sstd.pair_kernels import pairs_of_objects
from operators.balancing.sstd.query_cells import Located, quadtree
from partitioners.columns import Floats, Ints, column
from partitioners.costs.query_distribution import CKQ, QueryDistribution, RegionStatistics, covered_share
from partitioners.costs.statistics import ObjectSample, QuerySample, thinned
from partitioners.plans.plan import Plan
from streams.batches import OP_UPSERT, ObjectBatch, QueryBatch, TupleBatch
from streams.columns import csr_concat, csr_take
from streams.geometry import REGION_CIRCLE, Metric, Rect, region_bounds

__all__ = ["Asked", "LeafReporter"]

#: CKQ whose balls are looked at in a report, the latest snapshot queries, and the latest objects.
_BALLS, _ASKED, _OBJECTS = 2_048, 4_096, 4_096

#: Of the latest objects so many are held against queries in a report; so many of before weigh as much in a leaf's mean.
_PAIRED, _REMEMBERED = 256, 64

#: Objects that snapshot queries look at are those of about so many reports.
_KEPT = 64

#: What changes slowly is worked out anew every so many reports: what is covered of the words that are asked for, and balls.
_SLOWLY = 8


@runtime_checkable
class Asked(Protocol):
    """What a core may offer besides: the snapshot queries that it answered since its costs were reset."""

    def asked(self) -> QueryBatch:
        """Return them; a continuous query that is answered at instants may be among them."""


@runtime_checkable
class Bounded(Protocol):
    """What a core may offer besides: how far its kNN queries look."""

    def bounds(self, numbers: Ints) -> NDArray[np.float64]:
        """Return the distance up to which objects matter; NaN where all do."""


class LeafReporter:
    """Counts objects and queries at the leaves of one worker.

    Its options are `cells`, with so many of J it answers at most, and `pairs`, whether objects are held against queries.
    """

    def __init__(self, worker: int, core: Holder, options: Mapping[str, Any], metric: Metric) -> None:
        self._worker, self._core, self._metric = worker, core, metric
        self._cells, self._pairing = int(options.get("cells", 1_024)), bool(options.get("pairs", False))
        self._version = 0
        self._arrived, self._kept = np.zeros(0), np.zeros(0)
        self._pieces = [ObjectSample(np.empty(0), np.empty(0), np.zeros(1, np.int32), np.empty(0, np.int64))]
        self._asked = QueryBatch.empty()
        self._asked_a_report = 0.0
        self._covered, self._pairs, self._age = np.zeros((0, 2)), np.zeros(0), 0
        self._followed, self._ball_counts, self._balls_counted = FollowedQueries(), np.zeros((0, 6)), 0

    # --- what comes --------------------------------------------------------------------------------------------------

    def saw(self, plan: Plan, objects: ObjectBatch) -> None:
        """Count objects by leaf."""
        self._under(plan)
        present = objects.op == OP_UPSERT
        if not present.all():
            objects = objects.take(np.flatnonzero(present))
        leaf = leaves_of_objects(plan, self._worker, objects.x, objects.y, objects.kw_off, objects.kw)
        self._arrived += np.bincount(leaf[leaf >= 0], minlength=len(self._arrived))
        some = objects.take(thinned(len(objects), _OBJECTS))
        self._pieces.append(ObjectSample(some.x, some.y, some.kw_off, some.kw))
        while sum(map(len, self._pieces[1:])) >= _OBJECTS:
            self._pieces.pop(0)

    @property
    def _latest(self) -> ObjectSample:
        """The latest objects; put together when they are looked at."""
        if len(self._pieces) > 1:
            kw_off, kw = csr_concat([(piece.kw_off, piece.kw) for piece in self._pieces])
            x, y = (np.concatenate([getattr(piece, axis) for piece in self._pieces]) for axis in ("x", "y"))
            whole = ObjectSample(x, y, kw_off, kw)
            self._pieces = [whole.take(np.arange(max(len(x) - _OBJECTS, 0), len(x)))]
        return self._pieces[0]

    def _under(self, plan: Plan) -> None:
        """Begin to count for another plan: what was kept is divided as the latest objects are."""
        if plan.version == self._version:
            return
        leaf = self._leaves_of_latest(plan)
        units, total = len(plan.unit_worker), float(self._kept.sum())
        share = np.bincount(leaf[leaf >= 0], minlength=units) / max(len(leaf), 1)
        self._version, self._arrived, self._kept = plan.version, np.zeros(units), share * total
        self._covered, self._pairs, self._age = np.ones((units, 2)), np.full(units, np.nan), 0
        self._followed = FollowedQueries()

    def _leaves_of_latest(self, plan: Plan) -> Ints:
        o = self._latest
        return leaves_of_objects(plan, self._worker, o.x, o.y, o.kw_off, o.kw)

    # --- what is reported --------------------------------------------------------------------------------------------

    def report(self, plan: Plan) -> TupleBatch:
        """Return what there was at the leaves of the worker since the last report."""
        self._under(plan)
        self._kept = self._kept * (1 - 1 / _KEPT) + self._arrived
        leaf = np.flatnonzero(plan.unit_worker == self._worker)
        queries = self._queries(plan)
        if len(leaf) and len(self._asked) and self._age % _SLOWLY == 0:
            self._covered[leaf] = [share for share, _ in self._asked_at(plan, leaf)]
        self._age += 1
        if self._pairing:
            self._count_pairs(plan)
        counts = LeafCounts(
            self._arrived, self._kept, queries, self._covered, np.nan_to_num(self._pairs), np.ones(len(queries))
        )
        self._arrived = np.zeros(len(self._arrived))
        cost = self._core.cost().candidates
        return leaves_to_batch(LeafReport(self._worker, plan.version, cost, leaf, counts.take(leaf)))

    def _queries(self, plan: Plan) -> Floats:
        """Return queries by leaf and type: those that live, and the snapshot queries since the last report."""
        self._followed = self._followed.followed(self._core, plan, self._metric)
        balls = len(self._followed.balls)
        if self._age % _SLOWLY == 0 or _SLOWLY * abs(balls - self._balls_counted) > balls:
            self._ball_counts, self._balls_counted = self._balls(plan), balls
        queries = self._followed.by_leaf + self._ball_counts
        fresh = self._newly_asked()
        self._asked_a_report += (len(fresh) - self._asked_a_report) / 4
        if not len(fresh):
            return queries
        sample = self._sample(fresh, plan.space)
        off, leaf = leaves_of_bounds(plan, bounds_of(sample))
        np.add.at(queries, (leaf, np.repeat(QueryDistribution.of(sample).code, np.diff(off))), 1.0)
        self._asked = QueryBatch.concat([self._asked, fresh])
        self._asked = self._asked.slice(max(len(self._asked) - _ASKED, 0), len(self._asked))
        return queries

    def _count_pairs(self, plan: Plan) -> None:
        """Hold some of the latest objects against the queries that live; a leaf's mean follows them slowly."""
        some = np.arange(max(len(self._latest) - _PAIRED, 0), len(self._latest))
        pairs, leaf = self._pairs_of(self._latest.take(some), plan.space), self._leaves_of_latest(plan)[some]
        known = leaf >= 0
        count = np.bincount(leaf[known], minlength=len(self._pairs))
        found = np.bincount(leaf[known], pairs[known], minlength=len(self._pairs)) / np.maximum(count, 1)
        old = np.where(np.isnan(self._pairs), found, self._pairs)
        self._pairs = np.where(count > 0, old + count / (count + _REMEMBERED) * (found - old), self._pairs)

    def _pairs_of(self, objects: ObjectSample, space: Rect) -> Floats:
        """Return for each object how many continuous queries it has to be held against."""
        held, (balls, weight) = self._followed, self._balls_of(space)
        bounds = np.concatenate([held.bounds, balls])
        weights = np.append(np.full(len(held.code), float(held.weight)), np.full(len(balls), weight))
        found: Floats = pairs_of_objects(
            column(objects.x, np.float64), column(objects.y, np.float64), column(bounds, np.float64, 2),
            column(weights, np.float64),
        )  # fmt: skip
        return found

    def _newly_asked(self) -> QueryBatch:
        if not isinstance(self._core, Asked):
            return QueryBatch.empty()
        asked = self._core.asked()
        return asked.take(np.flatnonzero(~asked.continuous))

    def _sample(self, queries: QueryBatch, space: Rect) -> QuerySample:
        return QuerySample.of_batch(queries, space, self._metric, 0.0, None)

    def _asked_at(self, plan: Plan, leaf: Ints) -> list[tuple[list[float], RegionStatistics]]:
        """Return Equation 1 for SRQ and SKQ at each leaf, from the words of its latest objects, and what is asked for there."""
        distribution = QueryDistribution.of(self._sample(self._asked, plan.space))
        everything, boxes = np.arange(len(self._asked)), leaf_regions(plan)
        at, found = self._leaves_of_latest(plan), []
        for one in leaf.tolist():
            region = distribution.statistics(distribution.overlapping(tuple(boxes[one].tolist()), everything))
            words = csr_take(self._latest.kw_off, self._latest.kw, np.flatnonzero(at == one))[1]
            covered = region.shares[:, np.isin(region.words, words)].sum(1)
            found.append(([covered_share(float(covered[t]), region.lengths[t]) for t in (0, 1)], region))
        return found

    def _balls(self, plan: Plan) -> Floats:
        """Return CKQ by leaf, as far as their balls reach now: they shrink as objects come."""
        bounds, weight = self._balls_of(plan.space)
        counts = np.zeros((len(plan.unit_worker), 6))
        counts[:, CKQ] = np.bincount(leaves_of_bounds(plan, bounds)[1], minlength=len(counts)) * weight
        return counts

    def _balls_of(self, space: Rect) -> tuple[Floats, float]:
        """Return the boxes around the balls of CKQ, and how many queries each stands for."""
        numbers = self._followed.balls
        if not len(numbers):
            return np.empty((0, 4)), 1.0
        some = numbers[thinned(len(numbers), _BALLS)]
        queries = self._core.queries(some)
        whole = np.tile(np.array(space.as_tuple()), (len(queries), 1))
        if isinstance(self._core, Bounded):
            radius = self._core.bounds(queries.number)
            shape = queries.shape.copy()
            shape[:, 2] = np.where(np.isfinite(radius), radius, 0.0)
            circle = np.full(len(queries), REGION_CIRCLE, np.uint8)
            around = np.stack(region_bounds(circle, shape, space, self._metric), axis=1)
            whole = np.where(np.isfinite(radius)[:, None], around, whole)
        return whole, self._followed.weight * len(numbers) / max(len(some), 1)

    # --- what is asked -----------------------------------------------------------------------------------------------

    def answer(self, plan: Plan, _question: Any) -> list[Any]:
        """Return J below the leaves of the worker."""
        self._under(plan)
        self._followed = self._followed.followed(self._core, plan, self._metric)
        leaf = np.flatnonzero(plan.unit_worker == self._worker)
        none = np.zeros((len(self._kept), 6))
        ones = np.ones(len(self._kept))
        counts = LeafCounts(self._kept / _KEPT, self._kept, none, self._covered, ones, ones).take(leaf)
        row = np.full(len(plan.unit_worker) + 1, -1)
        row[leaf] = np.arange(len(leaf))
        asked, (balls, weight) = self._sample(self._asked, plan.space), self._balls_of(plan.space)
        held, rate = self._followed, self._asked_a_report / max(len(asked), 1)
        some = thinned(len(self._latest), 4 * _PAIRED if self._pairing else _OBJECTS)
        objects = self._latest.take(some)
        located = Located(
            objects.x,
            objects.y,
            row[self._leaves_of_latest(plan)[some]],
            self._pairs_of(objects, plan.space) if self._pairing else np.zeros(len(some)),
            np.concatenate([held.bounds, balls, bounds_of(asked)]),
            np.concatenate([held.code, np.full(len(balls), CKQ), QueryDistribution.of(asked).code]),
            np.concatenate(
                [np.full(len(held.code), held.weight), np.full(len(balls), weight), np.full(len(asked), rate)]
            ),
        )
        regions = [region for _, region in self._asked_at(plan, leaf)]
        space = plan.space.as_tuple()
        return quadtree(leaf, leaf_regions(plan)[leaf], space, counts, located, regions, self._cells).answer()

    # --- state -------------------------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """Return what was counted and remembered; queries that live are the core's."""
        o = self._latest
        return {
            "version": self._version,
            "arrived": self._arrived.copy(),
            "kept": self._kept,
            "latest": [o.x, o.y, o.kw_off, o.kw],
            "asked": self._asked,
            "asked_a_report": self._asked_a_report,
            "covered": self._covered.copy(),
            "pairs": self._pairs,
            "age": self._age,
            "balls": [self._ball_counts, self._balls_counted],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a snapshot."""
        self._version, self._asked, self._age = state["version"], state["asked"], state["age"]
        self._asked_a_report, self._covered = state["asked_a_report"], np.array(state["covered"])
        self._pairs = np.array(state["pairs"])
        self._ball_counts, self._balls_counted = np.array(state["balls"][0]), state["balls"][1]
        self._arrived, self._kept = np.array(state["arrived"]), np.array(state["kept"])
        x, y, kw_off, kw = (np.array(column) for column in state["latest"])
        self._pieces = [ObjectSample(x, y, kw_off, kw)]
        self._followed = FollowedQueries()
