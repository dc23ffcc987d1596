"""The core of continuous k-nearest-neighbour queries: subscriptions, and the nearest objects of each."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from operators.evaluation.core import Found
from operators.indexes.core.standing_queries import SAVED_COLUMNS, registrations, saved_columns
from operators.indexes.knn.standing_knn import StandingKnn
from partitioners.columns import Floats
from streams.batches import ObjectBatch, QueryBatch, RankedBatch
from streams.columns import Ints

__all__ = ["KnnCore"]


class KnnCore:
    """Continuous knn queries: lists live, move with their queries, and are sent when they have changed."""

    remembers: ClassVar = True
    ordered: ClassVar = True  # of two objects at the same distance the earlier one stays

    def __init__(self, index: StandingKnn) -> None:
        self._index = index
        self.numbers, self.queries, self.holds = index.numbers, index.queries, index.holds
        self.insert, self.set_end, self.remove = index.insert, index.set_end, index.remove
        self.ended, self.hush, self.wake = index.ended, index.hush, index.wake
        self.results, self.prints, self.bounds, self.bind = index.results, index.prints, index.bounds, index.bind
        self.cost, self.reset_cost = index.cost, index.reset_cost
        self.snapshot, self.restore = index.snapshot, index.restore

    def touching(self, _boxes: Floats) -> Ints:
        """Return all subscriptions: one that has found fewer than k objects reaches everywhere."""
        return self._index.numbers()

    def take(self, objects: ObjectBatch) -> Found:
        """Return the subscriptions whose list an epoch has changed."""
        return Found(changed=self._index.take(objects))

    def gained(self, numbers: Ints, since: int) -> RankedBatch:
        """Return what is new in lists."""
        return self._index.results(numbers, since)

    def adopt(self, results: RankedBatch) -> None:
        """Unite lists with those that another evaluator had."""
        self._index.adopt(results)

    def answer(self, numbers: Ints, _instants: Ints) -> RankedBatch:
        """Answer nothing: no query of this kind has an instant."""
        assert not len(numbers), "a continuous knn query is answered whenever its list changes"
        return RankedBatch.empty()

    def weights(self) -> tuple[Ints, Floats]:
        """Return the work of late by subscription."""
        return self._index.weights()

    @staticmethod
    def saved_queries(state: Mapping[str, Any]) -> QueryBatch:
        """Return the queries of a snapshot."""
        return registrations({name: np.asarray(state[name]) for name in SAVED_COLUMNS})

    @staticmethod
    def saved_results(state: Mapping[str, Any]) -> RankedBatch:
        """Return the lists of a snapshot."""
        results: RankedBatch = state["results"]
        return results

    @staticmethod
    def divided(_like: Mapping[str, Any], queries: QueryBatch, results: RankedBatch) -> dict[str, Any]:
        """Return a snapshot with these queries, all awake, and these lists; work is counted afresh."""
        return {
            **saved_columns(queries),
            "results": results,
            "bounds": np.full(len(queries), np.nan),
            "asleep": np.empty(0, np.int64),
            "cost": np.zeros(3, np.int64),
            "recent": [],
        }
