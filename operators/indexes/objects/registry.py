"""Indexes of kept objects by name."""

from collections.abc import Callable, Mapping
from typing import Any

from operators.indexes.objects.brute_objects import BruteObjects
from operators.indexes.objects.object_index import ObjectIndex
from operators.indexes.objects.segments import Segments
from operators.indexes.topk.message_indexes import made
from streams.geometry import Metric, Rect

__all__ = ["OBJECT_INDEXES", "make_object_index"]

#: Name in a declaration -> what makes the index, given a space, a metric and tuning options by keyword.
OBJECT_INDEXES: Mapping[str, Callable[..., ObjectIndex]] = {
    "segments": Segments,
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
