"""Indexes of the window's messages by name."""

from collections.abc import Callable, Mapping
from typing import Any

from operators.indexes.core.selection import made
from operators.indexes.topk.brute_messages import BruteMessages
from operators.indexes.topk.ir_tree import IrTree
from operators.indexes.topk.keyword_grids import KeywordGrids
from operators.indexes.topk.topk_index import MessageIndex
from streams.geometry import Metric, Rect

__all__ = ["MESSAGE_INDEXES", "make_message_index"]

#: Name in a declaration -> what makes the index, given a space, a metric and tuning options by keyword.
MESSAGE_INDEXES: Mapping[str, Callable[..., MessageIndex]] = {
    "keyword-grids": KeywordGrids,
    "ir-tree": IrTree,
    "brute": BruteMessages,
}


def make_message_index(name: str, space: Rect, metric: Metric = "euclidean", **options: Any) -> MessageIndex:
    """Make an empty index.

    Args:
        name: one of `MESSAGE_INDEXES`.
        space: where messages and subscriptions are.
        metric: how far they are from each other.
        options: the index's own, see its class; all have defaults.
    """
    index: MessageIndex = made(name, MESSAGE_INDEXES, "message index", (space, metric), options)
    return index
