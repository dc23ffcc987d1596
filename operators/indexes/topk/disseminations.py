"""Structures of dissemination by name."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from operators.indexes.topk.balls import Balls
from operators.indexes.topk.brute_dissemination import BruteForce
from operators.indexes.topk.ciq import Ciq
from operators.indexes.topk.igpt import Igpt, ipt
from operators.indexes.topk.scored_table import ScoredTable
from operators.indexes.topk.topk_index import Dissemination
from streams.errors import DeclarationError, did_you_mean

__all__ = ["DISSEMINATIONS", "dissemination"]

#: Name in a declaration -> what makes the structure, given a table and tuning options by keyword.
DISSEMINATIONS: Mapping[str, Callable[..., Dissemination]] = {
    "balls": Balls,
    "igpt": Igpt,
    "ipt": ipt,
    "ciq": Ciq,
    "brute": BruteForce,
}


def dissemination(
    name: str, known: Mapping[str, Callable[..., Dissemination]] = DISSEMINATIONS, **options: Any
) -> Callable[[ScoredTable], Dissemination]:
    """Return what makes an empty structure over a table.

    Args:
        name: one of those that are known.
        known: structures by name.
        options: the structure's own, see its class; all have defaults.
    """
    if name not in known:
        raise DeclarationError(f"index '{name}'{did_you_mean(name, known)}, expected one of: {', '.join(known)}")
    make = known[name]
    taken = [option for option in inspect.signature(make).parameters if option != "table"]
    for option in options:
        if option not in taken:
            raise DeclarationError(
                f"option '{option}' of index '{name}'{did_you_mean(option, taken)}, "
                f"expected {'one of: ' + ', '.join(taken) if taken else 'none'}"
            )
    return lambda table: make(table, **options)
