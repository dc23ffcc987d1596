"""Finders of affected queries and refillers by name."""

from collections.abc import Callable, Mapping
from typing import Any

from operators.indexes.core.selection import made
from operators.indexes.dynamic.aqf import Aqf
from operators.indexes.dynamic.ball_finder import brute_balls, pyramid_balls
from operators.indexes.dynamic.brute_refiller import BruteRefiller, all_distances, all_scores
from operators.indexes.dynamic.dynamic_index import Refiller
from operators.indexes.dynamic.grid_refiller import gcl, gpcl, kmax
from operators.indexes.dynamic.nearest_queries import NearestQueries
from operators.indexes.dynamic.nearest_search import NearestSearch
from operators.indexes.dynamic.object_table import ObjectTable
from operators.indexes.dynamic.scored_search import ScoredSearch
from operators.indexes.dynamic.threshold_buffers import ThresholdBuffers
from operators.indexes.topk.balls import Balls
from operators.indexes.topk.brute_dissemination import BruteForce
from operators.indexes.topk.ciq import Ciq
from operators.indexes.topk.igpt import Igpt
from operators.indexes.topk.subscriptions import ScoredSubscriptions
from operators.indexes.topk.topk_index import Dissemination

__all__ = [
    "FINDERS", "NEAREST_FINDERS", "NEAREST_REFILLERS", "PLANE_ONLY", "REFILLERS", "make_nearest_refiller", "make_refiller",
]  # fmt: skip


def buffers(
    objects: ObjectTable, queries: ScoredSubscriptions, slack: float = 0.62, least_slack: int = 24, reserve: float = 0.8
) -> Refiller:
    """Return threshold buffers of `topk` queries."""
    return ThresholdBuffers(objects, queries, ScoredSearch(objects, queries), slack, least_slack, reserve)


def nearest_buffers(
    objects: ObjectTable, queries: NearestQueries, slack: float = 0.62, least_slack: int = 24, reserve: float = 0.8
) -> Refiller:
    """Return threshold buffers of `knn` queries."""
    return ThresholdBuffers(objects, queries, NearestSearch(objects, queries), slack, least_slack, reserve)


def brute(objects: ObjectTable, queries: ScoredSubscriptions) -> Refiller:
    """Return lists of `topk` queries, for which all objects are scored."""
    return BruteRefiller(objects, queries, all_scores)


def nearest_brute(objects: ObjectTable, queries: NearestQueries) -> Refiller:
    """Return lists of `knn` queries, for which all distances are computed."""
    return BruteRefiller(objects, queries, all_distances)


#: Name in a declaration -> what makes the finder, given a table of queries and tuning options by keyword.
FINDERS: Mapping[str, Callable[..., Dissemination]] = {
    "pyramid": Balls,
    "aqf": Aqf,
    "igpt": Igpt,
    "ciq": Ciq,
    "brute": BruteForce,
}

#: Name in a declaration -> what makes the refiller, given a table of objects, queries and tuning options by keyword.
REFILLERS: Mapping[str, Callable[..., Refiller]] = {
    "buffers": buffers,
    "gpcl": gpcl,
    "gcl": gcl,
    "kmax": kmax,
    "brute": brute,
}

#: The same for `knn` queries. The paper's methods, and those that it compares, are made for scores and have no part here.
NEAREST_FINDERS: Mapping[str, Callable[..., Dissemination]] = {"pyramid": pyramid_balls, "brute": brute_balls}
NEAREST_REFILLERS: Mapping[str, Callable[..., Refiller]] = {"buffers": nearest_buffers, "brute": nearest_brute}

#: Those, of either kind, that reckon in the plane: they cannot be used where distances are on the globe.
PLANE_ONLY: frozenset[str] = frozenset({"gpcl", "gcl", "kmax"})


def make_refiller(name: str, objects: ObjectTable, queries: ScoredSubscriptions, **options: Any) -> Refiller:
    """Make a refiller without lists.

    Args:
        name: one of `REFILLERS`.
        objects: the current states.
        queries: the rows of queries.
        options: the refiller's own, see its class; all have defaults.
    """
    refiller: Refiller = made(name, REFILLERS, "refill", (objects, queries), options)
    return refiller


def make_nearest_refiller(name: str, objects: ObjectTable, queries: NearestQueries, **options: Any) -> Refiller:
    """Make a refiller of `knn` queries without lists; as `make_refiller`, out of `NEAREST_REFILLERS`."""
    refiller: Refiller = made(name, NEAREST_REFILLERS, "refill", (objects, queries), options)
    return refiller
