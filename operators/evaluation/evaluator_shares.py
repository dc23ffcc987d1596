"""What evaluators of range queries hold, put together and divided again."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from operators.indexes.range.standing_index import SAVED_COLUMNS, registrations, saved_columns
from operators.redistribution import Division
from streams.batches import QueryBatch
from streams.columns import Ids, csr_take

__all__ = ["divided_shares", "live_queries"]

State = dict[str, Any]


def live_queries(states: Sequence[State]) -> QueryBatch:
    """Return the queries of all evaluators, each once, with the identifiers that users gave.

    A query that several hold ends when the first of them says so: another copy may be older than an unregistration.
    """
    parts = [registrations({name: np.asarray(state["index"][name]) for name in SAVED_COLUMNS}) for state in states]
    named = [replace(part, ids=_ids_of(part.number, state["ids"])) for part, state in zip(parts, states, strict=True)]
    whole = QueryBatch.concat([QueryBatch.empty(), *named])
    order = np.lexsort((whole.end, whole.number))
    numbers = whole.number[order]
    first = np.ones(len(order), np.bool_)
    first[1:] = numbers[1:] != numbers[:-1]
    return whole.take(order[first])


def _ids_of(numbers: np.ndarray[Any, np.dtype[np.int64]], state: State) -> Ids:
    ids: Ids = state["ids"]
    return ids.take(np.searchsorted(state["numbers"], numbers))


def divided_shares(states: Sequence[State], division: Division) -> list[State]:
    """Return the states of evaluators that hold what the new routes say; costs are counted afresh."""
    assert division.queries is not None
    assert division.routes is not None
    off, workers = division.routes
    several = np.flatnonzero(np.diff(off) > 1)
    shares = []
    for worker in range(division.tasks):
        rows = division.rows_of(worker)
        held = division.queries.take(rows)
        met = np.intersect1d(rows, several)
        met_off, met_workers = csr_take(off, workers, met)
        shares.append(
            {
                "index": {**saved_columns(held), **_nothing_else(states[0]["index"])},
                "ids": {"numbers": held.number, "ids": held.ids},
                "examined": 0,
                "meetings": {"numbers": division.queries.number[met], "off": met_off, "workers": met_workers},
                "share": None,
            }
        )
    return shares


def _nothing_else(index: State) -> State:
    """Return the rest of an index's state for queries that are all awake and have cost nothing yet."""
    costs = {name: np.zeros_like(index[name]) for name in index if name not in SAVED_COLUMNS}
    return costs | {"asleep": np.empty(0, np.int64)}
