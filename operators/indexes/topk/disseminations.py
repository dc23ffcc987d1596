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


def dissemination(name: str, **options: Any) -> Callable[[ScoredTable], Dissemination]:
    """Return what makes an empty structure over a table.

    Args:
        name: one of `DISSEMINATIONS`.
        options: the structure's own, see its class; all have defaults.
    """
    if name not in DISSEMINATIONS:
        listed = ", ".join(DISSEMINATIONS)
        raise DeclarationError(f"index '{name}'{did_you_mean(name, DISSEMINATIONS)}, expected one of: {listed}")
    make = DISSEMINATIONS[name]
    known = [option for option in inspect.signature(make).parameters if option != "table"]
    for option in options:
        if option not in known:
            raise DeclarationError(
                f"option '{option}' of index '{name}'{did_you_mean(option, known)}, "
                f"expected {'one of: ' + ', '.join(known) if known else 'none'}"
            )
    return lambda table: make(table, **options)
