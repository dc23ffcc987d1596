"""Finders of affected queries and refillers by name."""

from collections.abc import Callable, Mapping
from typing import Any

from operators.indexes.core.selection import made
from operators.indexes.dynamic.aqf import Aqf
from operators.indexes.dynamic.brute_refiller import BruteRefiller
from operators.indexes.dynamic.dynamic_index import Refiller
from operators.indexes.dynamic.grid_refiller import gcl, gpcl, kmax
from operators.indexes.dynamic.object_table import ObjectTable
from operators.indexes.dynamic.threshold_buffers import ThresholdBuffers
from operators.indexes.topk.balls import Balls
from operators.indexes.topk.brute_dissemination import BruteForce
from operators.indexes.topk.ciq import Ciq
from operators.indexes.topk.igpt import Igpt
from operators.indexes.topk.subscriptions import ScoredSubscriptions
from operators.indexes.topk.topk_index import Dissemination

__all__ = ["FINDERS", "PLANE_ONLY", "REFILLERS", "make_refiller"]

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
    "buffers": ThresholdBuffers,
    "gpcl": gpcl,
    "gcl": gcl,
    "kmax": kmax,
    "brute": BruteRefiller,
}

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
