"""Snapshots of the k nearest in two phases (SSTD, Section 6.2), which spares those who cannot have any of them.

First the evaluator of the leaf where a query is says how far away its own kth object is. The true kth is no farther, so then
the query goes to those alone whose leaves that circle meets. Every evaluator that is asked answers as if it were asked
at once; what is saved is asking the others, what it costs is the way to the first one and back.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streams.batches import TYPE_KNN, QueryBatch, TupleBatch
from streams.geometry import REGION_CIRCLE, REGION_NONE, REGION_RECT

__all__ = ["NearestFirst", "at_their_places"]

#: A circle is so much wider than the distance that it was made of: rounding must not leave the kth object outside.
_WIDER = 1 + 1e-9


class NearestFirst:
    """The queries of one router whose circle is not known yet."""

    def __init__(self) -> None:
        self.waiting = QueryBatch.empty()

    @staticmethod
    def concerns(queries: QueryBatch) -> NDArray[np.bool_]:
        """Tell which queries have two phases."""
        return np.asarray(~queries.continuous & (queries.type == TYPE_KNN), np.bool_)

    def hold(self, queries: QueryBatch) -> None:
        """Let queries wait for their circles."""
        self.waiting = QueryBatch.concat([self.waiting, queries])

    def ready(self, reached: Sequence[TupleBatch]) -> QueryBatch:
        """Return the queries whose circles have come, with these as their regions; an infinite one is none.

        One that is no number is of a query that was unregistered at its own time: it is forgotten.
        """
        if not reached or not len(self.waiting):
            return QueryBatch.empty()
        numbers, bounds = (np.concatenate([batch.column(name) for batch in reached]) for name in ("number", "bound"))
        order = np.argsort(numbers, kind="stable")
        place = np.minimum(np.searchsorted(numbers[order], self.waiting.number), len(numbers) - 1)
        here = numbers[order][place] == self.waiting.number
        radius = bounds[order][place] * _WIDER
        due = here & ~np.isnan(radius)
        found, radius, self.waiting = self.waiting.where(due), radius[due], self.waiting.where(~here)
        shape = found.shape.copy()
        shape[:, 2] = np.where(np.isfinite(radius), radius, 0.0)
        region = np.where(np.isfinite(radius), REGION_CIRCLE, REGION_NONE).astype(np.uint8)
        return replace(found, region=region, shape=shape)

    def snapshot(self) -> dict[str, Any]:
        """Return who waits."""
        return {"waiting": self.waiting}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a snapshot."""
        self.waiting = state["waiting"]


def at_their_places(queries: QueryBatch) -> QueryBatch:
    """Return queries whose regions are the points where they are."""
    shape = np.column_stack([queries.shape[:, 0], queries.shape[:, 1], queries.shape[:, 0], queries.shape[:, 1]])
    return replace(queries, region=np.full(len(queries), REGION_RECT, np.uint8), shape=shape)
