"""Textual summaries of the evaluators, as Tornado's routers keep them (section 3.1).

An object can match a query only if it has one certain keyword of the query, so the router keeps one for each: its rarest. An
object none of whose keywords is in the textual summary of its evaluator is not sent. Keywords are counted, not just listed:
registrations count up, what evaluators remove counts down, and since both only add, no order of arrival can lose a keyword.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partitioners.columns import Csr, column
from streams.batches import OP_UPSERT, TYPE_TOPK, ObjectBatch, QueryBatch, TupleBatch
from streams.columns import Ints
from streams.kernel import kernel

__all__ = ["EVERY_OBJECT", "TEXTUAL_FIELDS", "TextualSummary", "textual_changes", "textual_keywords"]

TEXTUAL_FIELDS = ("worker", "keyword", "count")

#: Stands for "every object": what a textual summary counts for a query without keywords.
EVERY_OBJECT = -1

_SMALLEST = 1024
_FREE = -2


def textual_keywords(queries: QueryBatch) -> tuple[Ints, Ints]:
    """Return (row, keyword) pairs: an object that has none of a row's keywords cannot match its query.

    One keyword where all are wanted, the rarest: ids are ranks by frequency, and words never seen come after all ranks.
    Where any will do, as in top-k queries, each of them.
    """
    counts = np.diff(queries.kw_off)
    any_ = (queries.match_any | (queries.type == TYPE_TOPK)) & (counts > 1)
    one = np.flatnonzero((counts > 0) & ~any_)
    several = np.flatnonzero(any_)
    none = np.flatnonzero(counts == 0)
    place = np.repeat(np.arange(len(queries)), counts)
    wanted = any_[place]
    keyword: Ints = np.zeros(len(queries), np.int64)
    if len(one):
        filled = np.flatnonzero(counts > 0)
        keyword[filled] = np.maximum.reduceat(queries.kw, queries.kw_off[filled])
    rows = [one, place[wanted], none] if len(several) else [one, none]
    words = [keyword[one], queries.kw[wanted], np.full(len(none), EVERY_OBJECT, np.int64)]
    return np.concatenate(rows), np.concatenate(words if len(several) else [words[0], words[2]])


def textual_changes(queries: QueryBatch, routes: Csr, sign: int = 1) -> TupleBatch | None:
    """Return what queries that come (sign 1) or go (sign -1) change in the textual summaries of their workers, or None."""
    row, keyword = textual_keywords(queries)
    off, worker = routes
    times = np.diff(off)[row]
    if not times.sum():
        return None
    before = np.repeat(np.cumsum(times) - times, times)
    at = np.repeat(np.asarray(off, np.int64)[row], times) + np.arange(int(times.sum())) - before
    workers, keywords = np.asarray(worker, np.int64)[at], np.repeat(keyword, times)
    order = np.lexsort((keywords, workers))
    workers, keywords = workers[order], keywords[order]
    new = np.append(True, (workers[1:] != workers[:-1]) | (keywords[1:] != keywords[:-1]))
    first = np.flatnonzero(new)
    counts = np.diff(np.append(first, len(workers))) * sign
    return TupleBatch(TEXTUAL_FIELDS, (workers[first], keywords[first], counts))


class TextualSummary:
    """How many queries of each worker need each keyword. A look-up is one probe of a hash table for each keyword."""

    def __init__(self, workers: int) -> None:
        self._every: Ints = np.zeros(workers, np.int64)
        self._table: Ints = _empty(_SMALLEST)
        self._used = 0

    def __len__(self) -> int:
        """Return how many pairs of worker and keyword are needed by some query."""
        return int((self._table[:, 2] > 0).sum() + (self._every > 0).sum())

    def apply(self, changes: Sequence[TupleBatch]) -> None:
        """Count changes in."""
        for batch in changes:
            workers, keywords, counts = (column(batch.column(name), np.int64) for name in TEXTUAL_FIELDS)
            every = keywords == EVERY_OBJECT
            np.add.at(self._every, workers[every], counts[every])
            if not every.all():
                self._make_room(len(workers))
                self._used += _count(self._table, workers, keywords, counts)

    def _make_room(self, more: int) -> None:
        """Keep the table at most half full, without the keywords that nobody needs any more."""
        if 2 * (self._used + more) > len(self._table):
            self._fill(self._table[self._table[:, 2] != 0], more)

    def _fill(self, rows: Ints, more: int = 0) -> None:
        self._table = _empty(max(_SMALLEST, 1 << (4 * (len(rows) + more) - 1).bit_length()))
        keywords, workers, counts = (column(rows[:, place], np.int64) for place in range(3))
        self._used = _count(self._table, workers, keywords, counts)

    def admitted(self, objects: ObjectBatch, routes: Csr) -> Csr:
        """Return the routes without those to workers whose queries cannot match; deletions go everywhere they would."""
        off, worker = column(routes[0], np.int32), column(routes[1], np.int32)
        kw_off, kw = column(objects.kw_off, np.int32), column(objects.kw, np.int64)
        plain = column(objects.op == OP_UPSERT, np.bool_)
        found: Csr = _admitted(off, worker, kw_off, kw, plain, self._every, self._table)
        return found

    def snapshot(self) -> dict[str, Any]:
        """Return what is counted."""
        return {"every": self._every.copy(), "table": self._table[self._table[:, 2] != 0]}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a snapshot."""
        self._every[:] = state["every"]
        self._fill(np.asarray(state["table"], np.int64).reshape(-1, 3))


def _empty(size: int) -> Ints:
    """Return a table of free places; rows are keyword, worker, count."""
    table = np.zeros((size, 3), np.int64)
    table[:, 0] = _FREE
    return table


@kernel
def _place(keyword: int, worker: int, mask: int) -> Any:
    mixed = (keyword + worker * np.int64(3202034522624059733)) * np.int64(-7046029254386353131)
    return (mixed >> 29) & mask


@kernel
def _count(table: Ints, workers: Ints, keywords: Ints, counts: Ints) -> Any:
    """Add counts; return how many places were taken."""
    mask, taken = table.shape[0] - 1, 0
    for i in range(len(keywords)):
        if keywords[i] == EVERY_OBJECT:
            continue
        place = _place(keywords[i], workers[i], mask)
        while table[place, 0] != _FREE and (table[place, 0] != keywords[i] or table[place, 1] != workers[i]):
            place = (place + 1) & mask
        if table[place, 0] == _FREE:
            table[place, 0], table[place, 1] = keywords[i], workers[i]
            taken += 1
        table[place, 2] += counts[i]
    return taken


@kernel
def _admitted(
    off: NDArray[np.int32],
    worker: NDArray[np.int32],
    kw_off: NDArray[np.int32],
    kw: Ints,
    plain: NDArray[np.bool_],
    every: Ints,
    table: Ints,
) -> Any:
    mask = table.shape[0] - 1
    out_off, out = np.zeros(len(off), np.int32), np.empty(len(worker), np.int32)
    top = 0
    for i in range(len(off) - 1):
        for route in range(off[i], off[i + 1]):
            w = worker[route]
            wanted = every[w] > 0 or not plain[i]
            k = kw_off[i + 1]
            while not wanted and k > kw_off[i]:  # from the rarest: where queries have it, it is most likely theirs
                k -= 1
                place = _place(kw[k], w, mask)
                while table[place, 0] != _FREE and (table[place, 0] != kw[k] or table[place, 1] != w):
                    place = (place + 1) & mask
                wanted = table[place, 0] == kw[k] and table[place, 2] > 0
            if wanted:
                out[top] = w
                top += 1
        out_off[i + 1] = top
    return out_off, out[:top]
