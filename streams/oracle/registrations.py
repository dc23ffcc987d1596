"""Queries as the oracle sees them: registrations, each with the end of its life."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from streams.batches import (
    OP_REGISTER,
    OP_UNREGISTER,
    QUERY_TYPES,
    TYPE_KNN,
    TYPE_RANGE,
    TYPE_TERMS,
    TYPE_TOPK,
    QueryBatch,
)
from streams.columns import Ints
from streams.errors import InputError
from streams.polygons import Rings
from streams.residual_columns import rings_of

__all__ = ["Registration", "registered"]


@dataclass(frozen=True, slots=True, eq=False)
class Registration:
    """One query, alive from `ts` until `end` (exclusive); the other fields are those of `QueryBatch`."""

    number: int
    id: int | str
    ts: int
    end: int
    type: int
    continuous: bool
    match_any: bool
    region: int
    shape: tuple[float, float, float, float]
    k: int
    alpha: float
    window: int
    slide: int
    detect: int
    keywords: Ints
    none: Ints
    rings: Rings

    @property
    def lives(self) -> bool:
        """Tell whether there is an instant at which the query is alive; one that has none has no result."""
        return self.end > self.ts

    @property
    def ranked(self) -> bool:
        """Tell whether the result is a list of objects best first that changes while the query lives."""
        return self.continuous and self.type in (TYPE_KNN, TYPE_TOPK)

    @property
    def result_type(self) -> str:
        """Return the name of its row in the contract's table of results."""
        return QUERY_TYPES[self.type] + ("" if self.continuous else " snapshot")

    @classmethod
    def each(cls, batch: QueryBatch) -> "Iterator[Registration]":
        """Yield the rows of a batch of registrations."""
        ids = batch.ids.to_list()
        for row in range(len(batch)):
            a, b, c, d = batch.shape[row].tolist()
            yield cls(
                number=int(batch.number[row]),
                id=ids[row],
                ts=int(batch.ts[row]),
                end=int(batch.end[row]),
                type=int(batch.type[row]),
                continuous=bool(batch.continuous[row]),
                match_any=bool(batch.match_any[row]),
                region=int(batch.region[row]),
                shape=(a, b, c, d),
                k=int(batch.k[row]),
                alpha=float(batch.alpha[row]),
                window=int(batch.window[row]),
                slide=int(batch.slide[row]),
                detect=int(batch.detect[row]),
                keywords=batch.kw[batch.kw_off[row] : batch.kw_off[row + 1]],
                none=batch.none[batch.none_off[row] : batch.none_off[row + 1]],
                rings=rings_of(batch, row),
            )


def registered(queries: QueryBatch) -> tuple[Registration, ...]:
    """Return the registrations in input order, their ends lowered by the unregistrations that name them."""
    if (np.diff(queries.ts) < 0).any():
        raise InputError("query operations go back in time; expected non-decreasing ts")
    batch = queries.take(np.flatnonzero(queries.op == OP_REGISTER))
    gone = np.flatnonzero(queries.op == OP_UNREGISTER)
    order = np.argsort(batch.number, kind="stable")
    numbers = batch.number[order]
    if (np.diff(numbers) == 0).any():
        raise InputError("two registrations have the same number; expected the place in the query input")
    place = np.searchsorted(numbers, queries.target[gone])
    known = place < len(numbers)
    known[known] = numbers[place[known]] == queries.target[gone][known]
    if not known.all():
        row = int(gone[~known][0])
        raise InputError(
            f"operation {queries.number[row]} ends query {queries.target[row]}, which is not registered here; "
            "expected the number of a registration in the same input"
        )
    end = batch.end.copy()
    np.minimum.at(end, order[place], queries.ts[gone])
    made = tuple(Registration.each(replace(batch, end=end)))
    for registration in made:
        _check(registration)
    return made


def _check(q: Registration) -> None:
    """Refuse what has no defined result, rather than to make one up."""
    name = f"query {q.id!r} (operation {q.number})"
    if q.type >= len(QUERY_TYPES):
        raise InputError(f"{name} has type {q.type}, expected a place in {QUERY_TYPES}")
    if q.type != TYPE_RANGE and q.k < 1:
        raise InputError(f"{name} has k = {q.k}, expected a positive integer")
    if q.type == TYPE_TOPK and not q.continuous:
        raise InputError(f"{name} is a topk snapshot, which has no defined result; register it as continuous")
    if q.type == TYPE_TOPK and not len(q.keywords):
        raise InputError(f"{name} is a topk query without keywords; give it at least one")
    if q.detect and not (q.type == TYPE_RANGE and q.continuous):
        raise InputError(f"{name} has detect, which continuous range queries have only")
    if q.type == TYPE_TOPK and len(q.none):
        raise InputError(f"{name} is a topk query with keywords in none, which has no defined result; leave them out")
    if q.type == TYPE_TERMS and q.continuous and q.slide < 1:
        raise InputError(f"{name} has slide = {q.slide}, expected a positive number of milliseconds")
