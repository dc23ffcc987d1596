"""Indexes of continuous k-nearest-neighbour queries by name."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from operators.indexes.core.query_table import QueryTable
from operators.indexes.knn.brute_force import BruteForce
from operators.indexes.knn.grid_inverted import GridInverted
from operators.indexes.knn.inverted import Inverted
from operators.indexes.knn.knn_index import BallStructure
from operators.indexes.knn.nearest_lists import NearestLists
from operators.indexes.knn.pyramid import RadiusPyramid
from operators.indexes.knn.sea_cnn import SeaCnn
from operators.indexes.knn.standing_knn import StandingKnn
from operators.indexes.knn.subsets import Subsets
from streams.errors import DeclarationError, did_you_mean
from streams.geometry import Metric, Rect

__all__ = ["KNN_INDEXES", "make_knn_index"]

#: Name in a declaration -> what makes the structure, given a table, its lists and tuning options by keyword.
KNN_INDEXES: Mapping[str, Callable[..., BallStructure]] = {
    "pyramid": RadiusPyramid,
    "grid-inverted": GridInverted,
    "inverted": Inverted,
    "sea-cnn": SeaCnn,
    "subsets": Subsets,
    "brute": BruteForce,
}


def make_knn_index(name: str, space: Rect, metric: Metric = "euclidean", **options: Any) -> StandingKnn:
    """Make an empty index.

    Args:
        name: one of `KNN_INDEXES`.
        space: where objects and subscriptions are.
        metric: what nearest means.
        options: the structure's own, see its class; all have defaults.
    """
    if name not in KNN_INDEXES:
        listed = ", ".join(KNN_INDEXES)
        raise DeclarationError(f"index '{name}'{did_you_mean(name, KNN_INDEXES)}, expected one of: {listed}")
    make = KNN_INDEXES[name]
    known = [option for option in inspect.signature(make).parameters if option.strip("_") not in ("table", "lists")]
    for option in options:
        if option not in known:
            raise DeclarationError(
                f"option '{option}' of index '{name}'{did_you_mean(option, known)}, "
                f"expected {'one of: ' + ', '.join(known) if known else 'none'}"
            )

    def structure(table: QueryTable, lists: NearestLists) -> BallStructure:
        return make(table, lists, **options)

    return StandingKnn(structure, space, metric)
