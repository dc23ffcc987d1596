"""Indexes of kept objects by name."""

from collections.abc import Callable, Mapping
from typing import Any

from operators.indexes.core.selection import made
from operators.indexes.objects.brute_objects import BruteObjects
from operators.indexes.objects.kept_index import KeptIndex
from operators.indexes.objects.object_index import ObjectIndex
from operators.indexes.objects.r_tree import RTree
from operators.indexes.objects.segments import Segments
from streams.geometry import Metric, Rect

__all__ = ["OBJECT_INDEXES", "make_object_index"]


def _segments(space: Rect, metric: Metric, chunk: int = 8192, middle: int = 16, large: int = 8) -> ObjectIndex:
    """Make segments of keyword grids: of `chunk` objects, merged by `middle`, and these by `large`."""
    return KeptIndex(Segments(space, chunk, middle, large), space, metric)


def _r_tree(space: Rect, metric: Metric, chunk: int = 8192, middle: int = 16, large: int = 8) -> ObjectIndex:
    """Make R-trees: of `chunk` objects, packed by `middle`, and these by `large`."""
    return KeptIndex(RTree(chunk, middle, large), space, metric)


#: Name in a declaration -> what makes the index, given a space, a metric and tuning options by keyword.
OBJECT_INDEXES: Mapping[str, Callable[..., ObjectIndex]] = {
    "segments": _segments,
    "r-tree": _r_tree,
    "brute": BruteObjects,
}


def make_object_index(name: str, space: Rect, metric: Metric = "euclidean", **options: Any) -> ObjectIndex:
    """Make an empty index.

    Args:
        name: one of `OBJECT_INDEXES`.
        space: where objects are; regions may reach beyond.
        metric: how far things are from each other.
        options: the index's own, see its class; all have defaults.
    """
    index: ObjectIndex = made(name, OBJECT_INDEXES, "object index", (space, metric), options)
    return index
