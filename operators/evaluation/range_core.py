"""The core of range queries: an index of standing queries, matched with every object."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from operators.evaluation.core import Found
from operators.indexes import Load, RangeIndex
from operators.indexes.core.standing_queries import SAVED_COLUMNS, registrations, saved_columns
from streams.batches import ObjectBatch, QueryBatch, RankedBatch

__all__ = ["RangeCore"]


class RangeCore:
    """Continuous range queries: each match is reported when its object comes, and nothing has to be remembered."""

    remembers: ClassVar = False
    ordered: ClassVar = False

    def __init__(self, index: RangeIndex) -> None:
        self._index = index
        self.numbers, self.queries, self.holds = index.numbers, index.queries, index.holds
        self.insert, self.set_end, self.remove = index.insert, index.set_end, index.remove
        self.ended, self.hush, self.wake = index.ended, index.hush, index.wake
        self.cost, self.reset_cost = index.cost, index.reset_cost
        self.restore, self.touching = index.restore, index.touching

    def take(self, objects: ObjectBatch) -> Found:
        """Return the matches of an epoch."""
        return Found(self._index.match(objects))

    def load(self) -> Load:
        """Return the work by row and column of the fine grid."""
        return self._index.load()

    def snapshot(self) -> dict[str, Any]:
        """Return the index as arrays."""
        return dict(self._index.snapshot())

    @staticmethod
    def saved_queries(state: Mapping[str, Any]) -> QueryBatch:
        """Return the queries of a snapshot."""
        return registrations({name: np.asarray(state[name]) for name in SAVED_COLUMNS})

    @staticmethod
    def divided(like: Mapping[str, Any], queries: QueryBatch, _results: RankedBatch) -> dict[str, Any]:
        """Return a snapshot with these queries, all awake, and costs counted afresh."""
        rest = {name: np.zeros_like(like[name]) for name in like if name not in SAVED_COLUMNS}
        return {**saved_columns(queries), **rest, "asleep": np.empty(0, np.int64)}
