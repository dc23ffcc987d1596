"""Indexes of continuous top-k frequent term queries by name."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from operators.indexes.core.query_table import QueryTable
from operators.indexes.terms.brute_force import BruteForce
from operators.indexes.terms.candidates import Candidates
from operators.indexes.terms.groups import Groups
from operators.indexes.terms.standing_terms import StandingTerms
from operators.indexes.terms.term_window import TermWindow
from operators.indexes.terms.terms_index import CountStructure
from streams.errors import DeclarationError, did_you_mean
from streams.geometry import Metric, Rect

__all__ = ["TERMS_INDEXES", "make_terms_index"]

#: Name in a declaration -> what makes the structure, given a table, the window and tuning options by keyword.
TERMS_INDEXES: Mapping[str, Callable[..., CountStructure]] = {
    "candidates": Candidates,
    "groups": Groups,
    "brute": BruteForce,
}


def make_terms_index(
    name: str, space: Rect, metric: Metric = "euclidean", task: str = "terms", **options: Any
) -> StandingTerms:
    """Make an empty index.

    Args:
        name: one of `TERMS_INDEXES`.
        space: where objects and queries are.
        metric: what a circle is.
        task: a name for the objects that it keeps, another for each index of one run.
        options: the structure's own, see its class; all have defaults.
    """
    if name not in TERMS_INDEXES:
        listed = ", ".join(TERMS_INDEXES)
        raise DeclarationError(f"index '{name}'{did_you_mean(name, TERMS_INDEXES)}, expected one of: {listed}")
    make = TERMS_INDEXES[name]
    known = [option for option in inspect.signature(make).parameters if option not in ("table", "window")]
    for option in options:
        if option not in known:
            raise DeclarationError(
                f"option '{option}' of index '{name}'{did_you_mean(option, known)}, "
                f"expected {'one of: ' + ', '.join(known) if known else 'none'}"
            )

    def structure(table: QueryTable, window: TermWindow) -> CountStructure:
        return make(table, window, **options)

    return StandingTerms(structure, space, metric, task)
