"""Since when all objects of a query come to one evaluator: then its counts are the answer, and need no merger to be whole."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from operators.balancing.orders import PlanSchedule
from streams.batches import FOREVER, QueryBatch
from streams.columns import Ints
from streams.geometry import Metric

__all__ = ["ALWAYS", "NEVER_ALL", "Completeness"]

#: Since when all objects of a query come here, where some of them go elsewhere.
NEVER_ALL = FOREVER

#: Objects have followed the same routes since the beginning.
ALWAYS = -FOREVER


class Counting(Protocol):
    """A core that counts the objects of queries.

    Attributes:
        routed_since: objects that are younger than this have followed the routes of now, older ones may be anywhere.
    """

    routed_since: int

    def numbers(self) -> Ints:
        """Return the numbers of all queries held."""

    def queries(self, numbers: Ints) -> QueryBatch:
        """Return those of these queries that are held."""

    def complete(self, numbers: Ints, since: Ints) -> None:
        """Note since when all objects of queries that are held come here."""

    def completeness(self, numbers: Ints) -> Ints:
        """Return since when all objects of queries that are held come here."""


class Completeness:
    """Watches the routes of the queries of one evaluator.

    Args:
        core: who counts.
        worker: the evaluator.
        metric: how far regions reach.
        schedule: the plans that objects follow; None where there is one evaluator.
    """

    def __init__(self, core: Counting, worker: int, metric: Metric, schedule: PlanSchedule | None) -> None:
        self._core, self._worker, self._metric, self._schedule = core, worker, metric, schedule

    def _alone(self, queries: QueryBatch) -> NDArray[np.bool_]:
        """Tell of which queries no other evaluator gets objects from now on."""
        if self._schedule is None:
            return np.ones(len(queries), np.bool_)
        off, worker = self._schedule.routes_from_now(queries, self._metric)
        alone: NDArray[np.bool_] = np.diff(off) == 1
        alone[alone] = worker[off[:-1][alone]] == self._worker
        return alone

    def register(self, new: QueryBatch) -> None:
        """Look at queries that have come."""
        self._core.complete(new.number, np.where(self._alone(new), self._core.routed_since, NEVER_ALL))

    def look_again(self, now: int | None) -> None:
        """Find out which queries have all of their objects here, now that objects follow other routes.

        Those up to now have followed the old ones; None: nobody knows up to when.
        """
        self._core.routed_since = NEVER_ALL if now is None else now
        numbers = self._core.numbers()
        before = self._core.completeness(numbers)
        since: Ints = np.where(before == NEVER_ALL, self._core.routed_since, before)
        self._core.complete(numbers, np.where(self._alone(self._core.queries(numbers)), since, NEVER_ALL))
