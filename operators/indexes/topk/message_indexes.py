"""Indexes of the window's messages by name."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from operators.indexes.topk.brute_messages import BruteMessages
from operators.indexes.topk.ir_tree import IrTree
from operators.indexes.topk.keyword_grids import KeywordGrids
from operators.indexes.topk.topk_index import MessageIndex
from streams.errors import DeclarationError, did_you_mean
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


def made(name: str, known: Mapping[str, Callable[..., Any]], kind: str, given: tuple[Any, ...], options: Any) -> Any:
    """Make what a name stands for, or say what is wrong with the name or an option."""
    if name not in known:
        raise DeclarationError(f"{kind} '{name}'{did_you_mean(name, known)}, expected one of: {', '.join(known)}")
    names = list(inspect.signature(known[name]).parameters)[len(given) :]
    for option in options:
        if option not in names:
            raise DeclarationError(
                f"option '{option}' of {kind} '{name}'{did_you_mean(option, names)}, "
                f"expected {'one of: ' + ', '.join(names) if names else 'none'}"
            )
    return known[name](*given, **options)
