"""Range indexes by name."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from operators.indexes.core.query_table import QueryTable
from operators.indexes.core.structure import Structure
from operators.indexes.range.brute_force import BruteForce
from operators.indexes.range.fast import Fast
from operators.indexes.range.gi2 import GI2
from operators.indexes.range.kag import Kag
from operators.indexes.range.range_index import RangeIndex
from operators.indexes.range.standing_index import StandingIndex
from partitioners.grids.fine_grid import DEFAULT_SIDE, FineGrid
from streams.errors import DeclarationError, did_you_mean
from streams.geometry import METRICS, Metric, Rect

__all__ = ["INDEXES", "make_range_index"]

#: Name in a declaration -> what makes the structure, given a table and tuning options by keyword.
INDEXES: Mapping[str, Callable[..., Structure]] = {
    "kag": Kag,
    "fast": Fast,
    "gi2": GI2,
    "brute": BruteForce,
}


def make_range_index(
    name: str,
    space: Rect,
    metric: Metric = "euclidean",
    fine_grid: tuple[int, int] = (DEFAULT_SIDE, DEFAULT_SIDE),
    by_cell: bool = False,
    **options: Any,
) -> RangeIndex:
    """Make an empty index.

    Args:
        name: one of `INDEXES`.
        space: where objects are; queries may reach beyond.
        metric: what the radius of a circle means.
        fine_grid: columns and rows of the grid over which loads are aggregated.
        by_cell: whether loads are also kept for each cell, for centralised balancing.
        options: the structure's own, see its class; all have defaults.
    """
    if name not in INDEXES:
        raise DeclarationError(f"index '{name}'{did_you_mean(name, INDEXES)}, expected one of: {', '.join(INDEXES)}")
    if metric not in METRICS:
        raise DeclarationError(
            f"metric '{metric}'{did_you_mean(metric, METRICS)}, expected one of: {', '.join(METRICS)}"
        )
    make = INDEXES[name]
    known = [option for option in inspect.signature(make).parameters if option != "table"]
    for option in options:
        if option not in known:
            raise DeclarationError(
                f"option '{option}' of index '{name}'{did_you_mean(option, known)}, "
                f"expected {'one of: ' + ', '.join(known) if known else 'none'}"
            )

    def structure(table: QueryTable) -> Structure:
        return make(table, **options)

    return StandingIndex(structure, FineGrid(space, *fine_grid), metric, by_cell)
