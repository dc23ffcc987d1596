"""`knn` queries over moving objects: a table, thresholds, and a structure that finds those which new states concern."""

from typing import Any

from operators.indexes.core.refusals import check_nearest
from operators.indexes.core.standing_queries import StandingQueries
from operators.indexes.dynamic.ball_finder import BallTable
from operators.indexes.topk.subscriptions import ScoredSubscriptions
from streams.batches import QueryBatch

__all__ = ["NearestQueries"]


class NearestQueries(ScoredSubscriptions):
    """Queries whose score is the negative distance, and whose keywords are conditions: any, all, none, or no keywords.

    Thresholds, numbers and what is remembered of work are as for scored subscriptions.
    """

    def _new_table(self) -> Any:
        return BallTable(self._space, self._metric)

    def _check(self, queries: QueryBatch) -> None:
        StandingQueries._check(self, queries)
        check_nearest(queries)
